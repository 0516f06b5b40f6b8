//! Memory-mapped streams: messages in the arena for one reader in another process.
//!
//! The synchronisation part and the descriptors ("data part C") of memory-mapped streams after Govindan and Anderson
//! ("Scheduling and IPC Mechanisms for Continuous Media", SOSP 1991): one producer, one consumer, counters that only grow, a flag on each side
//! that says "I wait" and a level from which on waiting ends. In steady state nobody waits, so nobody calls the kernel.
//!
//! ```text
//!   producer's memory (others read)   magic, shape | N_write pwait B_pwait epoch state | descriptors | bytes not of the arena
//!   consumer's memory (both write)    N_read cwait B_cwait
//!   arena (others read)               the messages
//! ```
//! Neither side believes the other: a consumer can say what it likes about what it has read, and only its own stream ends.
//! Everything here is a state machine over [`Words`]; who waits, waits elsewhere (for a byte on a socket), and is told by the other side's
//! `must_ring`.

mod consumer;
mod layout;
mod look;
mod producer;
mod words;

pub use consumer::{Consumer, Message};
pub use layout::{
    CONSUMER_BYTES, Ending, IN_PRODUCER, Layout, MAGIC, SLOT_WORDS, SLOTS_AT_BYTES, consumer_word,
    producer_word, slot_word,
};
pub use look::Look;
pub use producer::{Lie, Post, Producer};
pub use words::Words;
