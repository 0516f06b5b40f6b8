//! The network, the volume and the server of the experiment.

use super::Size;
use super::cost::Meter;
use crate::api;
use crate::server::{Server, free_address};
use anyhow::{Context, Result, ensure};
use reel_report::output;
use reel_wire::space::{Space, ip};
use serde_json::{Value, json};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The interface that packets leave by.
pub(super) const DEVICE: &str = "cast0";
/// The group of the first cast.
pub(super) const GROUP: &str = "239.1.1.1";
pub(super) const PORT: u16 = 5000;
/// The server, as receivers see it.
const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 71, 1, 1));

/// Longest time until a cast sends its first packet.
const BEGIN_MAX: Duration = Duration::from_secs(30);

/// Longest time until a cast that is not repeated ends.
const END_MAX: Duration = Duration::from_secs(120);

/// A network name space with the interface, and a volume. Both are gone with this value.
pub(super) struct Site {
    pub(super) space: Space,
    far: Option<Space>,
    reel: PathBuf,
    volume: PathBuf,
}

/// A server that runs, and how it is asked.
pub(super) struct Casting<'a> {
    pub(super) site: &'a Site,
    pub(super) server: Server,
}

/// How a server is set up.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    /// The most packets of a train; 0 for trains as a server sends them.
    pub(super) train_packets: usize,
    /// The priority of the server's threads over ordinary ones (`SCHED_FIFO`); 0 for none.
    pub(super) priority: usize,
    /// The network's rate that admission counts with; that of the interface if it is not set.
    pub(super) network_bps: Option<u64>,
}

impl Site {
    /// Makes the network with an `ifb`, and a volume of five members with these streams.
    ///
    /// # Errors
    /// Without root, and those of the programs that make them.
    pub(super) fn make(size: &Size, name: &str, streams: &[PathBuf]) -> Result<Site> {
        let space = Space::make()?;
        space.inside(|| {
            ip(&["link", "add", DEVICE, "type", "ifb"])?;
            ip(&["link", "set", DEVICE, "multicast", "on"])?;
            addresses("10.71.1.1/24")
        })?;
        Self::with_volume(size, (name, streams), (space, None))
    }

    /// The same with a cable to a second name space, for receivers.
    ///
    /// # Errors
    /// As [`Site::make`].
    pub(super) fn with_receivers(size: &Size, name: &str, streams: &[PathBuf]) -> Result<Site> {
        let (space, far) = (Space::make()?, Space::make()?);
        let holder = far.holder().to_string();
        let veth = ["type", "veth", "peer", "name", DEVICE, "netns", &holder];
        space.inside(|| ip(&[&["link", "add", DEVICE], &veth[..]].concat()))?;
        space.inside(|| addresses("10.71.1.1/24"))?;
        far.inside(|| addresses("10.71.1.2/24"))?;
        Self::with_volume(size, (name, streams), (space, Some(far)))
    }

    fn with_volume(
        size: &Size,
        (name, streams): (&str, &[PathBuf]),
        (space, far): (Space, Option<Space>),
    ) -> Result<Site> {
        let volume = size.dir.join(format!("cast-{name}-{}", std::process::id()));
        let site = Site { space, far, reel: size.reel.clone(), volume };
        let mut bytes = 0;
        for stream in streams {
            bytes += fs::metadata(stream)?.len();
        }
        // A stream is stored with what players play of it; a fifth is parity.
        let room = (bytes * 3 + (200 << 20)).to_string();
        output(site.command("volume", &["create"]).args(["--size", &room, "--geometry", "ts"]))?;
        output(site.command("ingest", &[]).args(streams).args(["--form", "ts"]))?;
        output(site.command("probe", &[]).args(["--seconds", if size.quick { "1" } else { "5" }]))?;
        Ok(site)
    }

