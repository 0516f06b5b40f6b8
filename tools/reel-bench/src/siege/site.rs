//! What is besieged: a server in its own name space, with titles on five members, of which one may
//! be on a file system that can be frozen.

use super::cable::{Cable, http, https};
use crate::device::{DeviceOwner, DeviceRequest};
use crate::disk_set::{DiskSet, Kind};
use crate::film;
use crate::reel::{Volume, settle};
use crate::server::Server;
use crate::testbed::Films;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Members of the volume; the last one can be frozen.
const MEMBERS: usize = 5;
/// Room beside the titles of each member, for what attackers upload.
const SPARE_BYTES: u64 = 128 << 20;
/// What an ext4 needs for itself.
const EXT4_BYTES: u64 = 96 << 20;
/// Media memory: enough for all viewers that the network carries.
const MEMORY: &str = "600M";

/// How much there is.
pub(super) struct SiteSpec {
    /// Titles of ordinary viewers.
    pub(super) titles: usize,
    /// Titles that are hoarded.
    pub(super) hoarded: usize,
    pub(super) film_s: u64,
    pub(super) rate_bps: u64,
    /// What the network carries.
    pub(super) network_bps: u64,
    /// Whether the server is told that.
    pub(super) is_told: bool,
    /// Whether a member can be frozen.
    pub(super) freezes: bool,
}

/// The network, the disks and the volume.
pub(super) struct Site {
    pub(super) cable: Cable,
    disks: DiskSet,
    reel: PathBuf,
    /// A film of a few seconds, for uploads.
    pub(super) small: PathBuf,
    /// What the server is told of the network.
    told_bps: Option<u64>,
    /// The mount that can be frozen.
    mount: Option<PathBuf>,
}

impl Site {
    /// Makes all of it in `dir`.
    pub(super) fn make(dir: &Path, reel: &Path, spec: &SiteSpec) -> Result<Self> {
        let cable = Cable::make(spec.network_bps)?;
        let film = film::constant(dir, spec.film_s, spec.rate_bps)?;
        let small = film::constant(dir, 5, spec.rate_bps)?;
        let count = (spec.titles + spec.hoarded) as u64;
        let bytes = Films::disk_bytes(fs::metadata(&film)?.len() * count, MEMBERS) + SPARE_BYTES;
        let mut disks = DiskSet::make(dir, Kind::Plain, MEMBERS, bytes)?;
        let owner = DeviceOwner::start()?;
        let mount = spec.freezes.then(|| freezable(&owner, &mut disks, bytes)).transpose()?;
        disks.owner = Some(owner);
        let films = disks.dir().join("films");
        let mut titles = film::titles(&films, &film, "film", spec.titles)?;
        titles.extend(film::titles(&films, &film, "bulk", spec.hoarded)?);
        Volume::make(reel, &disks, &titles)?;
        let told_bps = spec.is_told.then_some(spec.network_bps);
        Ok(Self { cable, disks, reel: reel.to_owned(), small, told_bps, mount })
    }

    /// Starts the server on its volume.
    pub(super) fn serve(&self) -> Result<Server> {
        self.start(&self.volume(), "server")
    }

    /// Starts a server on an empty volume: that of the first may still be locked.
    pub(super) fn serve_another(&self) -> Result<Server> {
        let volume = self.disks.dir().join("another");
        if !volume.exists() {
            let mut create = Command::new(&self.reel);
            create.args(["--quiet", "volume", "create", "--size", "400M"]).arg(&volume);
            reel_report::output(&mut create)?;
        }
        self.start(&volume, "another")
    }

    /// A directory that is removed with all of this.
    pub(super) fn dir(&self) -> &Path {
        self.disks.dir()
    }

    /// What the server wrote to its log.
    pub(super) fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.disks.dir().join("server.log"))?)
    }

    /// The certificate that the server generated.
    pub(super) fn certificate(&self) -> PathBuf {
        self.volume().join("tls/certificate.pem")
    }

    /// Whether a member can be frozen.
    pub(super) fn freezes(&self) -> bool {
        self.mount.is_some()
    }

    /// Freezes the file system of the last member, until the value that is returned is gone.
    pub(super) fn freeze(&self) -> Result<Frozen<'_>> {
        let at = self.mount.clone().context("no member can be frozen")?;
        self.owner()?.request::<()>(&DeviceRequest::Freeze { at: at.clone() })?;
        Ok(Frozen { site: self, at })
    }

    /// Puts a process under a quota of so many hundredths of one processor.
    pub(super) fn confine(&self, pid: u32, percent: u32) -> Result<()> {
        let owner = self.owner()?;
        owner.request::<()>(&DeviceRequest::Processor { percent })?;
        owner.request(&DeviceRequest::Join { pid: i32::try_from(pid)? })
    }

    fn owner(&self) -> Result<&DeviceOwner> {
        self.disks.owner.as_ref().context("these disks have an owner")
    }

    fn volume(&self) -> PathBuf {
        self.disks.dir().join("volume")
    }

    fn start(&self, volume: &Path, name: &str) -> Result<Server> {
        let (config, log) = (volume.with_extension("toml"), self.disks.dir().join(format!("{name}.log")));
        let promise =
            self.told_bps.map(|bps| format!("[promise]\nnetwork_bps = {bps}\n")).unwrap_or_default();
        let text = format!(
            "arena_bytes = \"{MEMORY}\"\n{promise}[tls]\nlisten = \"{}\"\ngenerate = true\nhttp2 = true\n",
            https()
        );
        fs::write(&config, text)?;
        let mut command = Command::new(&self.reel);
        command.arg("serve").arg(volume).args(["--listen", &http().to_string(), "--config"]).arg(&config);
        command.stderr(Stdio::from(File::create(&log)?));
        let started = self.cable.near.inside(|| {
            let server = Server::start(command, http())?;
            settle(&server)?;
            Ok(server)
        });
        let server = started.with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        self.disks.adopt(&server, None)?;
        Ok(server)
    }
}

/// Puts the last member onto an ext4 of its own.
fn freezable(owner: &DeviceOwner, disks: &mut DiskSet, bytes: u64) -> Result<PathBuf> {
    let (image, at) = (disks.dir().join("image"), disks.dir().join("frozen"));
    owner.request::<()>(&DeviceRequest::File { path: image.clone(), bytes: bytes * 9 / 8 + EXT4_BYTES })?;
    let device = owner.loops(&[image])?.pop().context("a loop device")?;
    owner.request::<()>(&DeviceRequest::Ext4 { device, at: at.clone() })?;
    let member = at.join("member");
    File::create(&member)?.set_len(bytes)?;
    *disks.devices.last_mut().context("a volume has members")? = member;
    Ok(at)
}

/// A member that is frozen.
pub(super) struct Frozen<'a> {
    site: &'a Site,
    at: PathBuf,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let at = self.at.clone();
        let thawed = self.site.owner().and_then(|owner| owner.request::<()>(&DeviceRequest::Thaw { at }));
        if let Err(error) = thawed {
            eprintln!("reel-bench: a member stays frozen: {error:#}");
        }
    }
}
