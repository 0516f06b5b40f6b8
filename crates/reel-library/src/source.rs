//! A file on disk as the source of a demuxer.

use crate::guard::Guard;
use crate::input::Stop;
use reel_media::Source;
use reel_rt::open_regular;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How far the kernel reads ahead of the demuxer, so that reading a file and storing it overlap.
/// The kernel's own read-ahead of 128 KiB leaves the disk idle while a fragment is packed.
const AHEAD_BYTES: u64 = 16 << 20;

/// Reads a file as requested; demuxers do their own buffering.
pub(crate) struct FileSource {
    file: File,
    bytes: u64,
    /// The offset up to which read-ahead was requested.
    advised: u64,
    guard: Guard,
}

impl FileSource {
    /// Opens a regular file. Reading ends when `stop` is raised.
    pub(crate) fn open(path: &Path, stop: &Stop) -> io::Result<FileSource> {
        FileSource::new(open_regular(path)?, stop)
    }

    /// A source with the current length of the file: what is appended later is not seen.
    fn new(file: File, stop: &Stop) -> io::Result<FileSource> {
        let metadata = file.metadata()?;
        let guard = Guard::new(stop, metadata.len());
        Ok(FileSource { bytes: metadata.len(), file, advised: 0, guard })
    }

    /// Requests the next bytes when half of the last request is used up. A jump starts again.
    fn advise(&mut self, offset: u64) {
        let is_near = offset <= self.advised && self.advised - offset <= AHEAD_BYTES;
        let from = if is_near { self.advised } else { offset };
        if from - offset <= AHEAD_BYTES / 2 {
            // Only advice: a file system that ignores it reads on demand.
            let _ = fadvise(&self.file, from, NonZeroU64::new(AHEAD_BYTES), Advice::WillNeed);
            self.advised = from + AHEAD_BYTES;
        }
    }
}

impl Source for FileSource {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.guard.wanted()?;
        if offset.checked_add(target.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.advise(offset);
        self.file.read_exact_at(target, offset)
    }

    fn work(&mut self, _: u64) -> io::Result<()> {
        self.guard.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_read_is_the_file(bytes in 0_usize..900_000, reads in prop::collection::vec((0_usize..800_000, 0_usize..400_000), 1..12)) {
            let content: Vec<u8> = (0..bytes).map(|i| (i * 31 % 251) as u8).collect();
            let mut file = tempfile::tempfile().expect("tempfile");
            file.write_all(&content).expect("written");
            let mut source = FileSource::new(file, &Stop::default()).expect("a file");
            prop_assert_eq!(source.bytes(), bytes as u64);
            for (offset, count) in reads {
                let mut target = vec![0xee; count];
                let read = source.read_at(offset as u64, &mut target);
                match content.get(offset..offset + count) {
                    Some(wanted) => {
                        prop_assert!(read.is_ok());
                        prop_assert_eq!(target, wanted);
                    }
                    None => prop_assert_eq!(read.expect_err("beyond the end").kind(), io::ErrorKind::UnexpectedEof),
                }
            }
        }
    }

    #[test]
    fn directories_and_overflows_are_refused() {
        assert!(FileSource::open(Path::new("/"), &Stop::default()).is_err());
        let mut source =
            FileSource::new(tempfile::tempfile().expect("tempfile"), &Stop::default()).expect("a file");
        assert!(source.read_at(u64::MAX, &mut [0; 2]).is_err());
    }
}
