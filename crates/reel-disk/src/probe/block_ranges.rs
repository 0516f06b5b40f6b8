//! Where a measurement reads: the written parts of a member, and places in them.

use crate::error::DiskError;
use crate::limits::{BLOCK_BYTES, PROBE_RANGES_MAX};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io::{self, Seek};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Ranges of whole blocks that may be read or written, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockRanges {
    ranges: Vec<Range<u64>>,
    /// Blocks before each range.
    before: Vec<u64>,
    blocks: u64,
}

/// A source of places: xorshift64* (Vigna 2016). It need not be unpredictable.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl BlockRanges {
    /// The written parts of a member. Reading a hole, or space that was allocated and never
    /// written, costs nothing. A new volume that is measured there would have the price of memory.
    pub(super) fn of_file(file: &File, path: &Path) -> Result<BlockRanges, DiskError> {
        let failed = |error: io::Error| DiskError::File {
            path: path.to_owned(),
            what: "find the written parts of",
            source: Arc::new(error),
        };
        // The metadata of a block device contains no length.
        let bytes = (&*file).seek(io::SeekFrom::End(0)).map_err(failed)?;
        let mut ranges = Vec::new();
        let mut at = 0;
        while at < bytes && ranges.len() < PROBE_RANGES_MAX {
            let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
                Ok(start) => start,
                // No data after this.
                Err(rustix::io::Errno::NXIO) => break,
                // Block devices, and file systems that do not report holes: all of it counts as
                // written.
                Err(rustix::io::Errno::INVAL) => {
                    ranges.push(at..bytes);
                    break;
                }
                Err(error) => return Err(failed(error.into())),
            };
            at = rustix::fs::seek(file, SeekFrom::Hole(start)).map_err(|error| failed(error.into()))?;
            ranges.push(start..at.min(bytes));
        }
        Ok(BlockRanges::new(ranges))
    }

    pub(super) fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> BlockRanges {
        let whole_blocks = |range: Range<u64>| {
            range.start.next_multiple_of(BLOCK_BYTES)..range.end / BLOCK_BYTES * BLOCK_BYTES
        };
        let mut block_ranges = BlockRanges { ranges: Vec::new(), before: Vec::new(), blocks: 0 };
        for range in ranges.into_iter().map(whole_blocks).filter(|range| range.start < range.end) {
            block_ranges.before.push(block_ranges.blocks);
            block_ranges.blocks += (range.end - range.start) / BLOCK_BYTES;
            block_ranges.ranges.push(range);
        }
        block_ranges
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// The ranges that hold requests of this size; `None` if there are none.
    pub(super) fn holding(&self, bytes: usize) -> Option<BlockRanges> {
        let fitting = self.ranges.iter().filter(|range| range.end - range.start >= bytes as u64).cloned();
        let block_ranges = BlockRanges::new(fitting);
        (block_ranges.blocks > 0).then_some(block_ranges)
    }

    /// The part of the ranges from `from` to `to` eighths of their bytes; all of them if that part
    /// holds no request of this size.
    pub(super) fn eighths(&self, from: u64, to: u64, bytes: usize) -> BlockRanges {
        let (from, to) = (self.blocks * from / 8, self.blocks * to / 8);
        let part = self.ranges.iter().zip(&self.before).map(|(range, &before)| {
            let at = |block: u64| (range.start + block.saturating_sub(before) * BLOCK_BYTES).min(range.end);
            at(from)..at(to)
        });
        BlockRanges::new(part).holding(bytes).unwrap_or_else(|| self.clone())
    }

    /// A random place for a request that the ranges hold ([`BlockRanges::holding`]).
    pub(super) fn random(&self, bytes: usize, random: &mut Random) -> u64 {
        let block = random.below(self.blocks);
        let (range, block) = self.find(block);
        let place = range.start + block * BLOCK_BYTES;
        // A request that would reach beyond the end begins earlier, so that the ends of ranges are
        // read, too.
        place.min(range.end.saturating_sub(bytes as u64).max(range.start))
    }

    /// One request after another from a random place on, and from the beginning again.
    pub(super) fn sequence(&self, bytes: usize, random: &mut Random) -> impl Iterator<Item = u64> {
        let first = self.random(bytes, random);
        let mut range = self.ranges.iter().position(|range| range.contains(&first)).unwrap_or(0);
        let mut next = first;
        std::iter::from_fn(move || {
            if next + bytes as u64 > self.ranges[range].end {
                range = (range + 1) % self.ranges.len();
                next = self.ranges[range].start;
            }
            let place = next;
            next += bytes as u64;
            Some(place)
        })
    }

    fn find(&self, block: u64) -> (&Range<u64>, u64) {
        let range = self.before.partition_point(|&before| before <= block).saturating_sub(1);
        (&self.ranges[range], block - self.before[range])
    }
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`; 0 if there is none.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_places() -> impl Strategy<Value = BlockRanges> {
        prop::collection::vec((0u64..1 << 20, 1u64..1 << 20), 1..8).prop_map(|steps| {
            let mut at = 0;
            BlockRanges::new(steps.into_iter().map(|(gap, bytes)| {
                let start = at + gap;
                at = start + bytes;
                start..at
            }))
        })
    }

    proptest! {
        #[test]
        fn every_place_is_whole_blocks_of_what_was_written(
            block_ranges in any_places(), blocks in 1usize..80, seed in any::<u64>(), from in 0u64..8,
        ) {
            let bytes = blocks * BLOCK_BYTES as usize;
            let Some(holding) = block_ranges.holding(bytes) else { return Ok(()) };
            let mut random = Random::new(seed);
            let inside = |place: u64| {
                place.is_multiple_of(BLOCK_BYTES)
                    && block_ranges.ranges.iter().any(|range| range.start <= place && place + bytes as u64 <= range.end)
            };
            for _ in 0..20 {
                let place = holding.random(bytes, &mut random);
                prop_assert!(inside(place), "{} of {:?}", place, block_ranges);
            }
            let part = holding.eighths(from, from + 1, bytes);
            prop_assert!(inside(part.random(bytes, &mut random)));
            for place in holding.sequence(bytes, &mut random).take(50) {
                prop_assert!(inside(place), "{} of {:?}", place, block_ranges);
            }
        }
    }

    #[test]
    fn places_are_spread_over_all_ranges_by_their_size() {
        let block_ranges = BlockRanges::new([0..1 << 20, 100 << 20..103 << 20]);
        assert_eq!(block_ranges.bytes(), 4 << 20);
        let mut random = Random::new(7);
        let low = (0..4000).filter(|_| block_ranges.random(4096, &mut random) < 1 << 20).count();
        assert!((800..1200).contains(&low), "{low}");
        let last = block_ranges.eighths(7, 8, 4096);
        assert!((0..100).all(|_| last.random(4096, &mut random) >= (102 << 20) + (1 << 19)));
    }
}
