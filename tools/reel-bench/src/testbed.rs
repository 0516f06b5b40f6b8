//! A testbed: a server, Reel or a rival, with films on disks.

use crate::client::resolve;
use crate::disk_set::{DiskSet, forget};
use crate::film;
use crate::reel::{MEMORY_BYTES, Settings, Volume};
use crate::rival::{Rival, Setup, Site};
use crate::server::{Server, free_address};
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The titles of an experiment: links to two films, so that a server sees so many different ones.
pub(crate) struct Films {
    /// `film-000` and on: for streams, one each, so that no stream reads what another has read.
    pub(crate) streams: Vec<PathBuf>,
    /// `bulk-000` and on: for downloads and browsing.
    pub(crate) bulk: Vec<PathBuf>,
}

impl Films {
    /// Links in `dir`, which is removed with the disks that it belongs to.
    pub(crate) fn make(dir: &Path, stream: (&Path, usize), other: (&Path, usize)) -> Result<Self> {
        let streams = film::titles(dir, stream.0, "film", stream.1)?;
        let bulk = film::titles(dir, other.0, "bulk", other.1)?;
        Ok(Self { streams, bulk })
    }

    /// Size of each of `disks` disks so that a volume with parity fills three quarters of them: the
    /// model's head travels over all of a disk, so an empty one would flatter.
    pub(crate) fn disk_bytes(bytes: u64, disks: usize) -> u64 {
        let stored = bytes * disks as u64 / (disks as u64 - 1);
        (stored / disks as u64 * 4 / 3 + (256 << 20)).next_multiple_of(64 << 20)
    }

    fn all(&self) -> Vec<PathBuf> {
        self.streams.iter().chain(&self.bulk).cloned().collect()
    }
}

/// How the rival is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    pub(crate) scheduler: &'static str,
    pub(crate) read_ahead_kib: u64,
    pub(crate) setup: Setup,
}

impl Tuning {
    /// Debian on a hard disk: mq-deadline, 128 KiB of read-ahead, the rival as packaged.
    pub(crate) fn shipped(rival: Rival) -> Self {
        Self { scheduler: "mq-deadline", read_ahead_kib: 128, setup: rival.shipped() }
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheduler, read_ahead_kib, setup } = self;
        write!(formatter, "{scheduler}, read-ahead {read_ahead_kib} KiB, {setup}")
    }
}

/// A read/write loop, and how it is helped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadWriteLoop {
    pub(crate) read_ahead_kib: u64,
    /// Whether the kernel is told that files are read in order.
    pub(crate) in_order: bool,
    /// Bytes read and written at once, if they are not what `cat` takes.
    pub(crate) piece_bytes: Option<usize>,
}

impl ReadWriteLoop {
    /// Debian's read-ahead.
    pub(crate) const SHIPPED: Self = Self { read_ahead_kib: 128, in_order: false, piece_bytes: None };
    /// Blocks of 8 KiB, the next one read ahead: what dsplice was measured against.
    pub(crate) const OF_1996: Self = Self { read_ahead_kib: 8, in_order: false, piece_bytes: Some(8 << 10) };
}

impl fmt::Display for ReadWriteLoop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = if self.in_order { ", told that files are read in order" } else { "" };
        write!(formatter, "read-ahead {} KiB{hint}", self.read_ahead_kib)
    }
}

/// Disks with films on them, for one of the two.
pub(crate) struct Testbed {
    pub(crate) disk_set: DiskSet,
    holds: Storage,
}

enum Storage {
    Reel(Volume),
    /// ext4 file systems, one on each disk, films in turn: what the stock stack can do with so many
    /// disks without RAID.
    Ext4(PathBuf),
}

impl Testbed {
    /// Films on a volume of Reel over all disks, one of them parity.
    pub(crate) fn reel(reel: &Path, disk_set: DiskSet, films: &Films) -> Result<Self> {
        let volume = Volume::make(reel, &disk_set, &films.all())?;
        Ok(Self { disk_set, holds: Storage::Reel(volume) })
    }

    /// Films on ext4, each on one disk; streams as the playlists and segments of a film below
    /// `segments`, if it is given.
    pub(crate) fn ext4(disk_set: DiskSet, films: &Films, segments: Option<&Path>) -> Result<Self> {
        let root = disk_set.dir().join("www");
        disk_set.load()?;
        let owner = disk_set.owner.as_ref().context("file systems of our own need root")?;
        let mounts = owner.ext4(&disk_set.devices, &root)?;
        for (number, film) in films.all().iter().enumerate() {
            let mount = &mounts[number % mounts.len()];
            match segments.filter(|_| number < films.streams.len()) {
                Some(segments) => copy_below(segments, &mount.join(stem(film)))?,
                None => {
                    let name = film.file_name().context("a film without a name")?;
                    fs::copy(film, mount.join(name))?;
                }
            }
        }
        rustix::fs::sync();
        disk_set.measure()?;
        Ok(Self { disk_set, holds: Storage::Ext4(root) })
    }

    /// What is measured: the volume, if this is Reel's.
    pub(crate) fn volume(&self) -> Option<&Volume> {
        match &self.holds {
            Storage::Reel(volume) => Some(volume),
            Storage::Ext4(_) => None,
        }
    }

    /// Where the rival's files lie, disk by disk.
    pub(crate) fn file_systems(&self) -> Option<Vec<PathBuf>> {
        let Storage::Ext4(root) = &self.holds else { return None };
        Some((0..self.disk_set.devices.len()).map(|disk| root.join(disk.to_string())).collect())
    }

    /// `reel probe` of Reel's volume for so many seconds.
    pub(crate) fn probe(&self, seconds: u64) -> Result<()> {
        self.volume().context("no volume on this testbed")?.probe(&self.disk_set, seconds)
    }

