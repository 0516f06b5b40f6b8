//! What a member can be asked, and what it answers.

use crate::error::DiskError;
use reel_arena::{Buffer, Lease};
use reel_qos::Class;
use std::sync::Arc;

/// One request to one member.
pub struct DiskRequest {
    /// The member's number.
    pub member: usize,
    /// Who waits for it.
    pub class: Class,
    /// When it is due, CLOCK_MONOTONIC; [`reel_qos::DEADLINE_NONE_NS`] if never.
    pub deadline_ns: u64,
    /// What to do.
    pub work: DiskWork,
    /// Comes back in [`DiskDone::token`].
    pub token: u64,
    /// Who is told.
    pub reply: Arc<dyn Reply>,
}

/// What a member does. Offsets and lengths are multiples of [`crate::limits::BLOCK_BYTES`].
pub enum DiskWork {
    /// Reads `bytes` from `offset` into the front of `buffer`.
    Read {
        /// Where on the member.
        offset: u64,
        /// How much; at most the length of `buffer`.
        bytes: usize,
        /// Where to.
        buffer: Buffer,
    },
    /// Makes every write durable that was answered before this request was submitted.
    Sync,
    /// Writes all of `lease` at `offset`.
    Write {
        /// Where on the member.
        offset: u64,
        /// The bytes.
        lease: Lease,
    },
}

/// The answer to a [`DiskRequest`].
pub struct DiskDone {
    /// The token of the request.
    pub token: u64,
    /// The member's number.
    pub member: usize,
    /// All of it was done, or why not.
    pub result: Result<(), DiskError>,
    /// The buffer of a read, whatever the result.
    pub buffer: Option<Buffer>,
    /// How long it waited in the scheduler.
    pub queued_ns: u64,
    /// How long the device took.
    pub device_ns: u64,
}

/// Takes answers to whoever asked.
pub trait Reply: Send + Sync {
    /// Called on a disk thread: must not wait.
    fn deliver(&self, done: DiskDone);
}
