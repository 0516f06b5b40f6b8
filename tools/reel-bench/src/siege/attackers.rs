//! The process of attackers, as the experiment sees it.

use super::attack::{Attack, Attacked};
use super::cable::{http, https};
use super::site::Site;
use anyhow::{Context, Result, ensure};
use std::env;
use std::io::Read;
use std::process::{Child, Command, Stdio};

/// A running process of attackers. It is ended with this value.
pub(super) struct Attackers(Child);

/// What a process of attackers is told.
pub(super) struct Orders<'a> {
    pub(super) attacks: &'a [Attack],
    pub(super) titles: &'a [String],
    pub(super) seconds: u64,
    /// Processor time, in hundredths of one processor.
    pub(super) percent: u32,
}

impl Attackers {
    /// Starts it on the clients' side of the network, under its quota.
    pub(super) fn start(site: &Site, orders: &Orders<'_>) -> Result<Self> {
        let attacks: Vec<_> = orders.attacks.iter().map(|attack| attack.name()).collect();
        let mut command = Command::new(env::current_exe()?);
        command.arg("siege-attack").args(["--http", &http().to_string(), "--https", &https().to_string()]);
        command.args(["--seconds", &orders.seconds.to_string(), "--attacks", &attacks.join(",")]);
        command.args(["--titles", &orders.titles.join(",")]).arg("--film").arg(&site.small);
        command.arg("--certificate").arg(site.certificate());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = site.cable.far.inside(|| command.spawn().context("starting the attackers"))?;
        let attackers = Self(child);
        site.confine(attackers.0.id(), orders.percent).context("the quota of the attackers")?;
        Ok(attackers)
    }

    /// Waits for its end; what it did.
    pub(super) fn finish(mut self) -> Result<Attacked> {
        let mut text = String::new();
        self.0.stdout.take().context("its output is a pipe")?.read_to_string(&mut text)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "the attackers ended with {status}");
        serde_json::from_str(&text).context("the attackers print JSON")
    }
}

impl Drop for Attackers {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
