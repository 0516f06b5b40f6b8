use super::layout::{Ending, IN_PRODUCER, Layout, MAGIC, consumer_word, producer_word, slot_word};
use super::words::Words;

/// The writing side of a stream.
#[derive(Debug)]
pub struct Producer<P, C> {
    own: P,
    theirs: C,
    layout: Layout,
    written: u64,
    /// What the consumer last said that could be true.
    read: u64,
    epoch: u64,
    ticket: u64,
    /// The consumer's ticket that was answered last.
    rung: u64,
    ended: Option<Ending>,
}

/// One message to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// Where it lies in its memory, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u32,
    /// It lies in the producer's memory, not in the arena.
    pub in_producer: bool,
    /// Its place in the stream, in bytes.
    pub position: u64,
    /// When it is due, on `CLOCK_MONOTONIC`; `u64::MAX` if at no fixed time.
    pub due_ns: u64,
}

/// What a consumer said cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the reader says that it has read {said} messages, of which it had read {before} before and {written} exist"
)]
pub struct Lie {
    /// What it says.
    pub said: u64,
    /// What it said before.
    pub before: u64,
    /// What it could have read.
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
        Producer { own, theirs, layout, written: 0, read: 0, epoch: 1, ticket: 0, rung: 0, ended: None }
    }

    /// The memory it writes.
    pub fn memory(&self) -> &P {
        &self.own
    }

    /// The same, to write bytes that lie beside the arena.
    pub fn memory_mut(&mut self) -> &mut P {
        &mut self.own
    }

    /// The memory its consumer writes.
    pub fn consumer_memory(&self) -> &C {
        &self.theirs
    }

    /// Messages written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// How many messages were read so far. What they held may be used again: the consumer read it before it said so.
    pub fn read(&mut self) -> Result<u64, Lie> {
        let said = self.theirs.load(consumer_word::READ);
        if said < self.read || said > self.written {
            return Err(Lie { said, before: self.read, written: self.written });
        }
        self.theirs.fence_acquire();
        self.read = said;
        Ok(said)
    }

    /// Descriptors that are free, by what [`Producer::read`] said last.
    pub fn free(&self) -> u64 {
        self.layout.slots - (self.written - self.read)
    }

    /// Writes a message; `false` if no descriptor is free. The consumer is told by [`Producer::must_ring`], once for many.
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
        // The message and its descriptor before the count: who sees the count sees them.
        self.own.fence_release();
        self.own.store(producer_word::WRITTEN, self.written);
        true
    }

    /// Whether the consumer waits for what was written, and was not told yet.
    pub fn must_ring(&mut self) -> bool {
        // Our count before their flag; theirs is their flag before our count. One of us sees the other.
        self.own.fence_full();
        let ticket = self.theirs.load(consumer_word::WAITS);
        if ticket == 0 || ticket == self.rung {
            return false;
        }
        // The flag before the level that goes with it.
        self.theirs.fence_acquire();
        let unread = self.written.saturating_sub(self.theirs.load(consumer_word::READ));
        if self.ended.is_some() || unread > self.theirs.load(consumer_word::WAITS_ABOVE) {
            self.rung = ticket;
            return true;
        }
        false
    }

    /// Asks to be told when fewer than `level` messages are unread. `false` if that is so already: then nobody tells.
    pub fn await_below(&mut self, level: u64) -> Result<bool, Lie> {
        self.own.store(producer_word::WAITS_BELOW, level);
        self.own.fence_release();
        self.ticket += 1;
        // The flag before the test: what is read after the test finds the flag.
        self.own.store(producer_word::WAITS, self.ticket);
        self.own.fence_full();
        if self.written - self.read()? < level {
            self.do_not_wait();
            return Ok(false);
        }
        Ok(true)
    }

    /// Does not wait any more.
    pub fn do_not_wait(&mut self) {
        self.own.store(producer_word::WAITS, 0);
    }

    /// No more messages come. With [`Ending::Complete`] those that are there can still be read; with any other they are taken back: from
    /// here on their memory may be used again, and a reader that was late finds out by the epoch. The latter may also come after the
    /// former. Tell the reader with [`Producer::must_ring`].
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
        // The epoch before anything that the memory is used for next.
        self.own.fence_full();
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }
}
