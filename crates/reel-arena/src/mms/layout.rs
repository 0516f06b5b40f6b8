//! The position of every word. The C header `reel_mms.h` defines the same; a test compares them.

/// The first word of a producer's memory: `REELMMS1` in the byte order of the machine.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"REELMMS1");

/// Words of the producer's memory, by index.
pub mod producer_word {
    /// [`super::MAGIC`], written last: everything after it is then complete.
    pub const MAGIC: usize = 0;
    /// Descriptors in the ring, a power of two.
    pub const SLOTS: usize = 1;
    /// Where the bytes beside the arena begin, in bytes.
    pub const BYTES_AT: usize = 2;
    /// How many bytes lie beside the arena.
    pub const BYTES: usize = 3;
    /// Messages written so far. Alone in its two cache lines (lines are fetched in pairs), because
    /// it changes with every message.
    pub const WRITTEN: usize = 16;
    /// A ticket while the producer waits for space, else 0. The words from here on change only when
    /// a side waits, so reading them with every message costs nothing.
    pub const WAITS: usize = 32;
    /// The producer is to be woken when fewer messages than this are unread.
    pub const WAITS_BELOW: usize = 33;
    /// Grows when messages that were not read are taken back.
    pub const EPOCH: usize = 34;
    /// 0 while messages come, else an [`super::Ending`].
    pub const ENDED: usize = 35;
    /// By how much the clock of a stream in step was moved so far, in nanoseconds; only grows.
    pub const MOVED_NS: usize = 36;
}

/// Words of the consumer's memory, by index.
pub mod consumer_word {
    /// Messages given back so far. Alone in its two cache lines: it changes with every message.
    pub const READ: usize = 0;
    /// A ticket while the consumer waits for messages, else 0. Changes only when it waits.
    pub const WAITS: usize = 16;
    /// The consumer is to be woken when more messages than this are unread.
    pub const WAITS_ABOVE: usize = 17;
}

/// Words of a descriptor, from its first.
pub mod slot_word {
    /// The number of the message plus one. It says which turn of the ring this is.
    pub const TURN: usize = 0;
    /// Offset of the message from the start of its memory, in bytes.
    pub const OFFSET: usize = 1;
    /// Its length in bytes (low 32 bits), and flags: [`super::IN_PRODUCER`].
    pub const BYTES: usize = 2;
    /// Its position in the stream, in bytes.
    pub const POSITION: usize = 3;
    /// Deadline at the viewer: nanoseconds of `CLOCK_MONOTONIC`; all ones if there is none.
    pub const DUE_NS: usize = 4;
    /// The epoch in which it was written.
    pub const EPOCH: usize = 5;
    /// Of a stream in step, the media time of its first byte, in nanoseconds; else 0.
    pub const SHOWN_NS: usize = 6;
    /// Of a stream in step, [`super::producer_word::MOVED_NS`] when it was written; else 0.
    pub const MOVED_NS: usize = 7;
}

/// Flag of a descriptor: the message lies in the producer's memory, not in the arena.
pub const IN_PRODUCER: u64 = 1 << 32;

/// Words of a descriptor: one cache line.
pub const SLOT_WORDS: usize = 8;

/// Where the descriptors begin, in bytes: the second page.
pub const SLOTS_AT_BYTES: usize = 4096;

/// Bytes of a consumer's memory: one page, which holds nothing else.
pub const CONSUMER_BYTES: usize = 4096;

/// Why no more messages come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Ending {
    /// All of the stream was written.
    Complete = 1,
    /// The reader held messages for too long; they were taken back.
    HeldTooLong = 2,
    /// The reader's counters were impossible.
    BadCounter = 3,
    /// Stored bytes are lost.
    Lost = 4,
    /// The server stops.
    Stopped = 5,
    /// The reader closed it.
    Closed = 6,
}

impl Ending {
    /// The ending that a word means, if it is a known one.
    pub fn from_word(word: u64) -> Option<Ending> {
        use Ending::{BadCounter, Closed, Complete, HeldTooLong, Lost, Stopped};
        [Complete, HeldTooLong, BadCounter, Lost, Stopped, Closed]
            .into_iter()
            .find(|ending| *ending as u64 == word)
    }

    /// What happened, for people.
    pub fn text(self) -> &'static str {
        match self {
            Ending::Complete => "the stream is complete",
            Ending::HeldTooLong => {
                "messages were held for too long and were taken back; read faster, or open the title again from there"
            }
            Ending::BadCounter => {
                "the reader's counters were impossible, so its stream was ended; its library is at fault"
            }
            Ending::Lost => "stored bytes are lost; `reel volume check` names them",
            Ending::Stopped => "the server is stopping",
            Ending::Closed => "the stream was closed",
        }
    }
}

/// The sizes of a producer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Descriptors in the ring.
    pub slots: u64,
    /// Bytes beside the arena.
    pub bytes: usize,
}

impl Layout {
    /// Descriptors for at least `messages`, and `bytes` beside the arena.
    pub fn new(messages: u64, bytes: usize) -> Layout {
        Layout { slots: messages.next_power_of_two(), bytes: bytes.next_multiple_of(4096) }
    }

    /// The offset of the bytes that are not in the arena.
    pub fn bytes_at(&self) -> usize {
        // The slots of a ring are few, so this fits.
        (SLOTS_AT_BYTES + self.slots as usize * SLOT_WORDS * 8).next_multiple_of(4096)
    }

    /// Length of the producer's memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes_at() + self.bytes
    }

    pub(crate) fn slot(&self, number: u64) -> usize {
        // This fits, as above.
        SLOTS_AT_BYTES / 8 + (number & (self.slots - 1)) as usize * SLOT_WORDS
    }
}
