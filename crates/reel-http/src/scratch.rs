//! Buffers of the arena in which a core seals responses.
//!
//! A connection holds a buffer from sealing until the socket has accepted all of it. The number of
//! buffers is fixed. When all are held, the sealed bytes of the slowest client are moved out of the
//! arena (`service/secure.rs`), so that no client waits for another one.

use reel_arena::{Arena, Buffer};
use reel_ring::Chunk;

/// The buffers of one core.
pub(crate) struct Scratch {
    free: Vec<Buffer>,
    /// The offsets of all of them in the arena, in ascending order.
    starts: Vec<usize>,
    buffer_bytes: usize,
    /// The connections that hold a buffer, the longest holder first.
    holders: Vec<u64>,
}

impl Scratch {
    /// Takes `count` buffers of the arena, or as many as are free.
    pub(crate) fn new(arena: &Arena, count: usize) -> Self {
        let free: Vec<Buffer> = (0..count).map_while(|_| arena.take(arena.buffer_bytes())).collect();
        let mut starts: Vec<usize> = free.iter().map(Buffer::region_offset).collect();
        starts.sort_unstable();
        Self { free, starts, buffer_bytes: arena.buffer_bytes(), holders: Vec::new() }
    }

    /// Lends a buffer to a connection.
    pub(crate) fn take(&mut self, token: u64) -> Option<Buffer> {
        let buffer = self.free.pop()?;
        self.holders.push(token);
        Some(buffer)
    }

    /// Takes a buffer back from its connection. A chunk that is none of these buffers is dropped.
    pub(crate) fn give(&mut self, token: u64, chunk: Chunk) {
        let Chunk::Lease(lease) = chunk else { return };
        let start = lease.region_offset() / self.buffer_bytes * self.buffer_bytes;
        if self.starts.binary_search(&start).is_err() {
            return;
        }
        if let Some(index) = self.holders.iter().position(|holder| *holder == token) {
            self.holders.remove(index);
        }
        // No other part is ever given a lease of the buffer, so this one is the last.
        if let Ok(buffer) = lease.try_into_buffer() {
            self.free.push(buffer);
        }
    }

    /// The connections that hold a buffer, the longest holder first.
    pub(crate) fn holders(&self) -> &[u64] {
        &self.holders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_arena::ArenaConfig;

    #[test]
    fn only_lent_buffers_are_taken_back() {
        let config =
            ArenaConfig { buffer_bytes: 4096, buffer_count: 4, cells_per_buffer: 1, huge_pages: false };
        let arena = Arena::new(config).unwrap();
        let foreign = arena.take(4096).unwrap().freeze();
        let mut scratch = Scratch::new(&arena, 2);
        assert_eq!(arena.usage().buffers_taken, 3);
        let (first, second) = (scratch.take(7).unwrap(), scratch.take(8).unwrap());
        assert!(scratch.take(9).is_none());
        assert_eq!(scratch.holders(), [7, 8]);
        scratch.give(5, Chunk::Lease(foreign));
        assert!(scratch.take(9).is_none(), "a buffer of others is not ours to lend");
        let part = first.freeze().slice(100..200);
        scratch.give(7, Chunk::Lease(part));
        assert_eq!(scratch.holders(), [8]);
        assert!(scratch.take(9).is_some());
        scratch.give(8, Chunk::Lease(second.freeze()));
        scratch.give(8, Chunk::from(vec![1, 2]));
        assert_eq!(scratch.holders(), [9]);
        assert_eq!(arena.usage().buffers_taken, 1, "one was dropped above, and the foreign one went back");
    }
}
