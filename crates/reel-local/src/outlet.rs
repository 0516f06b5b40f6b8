//! An outlet that writes a stream to shared memory.

use crate::limits::{POURED_OWN_BYTES, PROGRAM_MESSAGES, PROGRAM_OWN_BYTES, PROGRAM_OWN_MESSAGE_BYTES};
use reel_arena::mms::{CONSUMER_BYTES, Ending, Layout, Post, Producer, RingSpace};
use reel_arena::{Arena, ArenaError, Others, SharedMemory};
use reel_ring::Chunk;
use reel_serve::streams::{Offer, Outlet, Settled};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// The arena as programs see it.
#[derive(Clone, Debug)]
pub struct ArenaMap(Arena);

/// Messages of one stream for one program.
pub struct MappedOutlet {
    producer: Producer<SharedMemory, SharedMemory>,
    layout: Layout,
    /// What was posted and not given back: its length, and its bytes in the stream's own memory
    /// together with the bytes that were left out before them.
    held: VecDeque<HeldMessage>,
    /// Messages given back so far.
    given_back: u64,
    /// The stream's own memory.
    own: RingSpace,
}

struct HeldMessage {
    bytes: u64,
    own_bytes: u64,
    /// Keeps the bytes in place while the program looks at them.
    _chunk: Option<Chunk>,
}

impl ArenaMap {
    /// `None` if the arena cannot be mapped by other processes.
    pub fn new(arena: Arena) -> Option<ArenaMap> {
        arena.region().fd.is_some().then_some(ArenaMap(arena))
    }

    /// Its descriptor.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.region().fd
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.region().bytes as u64
    }
}

impl MappedOutlet {
    /// Memory for a new stream of a title.
    ///
    /// # Errors
    /// The kernel provides no memory.
    pub fn new() -> Result<MappedOutlet, ArenaError> {
        Self::with_own(PROGRAM_OWN_BYTES)
    }

    /// Memory for a new stream of which nothing is in the arena.
    ///
    /// # Errors
    /// The kernel provides no memory.
    pub fn of_poured() -> Result<MappedOutlet, ArenaError> {
        Self::with_own(POURED_OWN_BYTES)
    }

    fn with_own(own_bytes: usize) -> Result<MappedOutlet, ArenaError> {
        let layout = Layout::new(PROGRAM_MESSAGES, own_bytes);
        let own = SharedMemory::create("reel-stream", layout.memory_bytes(), Others::Read)?;
        let theirs = SharedMemory::create("reel-stream-reader", CONSUMER_BYTES, Others::Write)?;
        Ok(MappedOutlet {
            producer: Producer::new(own, theirs, layout),
            layout,
            held: VecDeque::new(),
            given_back: 0,
            own: RingSpace::new(layout.bytes as u64),
        })
    }

    /// The memory that the program reads.
    pub fn producer_memory(&self) -> &SharedMemory {
        self.producer.memory()
    }

    /// The memory that the program writes.
    pub fn consumer_memory(&self) -> &SharedMemory {
        self.producer.consumer_memory()
    }

    /// Messages that the program has taken and not given back.
    pub fn held(&self) -> usize {
        self.held.len()
    }
}

impl MappedOutlet {
    /// Posts a message, or its beginning. One of a stream in step has a media time.
    fn post(&mut self, offer: &Offer<'_>, shown_ns: Option<u64>) -> u64 {
        if self.producer.free() == 0 || self.producer.is_ended() {
            return 0;
        }
        let (position, due_ns) = (offer.position, offer.due_ns);
        let (post, own_bytes, chunk) = match offer.chunk {
            // The cast fits: a lease is at most 1 GiB.
            Chunk::Lease(lease) => {
                let (offset, bytes) = (lease.region_offset() as u64, lease.len() as u32);
                let post = Post { offset, bytes, in_producer: false, position, due_ns };
                (post, 0, Some(offer.chunk.clone()))
            }
            Chunk::Bytes(..) => {
                // What the server made itself is not in the arena. This is the only copy: the few
                // KiB of a file's head.
                let bytes = &offer.chunk[..offer.chunk.len().min(PROGRAM_OWN_MESSAGE_BYTES)];
                let Some(place) = self.own.take(bytes.len() as u64) else { return 0 };
                // The cast fits: the offset is within the stream's own memory.
                let at = self.layout.bytes_at() + place.at as usize;
                self.producer.memory_mut().write(at, bytes);
                let (offset, bytes) = (at as u64, bytes.len() as u32);
                (Post { offset, bytes, in_producer: true, position, due_ns }, place.taken, None)
            }
        };
        let posted = match shown_ns {
            Some(shown_ns) => self.producer.post_in_step(&post, shown_ns),
            None => self.producer.post(&post),
        };
        debug_assert!(posted, "there was a free descriptor");
        self.held.push_back(HeldMessage { bytes: post.bytes.into(), own_bytes, _chunk: chunk });
        post.bytes.into()
    }
}

impl Outlet for MappedOutlet {
    fn offer(&mut self, offer: &Offer<'_>) -> u64 {
        self.post(offer, None)
    }

    fn offer_in_step(&mut self, offer: &Offer<'_>, shown_ns: u64) -> u64 {
        self.post(offer, Some(shown_ns))
    }

    fn clock_moved(&mut self, by_ns: u64) {
        self.producer.move_clock(by_ns);
    }

    fn done_bytes(&mut self) -> Result<u64, Ending> {
        let read = self.producer.read().map_err(|lie| {
            tracing::warn!("a program's stream is ended: {lie}");
            Ending::BadCounter
        })?;
        let mut bytes = 0;
        for _ in self.given_back..read {
            let Some(message) = self.held.pop_front() else { break };
            bytes += message.bytes;
            self.own.give_back(message.own_bytes);
        }
        self.given_back = read;
        Ok(bytes)
    }

    fn settle(&mut self, more: bool) -> Settled {
        let ring = self.producer.must_ring();
        let held = self.held.len() as u64;
        if !more || held == 0 {
            return Settled { ring, again: false };
        }
        // When half of it was read, there is time to read more for the other half.
        let again = match self.producer.await_below(held.div_ceil(2)) {
            Ok(waits) => !waits,
            // The error is reported at the next check of what was read.
            Err(_) => true,
        };
        Settled { ring, again }
    }

    fn end(&mut self, ending: Ending) -> bool {
        self.producer.end(ending);
        self.producer.must_ring()
    }
}
