use super::layout::{
    Ending, IN_PRODUCER, Layout, MAGIC, SLOTS_AT_BYTES, consumer_word, producer_word, slot_word,
};
use super::words::Words;
use crate::limits::MMS_SLOTS_MAX;

/// The reading side of a stream.
#[derive(Debug)]
pub struct Consumer<P, C> {
    theirs: P,
    own: C,
    layout: Layout,
    /// The last value read of the producer's count.
    written: u64,
    /// Messages taken.
    taken: u64,
    /// Messages given back.
    read: u64,
    ticket: u64,
    /// The producer's last ticket that was answered.
    answered_ticket: u64,
}

/// One message, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
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
    /// The media time of its first byte, in a stream in step; else 0.
    pub shown_ns: u64,
    /// By how much the clock of its stream had been moved when it was written.
    moved_ns: u64,
    epoch: u64,
}

impl<P: Words, C: Words> Consumer<P, C> {
    /// The consumer of a stream in memory of `bytes`; `None` if the memory holds no stream, or one
    /// that does not fit in it.
    pub fn new(theirs: P, own: C, bytes: usize) -> Option<Consumer<P, C>> {
        // The words and the bytes before the first descriptor are there.
        if bytes < SLOTS_AT_BYTES || theirs.load(producer_word::MAGIC) != MAGIC {
            return None;
        }
        theirs.fence_acquire();
        let slots = theirs.load(producer_word::SLOTS);
        let beside = usize::try_from(theirs.load(producer_word::BYTES)).ok()?;
        if !slots.is_power_of_two() || slots > MMS_SLOTS_MAX || beside > bytes {
            return None;
        }
        let layout = Layout { slots, bytes: beside };
        (layout.memory_bytes() <= bytes).then_some(Consumer {
            theirs,
            own,
            layout,
            written: 0,
            taken: 0,
            read: 0,
            ticket: 0,
            answered_ticket: 0,
        })
    }

    /// The memory of the producer.
    pub fn producer_memory(&self) -> &P {
        &self.theirs
    }

    /// The next message, which stays in place until it is given back. Several may be taken before
    /// that.
    pub fn take(&mut self) -> Option<Message> {
        if self.taken == self.written {
            let written = self.theirs.load(producer_word::WRITTEN);
            // A count of more than the ring holds is invalid.
            if written <= self.taken || written - self.read > self.layout.slots {
                return None;
            }
            // The count is read before what it counts.
            self.theirs.fence_acquire();
            self.written = written;
        }
        let slot = self.layout.slot(self.taken);
        if self.theirs.load(slot + slot_word::TURN) != self.taken + 1 {
            return None;
        }
        let bytes = self.theirs.load(slot + slot_word::BYTES);
        let message = Message {
            offset: self.theirs.load(slot + slot_word::OFFSET),
            bytes: bytes as u32,
            in_producer: bytes & IN_PRODUCER != 0,
            position: self.theirs.load(slot + slot_word::POSITION),
            due_ns: self.theirs.load(slot + slot_word::DUE_NS),
            shown_ns: self.theirs.load(slot + slot_word::SHOWN_NS),
            moved_ns: self.theirs.load(slot + slot_word::MOVED_NS),
            epoch: self.theirs.load(slot + slot_word::EPOCH),
        };
        self.taken += 1;
        Some(message)
    }

    /// Whether a message still belongs to the reader. Called after its bytes were used, it says
    /// whether they were the right ones. They were not if the message was held for too long.
    pub fn is_valid(&self, message: &Message) -> bool {
        self.theirs.fence_acquire();
        self.theirs.load(producer_word::EPOCH) == message.epoch
    }

    /// When a message is due by the clock of its stream as it is now: later than
    /// [`Message::due_ns`] by as much as the clock was moved since. `u64::MAX` if it has no
    /// deadline.
    pub fn due_ns(&self, message: &Message) -> u64 {
        let moved_ns = self.moved_ns().saturating_sub(message.moved_ns);
        message.due_ns.saturating_add(moved_ns)
    }

    /// By how much the clock of its stream was moved so far.
    pub fn moved_ns(&self) -> u64 {
        self.theirs.load(producer_word::MOVED_NS)
    }

    /// Messages that were taken and not given back.
    pub fn held(&self) -> u64 {
        self.taken - self.read
    }

    /// Gives the oldest `count` messages back. `true` if the producer waits for that; then wake it.
    ///
    /// # Panics
    /// If fewer are held.
    pub fn give_back(&mut self, count: u64) -> bool {
        assert!(count <= self.held(), "more messages are given back than were taken");
        self.read += count;
        // The bytes are read before the count says so.
        self.own.fence_release();
        self.own.store(consumer_word::READ, self.read);
        // This side writes its count, then reads the other's flag; the other writes its flag, then
        // reads this count.
        self.own.fence_full();
        let ticket = self.theirs.load(producer_word::WAITS);
        if ticket == 0 || ticket == self.answered_ticket {
            return false;
        }
        self.theirs.fence_acquire();
        let unread = self.theirs.load(producer_word::WRITTEN).saturating_sub(self.read);
        if unread < self.theirs.load(producer_word::WAITS_BELOW) {
            self.answered_ticket = ticket;
            return true;
        }
        false
    }

    /// Asks to be woken when `count` messages can be taken, or no more will come. `false` if that
    /// is already the case: then there is no wake-up. Otherwise wait, call
    /// [`Consumer::do_not_wait`], and check again.
    pub fn await_messages(&mut self, count: u64) -> bool {
        let above = self.held() + count.max(1) - 1;
        self.own.store(consumer_word::WAITS_ABOVE, above);
        self.own.fence_release();
        self.ticket += 1;
        // The flag is set before the test, so what comes after the test finds the flag.
        self.own.store(consumer_word::WAITS, self.ticket);
        self.own.fence_full();
        let unread = self.theirs.load(producer_word::WRITTEN).saturating_sub(self.read);
        if unread > above || self.theirs.load(producer_word::ENDED) != 0 {
            self.do_not_wait();
            return false;
        }
        true
    }

    /// Clears the request to be woken.
    pub fn do_not_wait(&mut self) {
        self.own.store(consumer_word::WAITS, 0);
    }

    /// Why no more messages come; `None` while they do. A complete stream has ended when all of it
    /// was taken.
    pub fn ending(&self) -> Option<Ending> {
        let ending = Ending::from_word(self.theirs.load(producer_word::ENDED))?;
        self.theirs.fence_acquire();
        let all = self.theirs.load(producer_word::WRITTEN) == self.taken;
        (ending != Ending::Complete || all).then_some(ending)
    }
}
