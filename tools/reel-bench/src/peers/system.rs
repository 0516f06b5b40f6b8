//! The servers, each set up as its experts would for this.

use super::Net;
use super::material::Material;
use crate::device::{DeviceOwner, DeviceRequest};
use crate::reel;
use crate::rival::{Against, Setup, Site};
use crate::server::{Server, free_address};
use crate::wire_check::bare;
use anyhow::{Context, Result};
use clap::ValueEnum;
use reel_wire::Wire;
use std::fmt;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// More than the viewers of any experiment: the table of sessions is no limit here.
const SESSIONS_MAX: usize = 20_000;

/// What is measured beside the rivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OwnServer {
    /// Reel as delivered; where only costs are measured, without admission.
    Reel,
    /// Reel without admission.
    ReelOpen,
    /// Reel without admission and without zero-copy sends.
    ReelCopying,
    /// The bare loop: what is left when a server only reads and sends.
    Floor,
    /// The bare loop with zero-copy sends.
    FloorZc,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Reel, or the bare loop.
    Own(OwnServer),
    /// A rival, set up in one way.
    Rival(Setup),
}

impl System {
    /// Reel as delivered.
    pub(crate) const REEL: Self = Self::Own(OwnServer::Reel);

    /// These, and every rival as its experts would set it up.
    pub(crate) fn all(ours: &[OwnServer], against: &Against) -> Result<Vec<Self>> {
        against.rivals.installed()?;
        let rivals = against.rivals.iter().flat_map(|rival| rival.expert());
        let ours = ours.iter().map(|&ours| Self::Own(ours));
        Ok(ours.chain(rivals.map(|&setup| Self::Rival(setup))).collect())
    }

    pub(crate) fn is_rival(self) -> bool {
        matches!(self, Self::Rival(_))
    }

    pub(crate) fn is_reel(self) -> bool {
        matches!(self, Self::Own(OwnServer::Reel | OwnServer::ReelOpen | OwnServer::ReelCopying))
    }
}

impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Own(OwnServer::Reel) => "reel",
            Self::Own(OwnServer::ReelOpen) => "reel, open",
            Self::Own(OwnServer::ReelCopying) => "reel, copying",
            Self::Own(OwnServer::Floor) => "floor",
            Self::Own(OwnServer::FloorZc) => "floor zero-copy",
            Self::Rival(setup) => setup.label(),
        })
    }
}

/// Where servers are started.
pub(crate) struct Launcher<'a> {
    pub(crate) material: &'a Material,
    /// What a server may use for media: Reel's arena; a peer with its page cache.
    pub(crate) memory_bytes: u64,
    /// The bare server, if it is not where it is built.
    pub(crate) floor: Option<&'a Path>,
    /// Whether Reel admits only viewers whose film it can reserve.
    pub(crate) admission: bool,
    /// Shares of streams, people and downloads with Reel, in thousandths, if not those it has by
    /// itself.
    pub(crate) shares: Option<[u32; 3]>,
    /// Whether the memory of peers is bounded, which needs control groups.
    pub(crate) is_bounded: bool,
}

/// A server that runs. It ends first; what bounds it goes after it.
pub(crate) struct Launched {
    pub(crate) server: Server,
    _bound: Option<DeviceOwner>,
}

impl Launcher<'_> {
    pub(crate) fn start(&self, system: System, wire: &Wire, net: Net) -> Result<Launched> {
        let server = match net {
            Net::Wire => wire.at_server(|| self.serve(system, wire.address()))?,
            Net::Loopback => wire.beside_server(|| self.serve(system, free_address()?))?,
        };
        let bound = if system.is_rival() && self.is_bounded {
            let owner = DeviceOwner::start()?;
            owner.request::<()>(&DeviceRequest::Memory { bytes: self.memory_bytes })?;
            for pid in server.processes()? {
                owner.request::<()>(&DeviceRequest::Join { pid: pid.try_into()? })?;
            }
            Some(owner)
        } else {
            None
        };
        Ok(Launched { server, _bound: bound })
    }

    fn serve(&self, system: System, address: SocketAddr) -> Result<Server> {
        let Material { www, dir, .. } = self.material;
        let setup =
            ReelSetup { memory_bytes: self.memory_bytes, admission: false, lends: true, shares: self.shares };
        let ours = |setup| serve(self.material, address, setup);
        match system {
            System::Own(OwnServer::Reel) => ours(ReelSetup { admission: self.admission, ..setup }),
            System::Own(OwnServer::ReelOpen) => ours(setup),
            System::Own(OwnServer::ReelCopying) => ours(ReelSetup { lends: false, ..setup }),
            System::Rival(setup) => Site::new(www, &dir.join(setup.rival().name())).start_at(address, setup),
            System::Own(which @ (OwnServer::Floor | OwnServer::FloorZc)) => {
                let mut command = Command::new(bare(self.floor)?);
                let mode = if which == OwnServer::Floor { "ring" } else { "ring-zc" };
                command.arg(address.to_string()).arg(www).arg(mode).stderr(Stdio::null());
                Server::start(command, address)
            }
        }
    }
}

/// How Reel is started.
#[derive(Clone, Copy)]
pub(super) struct ReelSetup {
    /// For media.
    pub(super) memory_bytes: u64,
    /// Whether only viewers whose film can be reserved are admitted.
    pub(super) admission: bool,
    /// Whether it may send without a copy.
    pub(super) lends: bool,
    /// See [`Launcher::shares`].
    pub(super) shares: Option<[u32; 3]>,
}

pub(super) fn serve(material: &Material, address: SocketAddr, setup: ReelSetup) -> Result<Server> {
    let ReelSetup { memory_bytes, admission, lends, shares } = setup;
    let config = material.dir.join("reel.toml");
    let mut text = format!(
        "arena_bytes = {memory_bytes}\nsessions_max = {SESSIONS_MAX}\nzero_copy = {lends}\n[promise]\nadmission = {admission}\n"
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
