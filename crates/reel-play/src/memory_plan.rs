//! How the media memory of a server is divided. What is left after the parts below is promised to
//! readers.

use crate::limits::{
    LENT_ARENA_BUFFERS_MIN, LENT_PART, SCRATCH_BUFFERS_PER_CORE, SCRATCH_PART, STRIPES_PER_INGEST,
};
use reel_ring::DriverChoice;
use reel_volume::limits::MAINTENANCE_STRIPES;

/// What decides how an arena is divided.
#[derive(Clone, Copy, Debug)]
pub struct MemoryUse {
    /// Buffers in all.
    pub buffers: usize,
    /// Units of a stripe, those of parity included.
    pub width: usize,
    /// Threads that serve media, of all front ends.
    pub serve_threads: usize,
    /// Those of them that seal, if TLS is spoken.
    pub sealing_threads: usize,
    /// Ingests that may run at once.
    pub ingests: usize,
    /// Whether TLS is spoken.
    pub is_tls: bool,
    /// The driver of the sockets.
    pub driver: DriverChoice,
    /// Whether memory may be lent to the kernel.
    pub zero_copy: bool,
}

/// The parts of an arena, in buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// For the stripes of ingests and of a rebuild or scrub, and one decoding for each core.
    pub spare: usize,
    /// For sealing responses, on all cores.
    pub scratch_per_core: usize,
    /// Buffers that may be lent to the kernel, which sends from them without a copy.
    pub lent: usize,
    /// For readers. [`reel_cache::Budget::promisable`] returns how many of them may be promised.
    pub readers: usize,
}

impl MemoryPlan {
    /// Divides an arena. In a small arena ingests and maintenance get at most a half, and sealing a
    /// quarter.
    pub fn of(arena: &MemoryUse) -> Self {
        let MemoryUse { buffers, width, serve_threads, sealing_threads, ingests, .. } = *arena;
        let MemoryUse { is_tls, driver, zero_copy, .. } = *arena;
        let writing = ingests.max(1) * STRIPES_PER_INGEST * width;
        let decoding = serve_threads * width;
        let maintenance = MAINTENANCE_STRIPES * width;
        let spare = (writing + decoding + maintenance).min(buffers / 2);
        let scratch_per_core = if is_tls {
            SCRATCH_BUFFERS_PER_CORE.min(buffers / SCRATCH_PART / sealing_threads.max(1))
        } else {
            0
        };
        // A driver that copies needs none. Where readers have little, they get all of it.
        let is_lent = zero_copy && driver != DriverChoice::Portable && buffers >= LENT_ARENA_BUFFERS_MIN;
        let lent = if is_lent { buffers / LENT_PART } else { 0 };
        let readers = buffers.saturating_sub(spare + sealing_threads * scratch_per_core + lent);
        Self { spare, scratch_per_core, lent, readers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uses() -> impl Strategy<Value = MemoryUse> {
        (
            1_usize..100_000,
            2_usize..32,
            1_usize..128,
            0_usize..16,
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
        )
            .prop_map(|(buffers, width, sealing_threads, ingests, is_tls, is_ring, zero_copy)| {
                let serve_threads = sealing_threads + 3;
                let driver = if is_ring { DriverChoice::Uring } else { DriverChoice::Portable };
                MemoryUse {
                    buffers,
                    width,
                    serve_threads,
                    sealing_threads,
                    ingests,
                    is_tls,
                    driver,
                    zero_copy,
                }
            })
    }

    proptest! {
        #[test]
        fn the_parts_are_the_whole_and_readers_have_a_fifth(arena in uses()) {
            let parts = MemoryPlan::of(&arena);
            let others = parts.spare + arena.sealing_threads * parts.scratch_per_core + parts.lent;
            prop_assert_eq!(parts.readers + others, arena.buffers);
            // No reader is refused for memory that other uses only might need.
            prop_assert!(parts.readers >= arena.buffers / 5, "{parts:?}");
        }
    }

    #[test]
    fn a_server_that_copies_lends_nothing_and_one_without_tls_seals_nothing() {
        let arena = MemoryUse {
            buffers: 16_000,
            width: 5,
            serve_threads: 4,
            sealing_threads: 4,
            ingests: 1,
            is_tls: false,
            driver: DriverChoice::Portable,
            zero_copy: true,
        };
        let parts = MemoryPlan::of(&arena);
        assert_eq!((parts.lent, parts.scratch_per_core), (0, 0));
        let ring = MemoryPlan::of(&MemoryUse { driver: DriverChoice::Auto, is_tls: true, ..arena });
        assert_eq!(ring.lent, 16_000 / LENT_PART);
        assert!(ring.scratch_per_core > 0);
        // What an ingest, a decoding on each core and a rebuild need is not promised to viewers.
        assert_eq!(parts.spare, (STRIPES_PER_INGEST + 4 + MAINTENANCE_STRIPES) * 5);
        let parts_of_plan =
            MemoryPlan::of(&MemoryUse { driver: DriverChoice::Auto, zero_copy: false, ..arena });
        assert_eq!(parts_of_plan, parts);
        assert!(ring.readers < parts.readers);
    }
}