    /// Starts Reel, with nothing in memory: it reads past the page cache.
    pub(crate) fn start_reel(&self, settings: &Settings) -> Result<Playing> {
        let server = self.volume().context("no volume on this testbed")?.serve(&self.disk_set, settings)?;
        Ok(Playing { server, disks: None })
    }

    /// Starts a rival, with nothing in memory.
    pub(crate) fn start_rival(&self, tuning: Tuning) -> Result<Playing> {
        let root = self.cold(tuning.scheduler, tuning.read_ahead_kib)?;
        let run = self.disk_set.dir().join(tuning.setup.rival().name());
        let server = Site::new(root, &run).start(tuning.setup)?;
        self.disk_set.adopt(&server, Some(MEMORY_BYTES))?;
        Ok(Playing { server, disks: Some(self.disk_set.devices.len()) })
    }

    /// Starts a read/write loop, with nothing in memory.
    pub(crate) fn start_loop(&self, scheduler: &str, way: ReadWriteLoop) -> Result<Playing> {
        self.start_pump(scheduler, way, &[], Some(MEMORY_BYTES))
    }

    /// Starts a read/write loop that reads each film from the disks, however often it is wanted.
    pub(crate) fn start_forgetful_loop(&self, scheduler: &str, way: ReadWriteLoop) -> Result<Playing> {
        self.start_pump(scheduler, way, &["--drop-behind"], Some(MEMORY_BYTES))
    }

    /// The same, which writes films below `into`; what is written may be in any memory.
    pub(crate) fn start_copies(&self, scheduler: &str, way: ReadWriteLoop, into: &Path) -> Result<Playing> {
        let into = into.to_str().context("a path of text")?;
        self.start_pump(scheduler, way, &["--drop-behind", "--into", into], None)
    }

    fn start_pump(
        &self,
        scheduler: &str,
        way: ReadWriteLoop,
        more: &[&str],
        memory_bytes: Option<u64>,
    ) -> Result<Playing> {
        let root = self.cold(scheduler, way.read_ahead_kib)?;
        let address = free_address()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("pump").arg(address.to_string()).arg(root).args(more);
        if way.in_order {
            command.arg("--in-order");
        }
        if let Some(bytes) = way.piece_bytes {
            command.arg("--piece-bytes").arg(bytes.to_string());
        }
        let server = Server::start(command, address)?;
        self.disk_set.adopt(&server, memory_bytes)?;
        Ok(Playing { server, disks: Some(self.disk_set.devices.len()) })
    }

    /// The file systems, with nothing of them in memory.
    pub(crate) fn cold(&self, scheduler: &str, read_ahead_kib: u64) -> Result<&Path> {
        let Storage::Ext4(root) = &self.holds else { anyhow::bail!("no file systems on this testbed") };
        self.disk_set.schedule(scheduler, Some(read_ahead_kib))?;
        (0..self.disk_set.devices.len()).try_for_each(|disk| forget(&root.join(disk.to_string())))?;
        Ok(root)
    }
}

/// A server that runs, and where its films are.
pub(crate) struct Playing {
    pub(crate) server: Server,
    /// How many file systems the rival has; `None` is Reel.
    disks: Option<usize>,
}

impl Playing {
    /// The first `count` of `films` as streams with deadlines; further ones begin again.
    pub(crate) fn streams(&self, films: &Films, count: usize) -> Vec<String> {
        let names = films.streams.iter().cycle().take(count).enumerate();
        names.map(|(number, film)| self.url(number % films.streams.len(), film, "watch", "")).collect()
    }

    /// The same films as HLS.
    pub(crate) fn playlists(&self, films: &Films) -> Vec<String> {
        let playlist = |(number, film): (usize, &PathBuf)| match self.disks {
            Some(disks) => format!("{}/{}/{}/master.m3u8", self.root(), number % disks, stem(film)),
            None => format!("{}/watch/{}/master.m3u8", self.root(), stem(film)),
        };
        films.streams.iter().enumerate().map(playlist).collect()
    }

    /// All bulk films as downloads.
    pub(crate) fn downloads(&self, films: &Films) -> Vec<String> {
        self.bulk(films, "files", "")
    }

    /// Bulk films of those numbers. For Reel these are sessions of `class`, opened once: a browser
    /// keeps its own.
    pub(crate) fn sessions(&self, films: &Films, numbers: Range<usize>, class: &str) -> Result<Vec<String>> {
        let urls = self.bulk(films, "watch", &format!("?class={class}"));
        let urls = urls.into_iter().cycle().skip(numbers.start).take(numbers.len());
        if self.disks.is_some() {
            return Ok(urls.collect());
        }
        let root = self.root();
        urls.map(|url| {
            let path = resolve(self.server.address, url.strip_prefix(&root).unwrap_or(&url))?;
            Ok(format!("{root}{path}"))
        })
        .collect()
    }

    fn bulk(&self, films: &Films, way: &str, query: &str) -> Vec<String> {
        let first = films.streams.len();
        let bulk = films.bulk.iter().enumerate();
        bulk.map(|(number, film)| self.url(first + number, film, way, query)).collect()
    }

    fn url(&self, number: usize, film: &Path, way: &str, query: &str) -> String {
        let (root, name) = (self.root(), stem(film));
        match (self.disks, way) {
            (Some(disks), _) => format!("{root}/{}/{name}.mp4", number % disks),
            (None, "files") => format!("{root}/files/{name}.mp4{query}"),
            (None, _) => format!("{root}/{way}/{name}/{name}.mp4{query}"),
        }
    }

    fn root(&self) -> String {
        format!("http://{}", self.server.address)
    }
}

fn copy_below(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_below(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

fn stem(film: &Path) -> String {
    film.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
