use super::layout::{Ending, IN_PRODUCER, Layout, MAGIC, consumer_word, producer_word, slot_word};
use super::words::Words;

/// The writing side of a stream.
#[derive(Debug)]
pub struct Producer<P, C> {
    own: P,
    theirs: C,
    layout: Layout,
    written: u64,
    /// The consumer's last possible count.
    read: u64,
    epoch: u64,
    ticket: u64,
    /// The consumer's last ticket that was answered.
    answered_ticket: u64,
    ended: Option<Ending>,
    /// By how much its clock was moved.
    moved_ns: u64,
}

/// A message to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Its offset in its memory, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u32,
    /// It lies in the producer's memory, not in the arena.
    pub in_producer: bool,
    /// Its position in the stream, in bytes.
    pub position: u64,
    /// Its deadline on `CLOCK_MONOTONIC`; `u64::MAX` if it has none.
    pub due_ns: u64,
}

/// A consumer's count is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the reader reports {said} messages read, but it reported {before} before, and only {written} were written"
)]
pub struct ImpossibleCount {
    /// The count.
    pub said: u64,
    /// The count before.
    pub before: u64,
    /// How many messages it could have read.
    pub written: u64,
}

impl<P: Words, C: Words> Producer<P, C> {
    /// The producer of an empty stream, in memory of zeros.
    pub fn new(own: P, theirs: C, layout: Layout) -> Producer<P, C> {
        own.store(producer_word::SLOTS, layout.slots);
        own.store(producer_word::BYTES_AT, layout.bytes_at() as u64);
        own.store(producer_word::BYTES, layout.bytes as u64);
        own.store(producer_word::EPOCH, 1);
        own.fence_release();
        own.store(producer_word::MAGIC, MAGIC);
        Producer {
            own,
            theirs,
            layout,
            written: 0,
            read: 0,
            epoch: 1,
            ticket: 0,
            answered_ticket: 0,
            ended: None,
            moved_ns: 0,
        }
    }

    /// The memory that the producer writes.
    pub fn memory(&self) -> &P {
        &self.own
    }

    /// The same, to write bytes that lie beside the arena.
    pub fn memory_mut(&mut self) -> &mut P {
        &mut self.own
    }

    /// The memory that the consumer writes.
    pub fn consumer_memory(&self) -> &C {
        &self.theirs
    }

    /// Messages written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// How many messages were read so far. Their memory may be used again, because the consumer
    /// finished reading before it said so.
    ///
    /// # Errors
    /// If the consumer's count is impossible.
    pub fn read(&mut self) -> Result<u64, ImpossibleCount> {
        let said = self.theirs.load(consumer_word::READ);
        if said < self.read || said > self.written {
            return Err(ImpossibleCount { said, before: self.read, written: self.written });
        }
        self.theirs.fence_acquire();
        self.read = said;
        Ok(said)
    }

    /// Free descriptors, by the last result of [`Producer::read`].
    pub fn free(&self) -> u64 {
        self.layout.slots - (self.written - self.read)
    }

    /// Writes a message; `false` if no descriptor is free. [`Producer::must_ring`] wakes the
    /// consumer, once for many messages.
    pub fn post(&mut self, post: &Post) -> bool {
        if self.free() == 0 || self.ended.is_some() {
            return false;
        }
        let slot = self.layout.slot(self.written);
        let flags = if post.in_producer { IN_PRODUCER } else { 0 };
        self.own.store(slot + slot_word::OFFSET, post.offset);
        self.own.store(slot + slot_word::BYTES, u64::from(post.bytes) | flags);
        self.own.store(slot + slot_word::POSITION, post.position);
        self.own.store(slot + slot_word::DUE_NS, post.due_ns);
        self.own.store(slot + slot_word::EPOCH, self.epoch);
        self.own.store(slot + slot_word::TURN, self.written + 1);
        self.written += 1;
        // The message and its descriptor are written before the count, so a side that sees the
        // count sees them.
        self.own.fence_release();
        self.own.store(producer_word::WRITTEN, self.written);
        true
    }

    /// The same for a message of a stream in step, whose first byte has this media time.
    pub fn post_in_step(&mut self, post: &Post, shown_ns: u64) -> bool {
        if self.free() == 0 || self.ended.is_some() {
            return false;
        }
        let slot = self.layout.slot(self.written);
        self.own.store(slot + slot_word::SHOWN_NS, shown_ns);
        self.own.store(slot + slot_word::MOVED_NS, self.moved_ns);
        self.post(post)
    }

    /// The clock of a stream in step was moved: all that was written is due so much later. A
    /// message that is written after this has the sum in its descriptor, so a consumer that sees
    /// the message sees at least that sum here.
    pub fn move_clock(&mut self, by_ns: u64) {
        self.moved_ns = self.moved_ns.saturating_add(by_ns);
        self.own.store(producer_word::MOVED_NS, self.moved_ns);
    }

    /// Whether the consumer waits for what was written, and was not woken yet.
    pub fn must_ring(&mut self) -> bool {
        // This side writes its count, then reads the other's flag; the other writes its flag, then
        // reads this count. So one side sees the other.
        self.own.fence_full();
        let ticket = self.theirs.load(consumer_word::WAITS);
        if ticket == 0 || ticket == self.answered_ticket {
            return false;
        }
        // The flag is read before the level that belongs to it.
        self.theirs.fence_acquire();
        let unread = self.written.saturating_sub(self.theirs.load(consumer_word::READ));
        if self.ended.is_some() || unread > self.theirs.load(consumer_word::WAITS_ABOVE) {
            self.answered_ticket = ticket;
            return true;
        }
        false
    }

    /// Asks to be woken when fewer than `level` messages are unread. `false` if that is already the
    /// case: then there is no wake-up.
    ///
    /// # Errors
    /// If the consumer's count is impossible.
    pub fn await_below(&mut self, level: u64) -> Result<bool, ImpossibleCount> {
        self.own.store(producer_word::WAITS_BELOW, level);
        self.own.fence_release();
        self.ticket += 1;
        // The flag is set before the test, so what is read after the test finds the flag.
        self.own.store(producer_word::WAITS, self.ticket);
        self.own.fence_full();
        if self.written - self.read()? < level {
            self.do_not_wait();
            return Ok(false);
        }
        Ok(true)
    }

    /// Clears the request to be woken.
    pub fn do_not_wait(&mut self) {
        self.own.store(producer_word::WAITS, 0);
    }

    /// Ends the stream. With [`Ending::Complete`] the messages that exist can still be read. With
    /// any other ending they are taken back: from here on their memory may be used again, and a
    /// late reader notices it by the epoch. Such an ending may also follow `Complete`. Wake the
    /// reader by [`Producer::must_ring`].
    pub fn end(&mut self, ending: Ending) {
        if self.ended.is_some_and(|before| before != Ending::Complete || ending == Ending::Complete) {
            return;
        }
        self.ended = Some(ending);
        if ending != Ending::Complete {
            self.epoch += 1;
            self.own.store(producer_word::EPOCH, self.epoch);
        }
        self.own.store(producer_word::ENDED, ending as u64);
        // The epoch is written before anything that uses the memory next.
        self.own.fence_full();
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }
}
