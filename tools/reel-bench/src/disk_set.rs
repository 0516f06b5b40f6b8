//! A set of disks to measure on: modelled, throttled, or plain files.

use crate::device::{Change, DeviceOwner, DeviceRequest, DiskCounts};
use crate::server::Server;
use anyhow::{Context, Result, ensure};
use reel_report::{CommonOptions, Report};
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The name of the directory of a set, before the number of the process that made it.
const NAME: &str = "disk_set-";

/// What the disks are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Modelled hard disks (FUSE) with loop devices on top.
    Modelled,
    /// Loop devices over files, for which the server gets so much from each.
    Throttled { read_bps: u64, read_iops: u64 },
    /// Files of the file system that the bench runs on.
    Plain,
}

impl Kind {
    /// In a few words.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Modelled => "modelled 7200 rpm disks".into(),
            Self::Throttled { read_bps, read_iops } => {
                format!("loop devices throttled to {} MB/s and {read_iops} reads/s", read_bps / 1_000_000)
            }
            Self::Plain => "plain files".into(),
        }
    }
}

/// Modelled disks, if this machine lets us make them. A smoke run continues with plain files where
/// it does not: there it shows only that the experiment works.
pub(crate) fn modelled(arguments: &CommonOptions, report: &mut Report) -> Result<Kind> {
    match DiskSet::make(&arguments.dir, Kind::Modelled, 1, 1 << 26) {
        Ok(_) => Ok(Kind::Modelled),
        Err(error) if arguments.quick => {
            report.note(format!("plain files instead of modelled disks: {error:#}"));
            Ok(Kind::Plain)
        }
        Err(error) => Err(error),
    }
}

/// The disks. They go with this value.
pub(crate) struct DiskSet {
    pub(crate) kind: Kind,
    /// What a server is given, the spare excluded.
    pub(crate) devices: Vec<PathBuf>,
    /// One disk more, for replacing another.
    pub(crate) spare: PathBuf,
    pub(crate) owner: Option<DeviceOwner>,
    /// Of each disk.
    pub(crate) disk_bytes: u64,
    dir: PathBuf,
}