    /// The name space of receivers.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn far(&self) -> Result<&Space> {
        self.far.as_ref().context("this network has no receivers")
    }

    /// The measured program.
    pub(super) fn reel(&self) -> &Path {
        &self.reel
    }

    /// A file beside the volume, for the measurement.
    pub(super) fn file(&self, kind: &str) -> PathBuf {
        self.volume.with_extension(kind)
    }

    /// `reel` with a command about the volume.
    fn command(&self, word: &str, more: &[&str]) -> Command {
        let mut command = Command::new(&self.reel);
        command.args(["--quiet", word]).args(more).arg(&self.volume).stdin(Stdio::null());
        command
    }

    /// Starts a server.
    ///
    /// # Errors
    /// What it printed if it does not start.
    pub(super) fn serve(&self, setup: &Setup) -> Result<Casting<'_>> {
        let [config, log] = ["toml", "log"].map(|kind| self.volume.with_extension(kind));
        let text =
            format!(
                "arena_bytes = {}\n[experimental]\ncast_train_packets = {}\nreal_time_priority = {}\n",
                1_u64 << 30,
                setup.train_packets,
                setup.priority
            ) + &setup.network_bps.map_or(String::new(), |bps| format!("[promise]\nnetwork_bps = {bps}\n"));
        fs::write(&config, text)?;
        let server = self.space.inside(|| {
            let mut address = free_address()?;
            if self.far.is_some() {
                address.set_ip(NEAR);
            }
            let mut command = self.command("serve", &[]);
            command.args(["--listen", &address.to_string(), "--config"]).arg(&config);
            command.stderr(fs::File::create(&log)?);
            Server::start(command, address)
        });
        let server = server.with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        Ok(Casting { site: self, server })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What is left is found by the next run's operator; nothing depends on it.
        let _ = fs::remove_dir_all(&self.volume);
        for kind in ["toml", "log", "pcap"] {
            let _ = fs::remove_file(self.volume.with_extension(kind));
        }
    }
}

impl Casting<'_> {
    /// Has a title cast in a loop, with these further members of the request.
    ///
    /// # Errors
    /// The server's refusal.
    pub(super) fn add(&self, title: &str, group: &str, more: &Value) -> Result<Value> {
        let mut wanted = json!({ "title": title, "group": group, "loop": true, "announce": false });
        let members = more.as_object().into_iter().flatten();
        members.for_each(|(key, value)| wanted[key] = value.clone());
        self.site.space.inside(|| api::post(self.server.address, "/api/v1/casts", &wanted))
    }

    /// All casts.
    ///
    /// # Errors
    /// Those of the request.
    pub(super) fn casts(&self) -> Result<Vec<Value>> {
        let list = self.site.space.inside(|| api::get(self.server.address, "/api/v1/casts"))?;
        list["casts"].as_array().cloned().context("no list of casts in the answer")
    }

    /// The description of a cast.
    ///
    /// # Errors
    /// Those of the request.
    pub(super) fn description(&self, name: &str) -> Result<String> {
        self.site.space.inside(|| api::text(self.server.address, &format!("/casts/{name}.sdp")))
    }

    /// Waits until the cast has ended.
    ///
    /// # Errors
    /// If it does not end.
    pub(super) fn await_end(&self) -> Result<()> {
        let begun = Instant::now();
        while !self.casts()?.iter().all(|cast| cast["state"] == "ended") {
            ensure!(begun.elapsed() < END_MAX, "a cast does not end: {:?}", self.casts()?);
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The metrics page.
    ///
    /// # Errors
    /// Those of the request.
    pub(super) fn metrics(&self) -> Result<String> {
        self.site.space.inside(|| api::text(self.server.address, "/metrics"))
    }

    /// Waits until all casts are on the air.
    ///
    /// # Errors
    /// If one does not begin.
    pub(super) fn await_all(&self) -> Result<()> {
        let begun = Instant::now();
        while !self.casts()?.iter().all(|cast| cast["state"] == "on-air") {
            ensure!(begun.elapsed() < BEGIN_MAX, "a cast does not begin: {:?}", self.casts()?);
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Reads what the server has used and sent.
    ///
    /// # Errors
    /// A server that has ended.
    pub(super) fn meter(&self) -> Result<Meter> {
        Meter::read(&self.site.space, self.server.processes()?[0])
    }
}

/// Brings up the interfaces of a name space; groups are sent to by the one of the experiment.
fn addresses(address: &str) -> Result<()> {
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "set", DEVICE, "up"])?;
    ip(&["addr", "add", address, "dev", DEVICE])?;
    ip(&["route", "add", "224.0.0.0/4", "dev", DEVICE])
}

/// The name of the title that a file becomes.
pub(super) fn title_of(stream: &Path) -> String {
    stream.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
