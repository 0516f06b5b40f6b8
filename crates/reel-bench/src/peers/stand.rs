//! The servers, each set up as its experts would for this.

use super::Net;
use super::material::Material;
use crate::device::{Ask, Keeper};
use crate::reel;
use crate::rival::{Reading, nginx_at};
use crate::server::{Server, free_address};
use crate::wire::Wire;
use crate::wired::bare;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::fmt;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// More than viewers of any experiment: the table of sessions is nobody's bound here.
const SESSIONS_MAX: usize = 20_000;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// As delivered, or where only costs are measured, open to everybody.
    Reel,
    /// Open to everybody, where the other asks who can be promised his film.
    ReelOpen,
    /// The same, told to copy whatever it sends.
    ReelCopying,
    /// nginx with sendfile.
    Sendfile,
    /// nginx with sendfile and a pool of threads that wait for the disk.
    Threads,
    /// nginx past the page cache, with the same pool.
    Direct,
    /// Caddy's file server.
    Caddy,
    /// The bare loop: what is left when there is nothing but reading and sending. No rival.
    Floor,
    /// The same with zero-copy sends.
    FloorZc,
}

impl Who {
    pub(crate) fn is_rival(self) -> bool {
        !(self.is_reel() || matches!(self, Self::Floor | Self::FloorZc))
    }

    pub(crate) fn is_reel(self) -> bool {
        matches!(self, Self::Reel | Self::ReelOpen | Self::ReelCopying)
    }
}

impl fmt::Display for Who {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Reel => "reel",
            Self::ReelOpen => "reel, open",
            Self::ReelCopying => "reel, copying",
            Self::Sendfile => "nginx sendfile",
            Self::Threads => "nginx threads",
            Self::Direct => "nginx directio",
            Self::Caddy => "caddy",
            Self::Floor => "floor",
            Self::FloorZc => "floor zero-copy",
        })
    }
}

/// Where servers are started.
pub(crate) struct Stand<'a> {
    pub(crate) material: &'a Material,
    /// What a server may use for media: Reel's arena; a peer with its page cache.
    pub(crate) memory_bytes: u64,
    /// The bare server, if it is not where it is built.
    pub(crate) floor: Option<&'a Path>,
    /// Whether Reel lets in only whom it can promise his film.
    pub(crate) is_promised: bool,
    /// Shares of streams, people and downloads with Reel, in thousandths, if not those it has by itself.
    pub(crate) shares: Option<[u32; 3]>,
    /// Whether the memory of peers is bounded, which needs control groups.
    pub(crate) is_bounded: bool,
}

/// A server that runs. It ends first; what bounds it goes after it.
pub(crate) struct Standing {
    pub(crate) server: Server,
    _bound: Option<Keeper>,
}

impl Stand<'_> {
    pub(crate) fn start(&self, who: Who, wire: &Wire, net: Net) -> Result<Standing> {
        let server = match net {
            Net::Wire => wire.at_server(|| self.serve(who, wire.address()))?,
            Net::Loopback => wire.beside_server(|| self.serve(who, free_address()?))?,
        };
        let bound = if who.is_rival() && self.is_bounded {
            let keeper = Keeper::start()?;
            keeper.ask::<()>(&Ask::Memory { bytes: self.memory_bytes })?;
            for pid in server.processes()? {
                keeper.ask::<()>(&Ask::Join { pid: pid.try_into()? })?;
            }
            Some(keeper)
        } else {
            None
        };
        Ok(Standing { server, _bound: bound })
    }

    fn serve(&self, who: Who, address: SocketAddr) -> Result<Server> {
        let Material { www, dir, .. } = self.material;
        let nginx = |reading| {
            let workers = std::thread::available_parallelism().map_or(1, usize::from);
            nginx_at(address, www, &dir.join("nginx"), workers, reading)
        };
        let setup =
            Setup { memory_bytes: self.memory_bytes, is_promised: false, lends: true, shares: self.shares };
        let ours = |setup| serve(self.material, address, setup);
        match who {
            Who::Reel => ours(Setup { is_promised: self.is_promised, ..setup }),
            Who::ReelOpen => ours(setup),
            Who::ReelCopying => ours(Setup { lends: false, ..setup }),
            Who::Sendfile => nginx(Reading::Sendfile),
            Who::Threads => nginx(Reading::Threads),
            Who::Direct => nginx(Reading::Direct),
            Who::Caddy => {
                let mut command = Command::new("caddy");
                command.args(["file-server", "--listen", &address.to_string(), "--root"]).arg(www);
                command.env("XDG_DATA_HOME", dir).env("XDG_CONFIG_HOME", dir).stderr(Stdio::null());
                Server::start(command, address).context("is caddy installed? (apt install caddy)")
            }
            Who::Floor | Who::FloorZc => {
                let floor = bare(self.floor)?;
                let floor =
                    floor.context("no bare server; cargo build --release -p reel-ring --example floor")?;
                let mut command = Command::new(floor);
                let mode = if who == Who::Floor { "ring" } else { "ring-zc" };
                command.arg(address.to_string()).arg(www).arg(mode).stderr(Stdio::null());
                Server::start(command, address)
            }
        }
    }
}

/// How Reel is started.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    /// For media.
    pub(super) memory_bytes: u64,
    /// Whether only those are let in whose film can be promised.
    pub(super) is_promised: bool,
    /// Whether it may send without a copy.
    pub(super) lends: bool,
    /// See [`Stand::shares`].
    pub(super) shares: Option<[u32; 3]>,
}

pub(super) fn serve(material: &Material, address: SocketAddr, setup: Setup) -> Result<Server> {
    let Setup { memory_bytes, is_promised, lends, shares } = setup;
    let config = material.dir.join("reel.toml");
    let mut text = format!(
        "arena_bytes = {memory_bytes}\nsessions_max = {SESSIONS_MAX}\nzero_copy = {lends}\n[promise]\nadmission = {is_promised}\n"
    );
    if let Some(shares) = shares {
        text.push_str("[classes]\n");
        reel::classes(shares).iter().for_each(|line| text.extend([line, "\n"]));
    }
    fs::write(&config, text)?;
    let mut command = Command::new(&material.reel);
    command
        .arg("serve")
        .arg(&material.volume)
        .args(["--listen", &address.to_string(), "--config"])
        .arg(&config);
    let log = material.dir.join("reel.log");
    command.stderr(Stdio::from(File::create(&log)?));
    Server::start(command, address).with_context(|| fs::read_to_string(&log).unwrap_or_default())
}
