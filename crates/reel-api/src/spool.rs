//! The spool directory, where the files of an upload wait until they are whole.

use crate::problem::Problem;
use crate::{ControlPlane, on_blocking_thread};
use reel_library::Input;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

/// What to do about a spool directory without space.
pub(super) const LARGER_SPOOL: &str =
    "free some space there, or set upload.spool_dir to a larger file system";

/// A file of which a body consists.
pub(super) struct Part {
    pub(super) name: String,
    /// `None`: up to the end of the body.
    pub(super) bytes: Option<u64>,
}

/// A file in the spool directory without a name: it is gone when closed, however the process ends.
pub(super) struct Spooled {
    name: String,
    path: PathBuf,
    pub(super) bytes: u64,
    _file: Arc<File>,
}

impl Spooled {
    /// The file as the input of an ingest.
    pub(super) fn input(&self) -> Input {
        Input { path: self.path.clone(), file_name: Some(self.name.clone()) }
    }
}

/// A file of the spool directory that is being written.
struct Spooling {
    part: Part,
    file: Arc<File>,
    writer: tokio::fs::File,
    bytes: u64,
}

impl Spooling {
    async fn begin(control: &ControlPlane, part: Part) -> Result<Spooling, Problem> {
        let dir = control.config().spool_dir.clone();
        let opened = on_blocking_thread(move || open_spool(&dir)).await?;
        let file = Arc::new(opened.map_err(|e| spool_problem(control, &e))?);
        let writer = file.try_clone().map_err(|e| spool_problem(control, &e))?;
        let mut writer = tokio::fs::File::from_std(writer);
        writer.set_max_buf_size(1 << 20);
        Ok(Spooling { part, file, writer, bytes: 0 })
    }

    /// How many more bytes belong to it.
    fn left_bytes(&self) -> u64 {
        self.part.bytes.map_or(u64::MAX, |bytes| bytes - self.bytes)
    }

    async fn end(mut self, control: &ControlPlane) -> Result<Spooled, Problem> {
        self.writer.flush().await.map_err(|e| spool_problem(control, &e))?;
        // The demuxer opens the same bytes again, and so does ffmpeg for the poster: /proc/self
        // would be ffmpeg's own directory.
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()));
        Ok(Spooled { name: self.part.name, path, bytes: self.bytes, _file: self.file })
    }
}

/// The files of an upload, written one after the other.
pub(super) struct Spool {
    now: Spooling,
    next: std::vec::IntoIter<Part>,
    done: Vec<Spooled>,
}

impl Spool {
    /// Begins with the first of these files.
    pub(super) async fn begin(control: &ControlPlane, parts: Vec<Part>) -> Result<Spool, Problem> {
        let mut next = parts.into_iter();
        let first = next.next().ok_or_else(|| Problem::internal("an upload without files"))?;
        Ok(Spool { now: Spooling::begin(control, first).await?, next, done: Vec::new() })
    }

    /// Takes the next bytes of the body.
    pub(super) async fn write(&mut self, control: &ControlPlane, mut bytes: &[u8]) -> Result<(), Problem> {
        while !bytes.is_empty() {
            if self.now.left_bytes() == 0 {
                let Some(part) = self.next.next() else {
                    return Err(Problem::bad_request("the body is longer than its files"));
                };
                let ended = std::mem::replace(&mut self.now, Spooling::begin(control, part).await?);
                self.done.push(ended.end(control).await?);
            }
            let count = self.now.left_bytes().min(bytes.len() as u64) as usize;
            let (taken, rest) = bytes.split_at(count);
            self.now.writer.write_all(taken).await.map_err(|e| spool_problem(control, &e))?;
            self.now.bytes += taken.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// The files, when the body has ended.
    pub(super) async fn end(mut self, control: &ControlPlane) -> Result<Vec<Spooled>, Problem> {
        let is_whole = self.now.part.bytes.is_none_or(|bytes| bytes == self.now.bytes);
        if !is_whole || self.next.next().is_some() {
            return Err(Problem::bad_request("the body is shorter than its files"));
        }
        self.done.push(self.now.end(control).await?);
        Ok(self.done)
    }
}

/// Makes the spool directory if it is missing and its parent is not, and checks that files can be
/// written there.
///
/// # Errors
/// Its parent is missing: a disk that is not mounted, or a misspelt path. Or it cannot be written.
pub fn prepare_spool(dir: &Path) -> io::Result<()> {
    open_spool(dir).map(drop)
}

fn open_spool(dir: &Path) -> io::Result<File> {
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => tempfile::tempfile_in(dir),
    }
}

fn spool_problem(control: &ControlPlane, error: &io::Error) -> Problem {
    let dir = control.config().spool_dir.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Problem::no_space(format!("the spool directory {dir} is full")).help(LARGER_SPOOL)
        }
        _ => Problem::internal(format!("the spool directory {dir} cannot be written: {error}"))
            .help("set upload.spool_dir to a directory that can be written"),
    }
}
