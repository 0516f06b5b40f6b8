//! What ingest is compared with: the same bytes written plainly to files of the same file system.

use anyhow::Result;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Instant;

/// Bytes of one write; large, as a plain copy would do it.
const WRITE_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;

/// Seconds to write `bytes` with O_DIRECT over `members` preallocated files at once, and to sync
/// them.
pub(super) fn plain_write(dir: &Path, members: usize, bytes: u64) -> Result<f64> {
    let share = bytes.div_ceil(members as u64).next_multiple_of(WRITE_BYTES as u64);
    let mut files = Vec::new();
    for number in 0..members {
        let path = dir.join(format!("plain-{number}"));
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(&path)?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, share)?;
        files.push((file, path));
    }
    let started = Instant::now();
    thread::scope(|scope| {
        let writers: Vec<_> =
            files.iter().map(|(file, _)| scope.spawn(move || write_all(file, share))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("a writer panicked"))
    })?;
    let took_s = started.elapsed().as_secs_f64();
    for (_, path) in files {
        std::fs::remove_file(path)?;
    }
    Ok(took_s)
}

fn write_all(mut file: &std::fs::File, bytes: u64) -> Result<()> {
    // O_DIRECT wants memory at a page border; a vector gives it at any.
    let mut memory = vec![0_u8; WRITE_BYTES + PAGE_BYTES];
    let start = memory.as_ptr().align_offset(PAGE_BYTES);
    for (index, byte) in memory.iter_mut().enumerate() {
        *byte = ((index * 2_654_435_761) >> 7) as u8;
    }
    let buffer = &memory[start..start + WRITE_BYTES];
    for _ in 0..bytes / WRITE_BYTES as u64 {
        file.write_all(buffer)?;
    }
    file.sync_data()?;
    Ok(())
}
