//! Where the transport stream goes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use reel_volume::{self as volume, ensure_output};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::failure::Failure;

/// A file or standard output.
pub(super) struct Output {
    writer: BufWriter<Box<dyn Write>>,
    path: PathBuf,
}

/// What became of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// They were written.
    All,
    /// The reader of the pipe has closed it.
    Closed,
}

impl Output {
    /// Opens the output. A file grows while the cast is received, so that players can follow it.
    pub(super) fn open(path: Option<&Path>, replaces: bool) -> Result<Output, Failure> {
        let path = path.unwrap_or(Path::new("-"));
        let writer: Box<dyn Write> = if path == Path::new("-") {
            if io::stdout().is_terminal() {
                return Err(Failure::usage(
                    "standard output is a terminal, and a transport stream is no text",
                )
                .help("give it to a player (reel receive ... | mpv -), or write a file (-o film.ts)"));
            }
            Box::new(io::stdout())
        } else {
            Box::new(open_file(path, replaces)?)
        };
        Ok(Output { writer: BufWriter::with_capacity(1 << 16, writer), path: path.to_owned() })
    }

    /// Takes bytes to be written.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<Written, Failure> {
        let result = self.writer.write_all(bytes);
        self.written(result)
    }

    /// Writes what was taken.
    pub(super) fn flush(&mut self) -> Result<Written, Failure> {
        let result = self.writer.flush();
        self.written(result)
    }

    fn written(&self, result: io::Result<()>) -> Result<Written, Failure> {
        match result {
            Ok(()) => Ok(Written::All),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Written::Closed),
            Err(error) => Err(Failure::path("write", &self.path, &error)),
        }
    }
}

fn open_file(path: &Path, replaces: bool) -> Result<File, Failure> {
    ensure_output(path, volume::Output::Stream, replaces).map_err(Failure::volume)?;
    let mut options = OpenOptions::new();
    // A pipe is opened without waiting for its reader.
    options.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    if replaces {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let failed = |error: io::Error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NXIO) => Failure::failed(format!("no program reads the pipe {}", path.display()))
            .help("start its reader first"),
        _ => Failure::path("write", path, &error),
    };
    let file = options.open(path).map_err(failed)?;
    // Writes wait for a slow reader.
    let flags = rustix::fs::fcntl_getfl(&file).map_err(|error| failed(error.into()))?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
    Ok(file)
}
