//! The file that writes are measured on. It has no name and disappears with the measurement,
//! however that ends.

use super::block_ranges::{BlockRanges, Random};
use super::error::ProbeError;
use crate::limits::{BLOCK_BYTES, PROBE_SCRATCH_BYTES};
use crate::profile::{DeviceIdentity, DeviceKind};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// A file beside a member, on the same file system.
pub(super) struct Scratch {
    file: Arc<OwnedFd>,
    block_ranges: BlockRanges,
    random: Random,
    /// Of one write beside reads.
    beside_bytes: usize,
}

impl Scratch {
    pub(super) fn beside(
        path: &Path,
        device: &DeviceIdentity,
        unit_bytes: usize,
    ) -> Result<Scratch, ProbeError> {
        if device.kind == DeviceKind::BlockDevice {
            return Err(ProbeError::NoPlaceForScratch { path: path.to_owned() });
        }
        let failed =
            |error: rustix::io::Errno| ProbeError::Scratch { path: path.to_owned(), source: error.into() };
        // A link to the member leads to another file system than the one the link is on.
        let real =
            path.canonicalize().map_err(|source| ProbeError::Scratch { path: path.to_owned(), source })?;
        let directory = real.parent().unwrap_or(Path::new("/"));
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::open(directory, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
        // A full disk is reported here, before anything is measured.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, PROBE_SCRATCH_BYTES).map_err(failed)?;
        let block_ranges = BlockRanges::new(std::iter::once(0..PROBE_SCRATCH_BYTES));
        Ok(Scratch {
            file: Arc::new(file),
            block_ranges,
            random: Random::new(reel_rt::now_ns()),
            beside_bytes: unit_bytes.next_multiple_of(BLOCK_BYTES as usize),
        })
    }

    pub(super) fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    pub(super) fn block_ranges(&self) -> &BlockRanges {
        &self.block_ranges
    }

    /// Where the next write beside reads goes, and how long it is.
    pub(super) fn next(&mut self) -> (u64, usize) {
        (self.block_ranges.random(self.beside_bytes, &mut self.random), self.beside_bytes)
    }
}
