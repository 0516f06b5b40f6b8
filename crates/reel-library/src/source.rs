//! A file on disk as the bytes of a demuxer.

use reel_media::Source;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of one window: large enough that a film is read in few calls, small enough to throw away.
const WINDOW_BYTES: usize = 256 << 10;
/// Windows kept: video and audio of badly interleaved files lie far apart, and each wants its own.
const WINDOWS: usize = 4;

/// Reads a file in large pieces however small the demuxer asks.
pub(crate) struct FileSource {
    file: File,
    bytes: u64,
    windows: Vec<Window>,
}

struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl FileSource {
    /// The file's bytes as they are now: what is appended later is not seen.
    pub(crate) fn new(file: File) -> io::Result<FileSource> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(FileSource { bytes: metadata.len(), file, windows: Vec::new() })
    }

    fn window(&mut self, offset: u64) -> io::Result<&Window> {
        let holds = |w: &Window| offset >= w.offset && offset - w.offset < w.bytes.len() as u64;
        let window = match self.windows.iter().position(holds) {
            Some(index) => self.windows.remove(index),
            None => {
                // The one used longest ago is last.
                let mut bytes =
                    if self.windows.len() == WINDOWS { self.windows.pop().map(|w| w.bytes) } else { None }
                        .unwrap_or_default();
                let length = (self.bytes - offset).min(WINDOW_BYTES as u64) as usize;
                bytes.resize(length, 0);
                self.file.read_exact_at(&mut bytes, offset)?;
                Window { offset, bytes }
            }
        };
        self.windows.insert(0, window);
        Ok(&self.windows[0])
    }
}

impl Source for FileSource {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(target.len() as u64).filter(|end| *end <= self.bytes);
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if target.len() >= WINDOW_BYTES {
            return self.file.read_exact_at(target, offset);
        }
        let mut done = 0;
        while done < target.len() {
            let at = offset + done as u64;
            let window = self.window(at)?;
            let from = &window.bytes[(at - window.offset) as usize..];
            let count = from.len().min(target.len() - done);
            target[done..done + count].copy_from_slice(&from[..count]);
            done += count;
        }
        Ok(())
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
        fn every_read_is_the_file(bytes in 0_usize..3 * WINDOW_BYTES, reads in prop::collection::vec((0_usize..800_000, 0_usize..400_000), 1..12)) {
            let content: Vec<u8> = (0..bytes).map(|i| (i * 31 % 251) as u8).collect();
            let mut file = tempfile::tempfile().expect("tempfile");
            file.write_all(&content).expect("written");
            let mut source = FileSource::new(file).expect("a file");
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
        assert!(FileSource::new(File::open("/").expect("opened")).is_err());
        let mut source = FileSource::new(tempfile::tempfile().expect("tempfile")).expect("a file");
        assert!(source.read_at(u64::MAX, &mut [0; 2]).is_err());
    }
}
