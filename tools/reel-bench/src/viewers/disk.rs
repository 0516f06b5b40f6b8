//! The disk below a directory: what passes it, and what it can do for a plain reader.

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Readers at once: the disk's depth.
const READERS: usize = 8;
/// What each asks for at once.
const READ_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;
/// diskstats counts in these, whatever the device's own are
/// (Documentation/admin-guide/iostats.rst).
const SECTOR_BYTES: u64 = 512;

/// A block device.
pub(super) struct Disk {
    major: u32,
    minor: u32,
}

/// Bytes since the machine started.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskBytes {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

impl Disk {
    pub(super) fn below(path: &Path) -> Result<Self> {
        let number = fs::metadata(path)?.dev();
        Ok(Self { major: rustix::fs::major(number), minor: rustix::fs::minor(number) })
    }

    /// What has passed it until now; nothing of what is no block device, as memory is.
    pub(super) fn passed(&self) -> Result<DiskBytes> {
        let stats = fs::read_to_string("/proc/diskstats").context("reading /proc/diskstats")?;
        let fields = stats.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        let (major, minor) = (self.major.to_string(), self.minor.to_string());
        let own =
            fields.into_iter().find(|fields| fields.len() > 9 && fields[0] == major && fields[1] == minor);
        let bytes = |at: usize| -> Result<u64> {
            let sectors = own.as_ref().map_or(Ok(0), |fields| fields[at].parse::<u64>())?;
            Ok(sectors * SECTOR_BYTES)
        };
        Ok(DiskBytes { read_bytes: bytes(5)?, written_bytes: bytes(9)? })
    }
}

/// How plain readers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Past the page cache, into small pages: a device takes one segment for each, which may cost
    /// more than its bandwidth allows.
    Direct,
    /// Into the page cache, with the kernel's read-ahead and large folios.
    Cached,
}

/// Bytes a second that plain readers get of these files, in an order as scattered as viewers'.
pub(super) fn ceiling(files: &[PathBuf], reading: Reading, seconds: Duration) -> Result<f64> {
    let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let started = Instant::now();
    thread::scope(|scope| {
        let read = || -> Result<()> {
            // O_DIRECT wants memory at a page border; a vector gives it at any.
            let mut memory = vec![0_u8; READ_BYTES + PAGE_BYTES];
            let start = memory.as_ptr().align_offset(PAGE_BYTES);
            while started.elapsed() < seconds {
                let number = next.fetch_add(1, Ordering::Relaxed);
                // A prime steps through the files so that neighbours are far apart.
                let file = open(&files[number * 7919 % files.len()], reading)?;
                let mut at = 0;
                loop {
                    let count = file.read_at(&mut memory[start..start + READ_BYTES], at)?;
                    bytes.fetch_add(count as u64, Ordering::Relaxed);
                    at += count as u64;
                    if count < READ_BYTES || started.elapsed() >= seconds {
                        break;
                    }
                }
            }
            Ok(())
        };
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        readers.into_iter().try_for_each(|reader| reader.join().expect("a reader does not panic"))
    })?;
    Ok(bytes.into_inner() as f64 / started.elapsed().as_secs_f64())
}

/// All files below a directory, however deep.
pub(super) fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("looking into {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() { files.extend(files_below(&path)?) } else { files.push(path) }
    }
    files.sort();
    Ok(files)
}

fn open(path: &Path, reading: Reading) -> Result<File> {
    let open = |flags: OFlags| OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = match reading {
        // File systems in memory have nothing to go past.
        Reading::Direct => open(OFlags::DIRECT).or_else(|_| open(OFlags::empty())),
        Reading::Cached => open(OFlags::empty()),
    };
    file.with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_counted() {
        let dir = std::env::temp_dir().join(format!("reel-bench-disk-{}", std::process::id()));
        fs::create_dir_all(dir.join("deep")).expect("a directory");
        fs::write(dir.join("a"), vec![1; 3 << 20]).expect("a file");
        fs::write(dir.join("deep/b"), vec![2; 5000]).expect("a file");
        let files = files_below(&dir).expect("files");
        assert_eq!(files, [dir.join("a"), dir.join("deep/b")]);
        for reading in [Reading::Direct, Reading::Cached] {
            let rate = ceiling(&files, reading, Duration::from_millis(50)).expect("a rate");
            assert!(rate > 0.0, "{reading:?}: {rate}");
        }
        Disk::below(&dir).and_then(|disk| disk.passed()).expect("what passed");
        fs::remove_dir_all(&dir).expect("it was there");
    }
}
