//! A program's writing end: a stream that it pours into the server.
//!
//! The roles are those of a title turned round. The program writes messages and their descriptors
//! into memory that it has made, and the server records in another one what it has read.

use crate::limits::{POURED_BYTES_MAX, POURED_MESSAGE_BYTES_MAX, POURED_MESSAGES};
use reel_arena::mms::{CONSUMER_BYTES, Ending, ImpossibleCount, Layout, Post, Producer, RingSpace};
use reel_arena::{ArenaError, Others, SharedMemory};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// What to pour (Govindan, section 3.1: rate R, workahead W, delay D).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PourWanted {
    /// The name under which it is played: `/live/NAME`.
    pub name: String,
    /// Its media type, such as `video/mp2t`.
    pub content_type: String,
    /// Bytes in a second. The server takes no more.
    pub bytes_per_s: u64,
    /// Bytes that the server takes before their time.
    pub workahead_bytes: u64,
    /// How long after its time a byte is due at a viewer, in nanoseconds.
    pub delay_ns: u64,
}

/// Memory for what comes within a quarter of a second, or before its time.
fn layout_of(wanted: &PourWanted) -> Layout {
    let bytes = usize::try_from(wanted.workahead_bytes.saturating_add(wanted.bytes_per_s / 4));
    let least = 2 * POURED_MESSAGE_BYTES_MAX;
    let bytes = bytes.unwrap_or(POURED_BYTES_MAX).clamp(least, POURED_BYTES_MAX);
    Layout::new(POURED_MESSAGES, bytes)
}

/// The memory of a stream that is poured.
pub(crate) struct Pouring {
    producer: Producer<SharedMemory, SharedMemory>,
    layout: Layout,
    space: RingSpace,
    /// What each unread message has taken of the memory.
    unread: VecDeque<u64>,
    /// Messages that the server has read.
    read: u64,
    position: u64,
}

impl Pouring {
    /// New memory, which other programs may only read unless one of them is to pour from it.
    pub(crate) fn new(wanted: &PourWanted, others: Others) -> Result<Pouring, ArenaError> {
        let layout = layout_of(wanted);
        let own = SharedMemory::create("reel-poured", layout.memory_bytes(), others)?;
        let theirs = SharedMemory::create("reel-poured-reader", CONSUMER_BYTES, Others::Write)?;
        Ok(Pouring::of(own, theirs, layout))
    }

    /// The memory of a stream that was begun for this program, and into which nothing was put.
    pub(crate) fn inherited(wanted: &PourWanted, [own, theirs]: [OwnedFd; 2]) -> Result<Pouring, ArenaError> {
        let layout = layout_of(wanted);
        let own = SharedMemory::map(own, layout.memory_bytes(), true)?;
        let theirs = SharedMemory::map(theirs, CONSUMER_BYTES, false)?;
        Ok(Pouring::of(own, theirs, layout))
    }

    fn of(own: SharedMemory, theirs: SharedMemory, layout: Layout) -> Pouring {
        Pouring {
            producer: Producer::new(own, theirs, layout),
            layout,
            space: RingSpace::new(layout.bytes as u64),
            unread: VecDeque::new(),
            read: 0,
            position: 0,
        }
    }

    /// The memory that the program writes, and that which the server writes.
    pub(crate) fn memories(&self) -> [&SharedMemory; 2] {
        [self.producer.memory(), self.producer.consumer_memory()]
    }

    /// Writes bytes as messages, as far as there is room. Returns how many were written.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<usize, ImpossibleCount> {
        self.free()?;
        let mut put = 0;
        for message in bytes.chunks(POURED_MESSAGE_BYTES_MAX) {
            if self.producer.free() == 0 {
                break;
            }
            let Some(place) = self.space.take(message.len() as u64) else { break };
            // The cast fits: the offset is within the memory.
            let at = self.layout.bytes_at() + place.at as usize;
            self.producer.memory_mut().write(at, message);
            self.producer.post(&Post {
                offset: at as u64,
                // The cast fits: a message is short.
                bytes: message.len() as u32,
                in_producer: true,
                position: self.position,
                due_ns: u64::MAX,
            });
            self.unread.push_back(place.taken);
            self.position += message.len() as u64;
            put += message.len();
        }
        Ok(put)
    }

    /// Whether the server waits for what was written.
    pub(crate) fn must_ring(&mut self) -> bool {
        self.producer.must_ring()
    }

    /// Asks to be woken when half of what is unread was read. `false` if there is room already.
    pub(crate) fn await_room(&mut self) -> Result<bool, ImpossibleCount> {
        self.free()?;
        let level = (self.unread.len() as u64).div_ceil(2).max(1);
        self.producer.await_below(level)
    }

    /// Asks to be woken when all was read. `false` if it was.
    pub(crate) fn await_all_read(&mut self) -> Result<bool, ImpossibleCount> {
        self.free()?;
        self.producer.await_below(1)
    }

    pub(crate) fn do_not_wait(&mut self) {
        self.producer.do_not_wait();
    }

    /// All was written.
    pub(crate) fn complete(&mut self) {
        self.producer.end(Ending::Complete);
    }

    /// Bytes written so far.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    fn free(&mut self) -> Result<(), ImpossibleCount> {
        let read = self.producer.read()?;
        for _ in self.read..read {
            let Some(taken) = self.unread.pop_front() else { break };
            self.space.give_back(taken);
        }
        self.read = read;
        Ok(())
    }
}
