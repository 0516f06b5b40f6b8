//! Things of the kernel that go away with the value that stands for them. A failure to take one
//! away is printed: it can only be told then.

use anyhow::{Context, Result};
use reel_report::output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{self, OpenOptions};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::thread::sleep;
use std::time::Duration;

const CGROUPS: &str = "/sys/fs/cgroup";

/// How long what is in use may stay so before we continue without it.
const LEAVING_TRIES: u32 = 100;
const LEAVING: Duration = Duration::from_millis(100);

/// The period in which a quota of processor time is counted: the kernel's default.
const PERIOD_US: u64 = 100_000;

/// Whether the kernel makes a group of each session's processes (sched(7)).
const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// A file that we made.
pub(super) struct OwnedFile(PathBuf);

impl OwnedFile {
    /// An empty file of `bytes`, without blocks of its own until it is written.
    pub(super) fn make(path: &Path, bytes: u64) -> Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let file = file.with_context(|| format!("making {}", path.display()))?;
        let made = Self(path.to_owned());
        file.set_len(bytes)?;
        Ok(made)
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        print_error(fs::remove_file(&self.0).with_context(|| format!("removing {}", self.0.display())));
    }
}

/// A directory that we made.
pub(super) struct OwnedDir(PathBuf);

impl OwnedDir {
    pub(super) fn make(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for OwnedDir {
    fn drop(&mut self) {
        // What others put into it is theirs.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A loop device over a file, past the page cache.
pub(super) struct LoopDevice {
    pub(super) device: PathBuf,
}

impl LoopDevice {
    pub(super) fn over(file: &Path) -> Result<Self> {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", "--direct-io=on", "--sector-size=4096"]).arg(file);
        let device = PathBuf::from(run(&mut command)?.trim());
        Ok(Self { device })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        print_error(run(Command::new("losetup").arg("--detach").arg(&self.device)));
        // The kernel detaches it when the last user is gone, and until then what is below it cannot
        // be taken away.
        let name = self.device.file_name().unwrap_or_default();
        let attached = Path::new("/sys/block").join(name).join("loop/backing_file");
        for _ in 0..LEAVING_TRIES {
            if !attached.exists() {
                return;
            }
            sleep(LEAVING);
        }
        eprintln!("reel-bench: {} is still in use", self.device.display());
    }
}

/// A mounted ext4 of our own.
pub(super) struct Ext4(PathBuf);

impl Ext4 {
    pub(super) fn make(device: &Path, at: &Path) -> Result<Self> {
        // Tables are written at once: otherwise the kernel writes them later, in the middle of a
        // measurement.
        let tables = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", tables]).arg(device))?;
        fs::create_dir_all(at)?;
        run(Command::new("mount").args(["-t", "ext4", "-o", "noatime"]).arg(device).arg(at))?;
        Ok(Self(at.to_owned()))
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        unmount(&self.0);
        print_error(fs::remove_dir(&self.0).context("removing a mount point"));
    }
}

/// A file system that is frozen: what would be written waits until it is thawed.
pub(super) struct Frozen {
    pub(super) at: PathBuf,
}

impl Frozen {
    pub(super) fn make(at: &Path) -> Result<Self> {
        run(Command::new("fsfreeze").arg("--freeze").arg(at))?;
        Ok(Self { at: at.to_owned() })
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        print_error(run(Command::new("fsfreeze").arg("--unfreeze").arg(&self.at)));
    }
}

/// Control groups (version 1) with limits for the processes in them: what they read from devices,
/// how much memory they and their page cache take, how much processor time they have.
#[derive(Default)]
pub(super) struct Group {
    made: Vec<PathBuf>,
    /// Held while processor time is limited.
    ungrouped: Option<Ungrouped>,
}

/// The kernel does not make a group of the processes of each session. They are made again with this
/// value's end.
///
/// Beside such a group with busy processes, a control group with many threads that sleep and wake
/// waits for up to nine seconds (Linux 6.18, two processors): nothing of what it does is measured.
struct Ungrouped(String);

impl Group {
    pub(super) fn throttle(&mut self, device: &Path, read_bps: u64, read_iops: u64) -> Result<()> {
        let group = self.of("blkio")?;
        let number = rustix::fs::stat(device)?.st_rdev;
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        for (file, limit) in [("read_bps", read_bps), ("read_iops", read_iops)] {
            let path = group.join(format!("blkio.throttle.{file}_device"));
            fs::write(&path, format!("{major}:{minor} {limit}"))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    pub(super) fn memory(&mut self, bytes: u64) -> Result<()> {
        let path = self.of("memory")?.join("memory.limit_in_bytes");
        fs::write(&path, bytes.to_string()).with_context(|| format!("writing {}", path.display()))
    }

    pub(super) fn processor(&mut self, percent: u32) -> Result<()> {
        if self.ungrouped.is_none() {
            self.ungrouped = Ungrouped::make()?;
        }
        let group = self.of("cpu")?;
        let quota_us = PERIOD_US * u64::from(percent) / 100;
        for (file, us) in [("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", quota_us)] {
            let path = group.join(file);
            fs::write(&path, us.to_string()).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    pub(super) fn join(&self, pid: i32) -> Result<()> {
        self.made.iter().try_for_each(|group| {
            fs::write(group.join("cgroup.procs"), pid.to_string())
                .with_context(|| format!("joining {}", group.display()))
        })
    }

    /// Our group of a controller, made when it is first wanted.
    fn of(&mut self, controller: &str) -> Result<PathBuf> {
        let path = Path::new(CGROUPS).join(controller).join(format!("reel-bench-{}", process::id()));
        if !self.made.contains(&path) {
            fs::create_dir(&path)
                .with_context(|| format!("making {} (control groups, version 1)", path.display()))?;
            self.made.push(path.clone());
        }
        Ok(path)
    }
}

impl Ungrouped {
    /// `None` if this kernel makes no such groups.
    fn make() -> Result<Option<Self>> {
        let Ok(before) = fs::read_to_string(AUTOGROUP) else { return Ok(None) };
        fs::write(AUTOGROUP, "0").with_context(|| format!("writing {AUTOGROUP}"))?;
        Ok(Some(Self(before)))
    }
}

impl Drop for Ungrouped {
    fn drop(&mut self) {
        print_error(fs::write(AUTOGROUP, self.0.trim()).with_context(|| format!("writing {AUTOGROUP}")));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for group in &self.made {
            // Processes that are still in it go back to the root group.
            for pid in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = fs::write(group.join("../cgroup.procs"), pid);
            }
            print_error(fs::remove_dir(group).with_context(|| format!("removing {}", group.display())));
        }
    }
}

/// A server that another process started, which may not be there to end it.
pub(super) struct OwnedServer(OwnedFd);

impl OwnedServer {
    /// Holds the process itself, not its number, which may be given to another one day.
    pub(super) fn of(pid: i32) -> Result<Self> {
        let pid = Pid::from_raw(pid).context("not the number of a process")?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }
}

impl Drop for OwnedServer {
    fn drop(&mut self) {
        for (signal, seconds) in [(Signal::TERM, 15), (Signal::KILL, 5)] {
            if pidfd_send_signal(&self.0, signal).is_err() {
                return;
            }
            let wait = Timespec { tv_sec: seconds, tv_nsec: 0 };
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            if poll(&mut fds, Some(&wait)).is_ok_and(|ready| ready > 0) {
                return;
            }
        }
    }
}

/// Sets scheduler and read-ahead of a block device. Loop devices are made again each time, so
/// nothing need be set back.
pub(super) fn set_queue(device: &Path, scheduler: Option<&str>, read_ahead_kib: Option<u64>) -> Result<()> {
    let name = device.file_name().context("a device without a name")?;
    let queue = Path::new("/sys/block").join(name).join("queue");
    for (file, value) in [
        ("scheduler", scheduler.map(str::to_owned)),
        ("read_ahead_kb", read_ahead_kib.map(|kib| kib.to_string())),
    ] {
        if let Some(value) = value {
            let path = queue.join(file);
            fs::write(&path, &value).with_context(|| format!("writing {value} to {}", path.display()))?;
        }
    }
    Ok(())
}

/// Unmounts as soon as it is unused, at the latest after a while.
pub(super) fn unmount(at: &Path) {
    for _ in 0..LEAVING_TRIES {
        // A server that was just ended may still close its files.
        if run(Command::new("umount").arg(at)).is_ok() {
            return;
        }
        sleep(LEAVING);
    }
    eprintln!("reel-bench: {} is still in use; it goes when its last user does", at.display());
    print_error(run(Command::new("umount").arg("--lazy").arg(at)));
}

fn run(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(command)?).into_owned())
}

fn print_error<T>(result: Result<T>) {
    if let Err(error) = result {
        eprintln!("reel-bench: something is left behind: {error:#}");
    }
}