impl DiskSet {
    /// `count` disks of `bytes` each and a spare, with their files below `dir`.
    ///
    /// # Errors
    /// All kinds but plain files need root.
    pub(crate) fn make(dir: &Path, kind: Kind, count: usize, bytes: u64) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let dir = fs::canonicalize(dir)?;
        remove_abandoned(&dir);
        has_room(&dir, bytes * count as u64 * 3 / 4)?;
        let dir = dir.join(format!("{NAME}{}", std::process::id()));
        let owner = if kind == Kind::Plain { None } else { Some(DeviceOwner::start()?) };
        let all = count + 1;
        let mut devices = match &owner {
            None => Self::plain(&dir, all, bytes)?,
            Some(owner) => Self::kept(owner, &dir, kind, all, bytes)?,
        };
        let spare = devices.pop().context("a disk_set has at least its spare")?;
        let disk_set = Self { kind, devices, spare, owner, disk_bytes: bytes, dir };
        disk_set.schedule("none", None)?;
        Ok(disk_set)
    }

    fn plain(dir: &Path, count: usize, bytes: u64) -> Result<Vec<PathBuf>> {
        fs::create_dir_all(dir)?;
        let mut devices = Vec::new();
        for number in 0..count {
            let path = dir.join(format!("member-{number}"));
            File::create(&path)?.set_len(bytes)?;
            devices.push(path);
        }
        Ok(devices)
    }

    fn kept(owner: &DeviceOwner, dir: &Path, kind: Kind, count: usize, bytes: u64) -> Result<Vec<PathBuf>> {
        if kind == Kind::Modelled {
            let disks: Vec<PathBuf> =
                owner.request(&DeviceRequest::Disks { dir: dir.to_owned(), count, bytes })?;
            return owner.loops(&disks);
        }
        owner.request::<()>(&DeviceRequest::Dir { path: dir.to_owned() })?;
        let mut files = Vec::new();
        for number in 0..count {
            let path = dir.join(format!("member-{number}"));
            owner.request::<()>(&DeviceRequest::File { path: path.clone(), bytes })?;
            files.push(path);
        }
        owner.loops(&files)
    }

    /// A directory for the server's configuration and mount points. It is removed with the disks.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Full speed, for putting films on; `measure` ends it.
    pub(crate) fn load(&self) -> Result<()> {
        self.change_all(Change::Instant)
    }

    /// From now on the disks are as slow as they are.
    pub(crate) fn measure(&self) -> Result<()> {
        rustix::fs::sync();
        self.change_all(Change::Modelled)
    }

    /// Changes one modelled disk; other kinds have nothing to change.
    pub(crate) fn change(&self, disk: usize, change: Change) -> Result<()> {
        ensure!(self.kind == Kind::Modelled, "only modelled disks can be changed");
        self.owner
            .as_ref()
            .context("modelled disks have an owner")?
            .request(&DeviceRequest::Change { disk, change })
    }

    fn change_all(&self, change: Change) -> Result<()> {
        match (&self.owner, self.kind) {
            (Some(owner), Kind::Modelled) => owner.change_all(self.devices.len() + 1, change),
            _ => Ok(()),
        }
    }

    /// Scheduler and read-ahead of the kernel for all disks that are block devices.
    pub(crate) fn schedule(&self, scheduler: &str, read_ahead_kib: Option<u64>) -> Result<()> {
        match &self.owner {
            Some(owner) => {
                let mut devices = self.devices.clone();
                devices.push(self.spare.clone());
                owner.queues(&devices, Some(scheduler), read_ahead_kib)
            }
            None => Ok(()),
        }
    }

    /// Puts a server under the throttles of these disks; it ends when this process ends.
    pub(crate) fn adopt(&self, server: &Server, memory_bytes: Option<u64>) -> Result<()> {
        let Some(owner) = &self.owner else { return Ok(()) };
        let pids: Vec<i32> = server.processes()?.into_iter().map(i32::try_from).collect::<Result<_, _>>()?;
        if let Some(&pid) = pids.first() {
            owner.request::<()>(&DeviceRequest::Own { pid })?;
        }
        self.confine(&pids, memory_bytes)
    }

    /// Puts processes under the throttles of these disks.
    fn confine(&self, pids: &[i32], memory_bytes: Option<u64>) -> Result<()> {
        let Some(owner) = &self.owner else { return Ok(()) };
        if let Kind::Throttled { read_bps, read_iops } = self.kind {
            for device in self.devices.iter().chain([&self.spare]) {
                let device = device.clone();
                owner.request::<()>(&DeviceRequest::Throttle { device, read_bps, read_iops })?;
            }
        }
        if let Some(bytes) = memory_bytes {
            owner.request::<()>(&DeviceRequest::Memory { bytes })?;
        }
        if memory_bytes.is_some() || matches!(self.kind, Kind::Throttled { .. }) {
            pids.iter().try_for_each(|&pid| owner.request(&DeviceRequest::Join { pid }))?;
        }
        Ok(())
    }

    /// Runs `command` to its end with the disks as slow as they are: a throttle applies only to
    /// processes in its group, so the command begins when it is.
    pub(crate) fn run(&self, command: &Command) -> Result<()> {
        let mut waiting = Command::new("sh");
        waiting.args(["-c", "read -r go && exec \"$@\"", "sh"]).arg(command.get_program());
        waiting.args(command.get_args()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = waiting.spawn().with_context(|| format!("starting {command:?}"))?;
        let confined =
            i32::try_from(child.id()).map_err(Into::into).and_then(|pid| self.confine(&[pid], None));
        let mut input = child.stdin.take().context("its input is a pipe")?;
        if confined.is_ok() {
            input.write_all(b"go\n")?;
        }
        // Without that line it ends by itself.
        drop(input);
        let output = child.wait_with_output()?;
        confined?;
        ensure!(
            output.status.success(),
            "{command:?} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }

    /// What the modelled disks did while `work` ran, all together: megabytes read a second,
    /// reads a second, share of their time. Nothing for other kinds.
    pub(crate) fn watched<T>(
        &self,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Vec<(&'static str, f64)>)> {
        let (begun, before) = (Instant::now(), self.counts()?);
        let done = work()?;
        let (took_s, after) = (begun.elapsed().as_secs_f64(), self.counts()?);
        if after.is_empty() {
            return Ok((done, Vec::new()));
        }
        let disks = self.devices.len();
        let sum = |of: fn(&DiskCounts) -> u64| {
            let pairs = after.iter().zip(&before).take(disks);
            pairs.map(|(after, before)| of(after) - of(before)).sum::<u64>() as f64
        };
        let values = vec![
            ("disks_mb_per_s", sum(|counts| counts.read_bytes) / 1e6 / took_s),
            ("disks_reads_per_s", sum(|counts| counts.reads) / took_s),
            (
                "disks_kib_per_seek",
                sum(|counts| counts.read_bytes) / 1024.0 / sum(|counts| counts.seeks).max(1.0),
            ),
            ("disks_busy", sum(|counts| counts.busy_ns) / 1e9 / took_s / disks as f64),
            ("disks_overruns", sum(|counts| counts.overruns)),
        ];
        Ok((done, values))
    }

    /// What the modelled disks did until now, the spare last. Nothing for other kinds.
    pub(crate) fn counts(&self) -> Result<Vec<DiskCounts>> {
        match (&self.owner, self.kind) {
            (Some(owner), Kind::Modelled) => owner.request(&DeviceRequest::Counts),
            _ => Ok(Vec::new()),
        }
    }
}

impl Drop for DiskSet {
    fn drop(&mut self) {
        // The owner removes its devices first.
        self.owner = None;
        if let Err(error) = fs::remove_dir_all(&self.dir)
            && error.kind() != io::ErrorKind::NotFound
        {
            eprintln!("reel-bench: {} is left behind: {error}", self.dir.display());
        }
    }
}

/// Removes the disks of experiments that were killed. What is still mounted stays.
fn remove_abandoned(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Says so if `dir` has no room for what is written to disks, which are filled to three quarters:
/// halfway, every write would fail.
fn has_room(dir: &Path, bytes: u64) -> Result<()> {
    let space = rustix::fs::statvfs(dir)?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    ensure!(
        free_bytes >= bytes,
        "the disks of this experiment take {:.1} GB, and {} has {:.1}; make room, or name another place with --dir",
        bytes as f64 / 1e9,
        dir.display(),
        free_bytes as f64 / 1e9
    );
    Ok(())
}

/// Takes the files below `dir` out of the page cache, and nothing else: a modelled disk may keep
/// its own bytes in memory, it takes the model's time anyway.
pub(crate) fn forget(dir: &Path) -> Result<()> {
    rustix::fs::sync();
    drop_below(dir)
}

fn drop_below(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            drop_below(&path)?;
        } else if path.is_file() {
            fadvise(File::open(&path)?, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_that_a_killed_experiment_left_go_with_the_next_one() {
        let dir = std::env::temp_dir().join(format!("reel-bench-left-{}", std::process::id()));
        // The largest number of a process is 4194304.
        let [left, used] = ["disk_set-9999999", "disk_set-1"].map(|name| dir.join(name));
        for path in [&left, &used] {
            fs::create_dir_all(path).expect("a directory");
            fs::write(path.join("member-0"), "x").expect("a file");
        }
        let disks = DiskSet::make(&dir, Kind::Plain, 2, 1 << 20).expect("disks");
        assert!(!left.exists() && used.exists() && disks.devices[1].exists());
        drop(disks);
        assert_eq!(fs::read_dir(&dir).expect("the directory").count(), 1);
        fs::remove_dir_all(&dir).expect("it was there");
    }
}
