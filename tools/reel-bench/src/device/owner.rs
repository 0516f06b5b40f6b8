//! The experiment's side of the device owner: a process that makes devices and removes them when
//! the experiment ends, however it ends.

use super::member::Change;
use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the device owner can be asked for. One line of JSON in each direction.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum DeviceRequest {
    /// Modelled disks as files; answers their paths.
    Disks { dir: PathBuf, count: usize, bytes: u64 },
    /// A loop device over a file; answers its path.
    Loop { file: PathBuf },
    /// Sets the kernel's scheduler and read-ahead of a block device.
    Queue { device: PathBuf, scheduler: Option<String>, read_ahead_kib: Option<u64> },
    /// Mounts an ext4 that is made for it.
    Ext4 { device: PathBuf, at: PathBuf },
    /// A directory that goes, if it is empty then.
    Dir { path: PathBuf },
    /// A file that is ours to remove, of `bytes`; answers nothing.
    File { path: PathBuf, bytes: u64 },
    /// Limits what the processes of our group read from a device.
    Throttle { device: PathBuf, read_bps: u64, read_iops: u64 },
    /// Limits the memory of the processes of our group, page cache included.
    Memory { bytes: u64 },
    /// Limits the processor time of the processes of our group, in hundredths of one processor.
    Processor { percent: u32 },
    /// Freezes the file system mounted there; it is thawed with us at the latest.
    Freeze { at: PathBuf },
    /// Thaws it.
    Thaw { at: PathBuf },
    /// Puts a process into our group, under all limits set until now.
    Join { pid: i32 },
    /// A server to end with us.
    Own { pid: i32 },
    /// Changes how a modelled disk behaves.
    Change { disk: usize, change: Change },
    /// What the modelled disks did; answers a list of [`DiskCounts`].
    Counts,
}

/// What one modelled disk did since it was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DiskCounts {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) busy_ns: u64,
    /// Requests that needed a seek.
    pub(crate) seeks: u64,
    pub(crate) overruns: u64,
}

/// A running device owner; what it made is removed when this is dropped.
pub(crate) struct DeviceOwner {
    line: Mutex<Line>,
    child: Child,
}

struct Line {
    /// Closing it makes the owner end. The kernel closes it too if this process is killed.
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl DeviceOwner {
    /// Starts one.
    ///
    /// # Errors
    /// Without root: devices cannot be made.
    pub(crate) fn start() -> Result<Self> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "modelled disks, loop devices and throttles need root; run this experiment as root"
        );
        let mut command = Command::new(env::current_exe()?);
        // A process group of its own: an interrupt from the terminal ends this process, and the
        // owner after it has cleaned up.
        command.arg("own-devices").process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting the owner of devices")?;
        let (Some(asks), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the owner has no pipes");
        };
        let line = Mutex::new(Line { asks: Some(asks), answers: BufReader::new(answers) });
        Ok(Self { line, child })
    }

    /// Asks and waits for the answer.
    pub(crate) fn request<T: DeserializeOwned>(&self, ask: &DeviceRequest) -> Result<T> {
        let mut line = self.line();
        let Line { asks, answers } = &mut *line;
        let mut text = serde_json::to_string(ask)?;
        text.push('\n');
        asks.as_mut().context("the owner was ended")?.write_all(text.as_bytes())?;
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        match serde_json::from_str(&answer).context("the owner ended")? {
            Answer::Done(value) => Ok(serde_json::from_value(value)?),
            Answer::Failed(why) => bail!("{why}"),
        }
    }

    /// Loop devices, one over each file.
    pub(crate) fn loops(&self, files: &[PathBuf]) -> Result<Vec<PathBuf>> {
        files.iter().map(|file| self.request(&DeviceRequest::Loop { file: file.clone() })).collect()
    }

    /// Changes all of `count` modelled disks.
    pub(crate) fn change_all(&self, count: usize, change: Change) -> Result<()> {
        (0..count).try_for_each(|disk| self.request(&DeviceRequest::Change { disk, change }))
    }

    /// Sets scheduler and read-ahead of all `devices`.
    pub(crate) fn queues(
        &self,
        devices: &[PathBuf],
        scheduler: Option<&str>,
        read_ahead_kib: Option<u64>,
    ) -> Result<()> {
        devices.iter().try_for_each(|device: &PathBuf| {
            let scheduler = scheduler.map(str::to_owned);
            self.request(&DeviceRequest::Queue { device: device.clone(), scheduler, read_ahead_kib })
        })
    }

    /// A fresh ext4 on each of `devices`, in directories below `dir`.
    pub(crate) fn ext4(&self, devices: &[PathBuf], dir: &Path) -> Result<Vec<PathBuf>> {
        let mut mounts = Vec::new();
        for (number, device) in devices.iter().enumerate() {
            let at = dir.join(number.to_string());
            self.request::<()>(&DeviceRequest::Ext4 { device: device.clone(), at: at.clone() })?;
            mounts.push(at);
        }
        Ok(mounts)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DeviceOwner {
    fn drop(&mut self) {
        self.line().asks = None;
        // It says itself what it could not take away.
        let _ = self.child.wait();
    }
}

/// An answer line.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    Done(serde_json::Value),
    Failed(String),
}
