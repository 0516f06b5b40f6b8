//! Memory-mapped streams: messages in the arena for one reader in another process.
//!
//! This is the synchronisation part and the descriptors ("data part C") of memory-mapped streams
//! after Govindan and Anderson ("Scheduling and IPC Mechanisms for Continuous Media", SOSP 1991).
//! There is one producer and one consumer. The counters only grow. Each side has a flag that says
//! "I wait" and a level at which waiting ends. In steady state no side waits, so no side calls the
//! kernel.
//!
//! ```text
//!   producer's memory (others read)   magic, shape | N_write pwait B_pwait epoch state
//!                                     | descriptors | bytes not of the arena
//!   consumer's memory (both write)    N_read cwait B_cwait
//!   arena (others read)               the messages
//! ```
//! Neither side trusts the other: a consumer can write any value about what it has read, and only
//! its own stream ends. Everything here is a state machine over [`Words`]. A side that waits does
//! so elsewhere (for a byte on a socket), and the other side's `must_ring` says when to wake it.

mod consumer;
mod layout;
mod producer;
mod space;
mod spin;
mod words;

pub use consumer::{Consumer, Message};
pub use layout::{
    CONSUMER_BYTES, Ending, IN_PRODUCER, Layout, MAGIC, SLOT_WORDS, SLOTS_AT_BYTES, consumer_word,
    producer_word, slot_word,
};
pub use producer::{ImpossibleCount, Post, Producer};
pub use space::{RingPlace, RingSpace};
pub use spin::SpinTime;
pub use words::Words;
