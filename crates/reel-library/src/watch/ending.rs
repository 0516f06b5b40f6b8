//! Whether a file has all that its container says it has.

use reel_media::{Ending, Source};
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Reads the heads of boxes and elements, and nothing between them.
struct Heads {
    file: File,
    bytes: u64,
}

impl Source for Heads {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(target, offset)
    }
}

/// What the container of a file says; a file that cannot be read says nothing, and its ingest will
/// say why.
pub(super) fn ending_of(path: &Path) -> Ending {
    let ending = || -> io::Result<Ending> {
        // A named pipe that took the place of the file must not be waited for.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Ending::Unsaid);
        }
        // Only advice: without it, the kernel reads more than was asked for.
        let _ = fadvise(&file, 0, None, Advice::Random);
        reel_media::ending(&mut Heads { bytes: metadata.len(), file })
    };
    ending().unwrap_or(Ending::Unsaid)
}
