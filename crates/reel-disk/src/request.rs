//! The requests to a member, and its answers.

use crate::error::DiskError;
use reel_arena::{Buffer, Lease};
use reel_qos::Class;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// One request to one member.
pub struct DiskRequest {
    /// Names the request to [`promote`](crate::DiskBackend::promote) and
    /// [`withdraw`](crate::DiskBackend::withdraw).
    pub id: RequestId,
    /// The member's number.
    pub member: usize,
    /// The class that it is served in.
    pub class: Class,
    /// The requester. Requesters without deadlines take turns.
    pub requester: Requester,
    /// When it is due, CLOCK_MONOTONIC; [`reel_qos::DEADLINE_NONE_NS`] if never.
    pub deadline_ns: u64,
    /// What to do.
    pub work: DiskWork,
    /// A number of the caller's own; comes back in [`DiskDone::token`].
    pub token: u64,
    /// Receives the answer.
    pub reply: Arc<dyn Reply>,
}

/// Names a request of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

/// A connection or a job that requests are made for. Requests without deadlines are served in turns
/// of their requesters, however many each of them has waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requester(u64);

/// What a member does. Offsets and lengths are multiples of [`crate::limits::BLOCK_BYTES`].
pub enum DiskWork {
    /// Reads `bytes` from `offset` into the beginning of `buffer`.
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

impl RequestId {
    /// An id that no other request of this process has.
    #[allow(clippy::new_without_default, reason = "no two are the same, so there is no default")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Requester {
    /// The low bits number the requesters that one requester stands for. Two with the same number
    /// share their turns, nothing else.
    const NUMBER_BITS: u32 = 40;
    const MAINTENANCE: u64 = 1 << 63;

    /// A new requester: a job, or a core that makes requests for its connections.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed) << Self::NUMBER_BITS & !Self::MAINTENANCE)
    }

    /// Of the requesters that this one stands for, the one of this number.
    pub fn of(self, number: u64) -> Self {
        let numbers = (1 << Self::NUMBER_BITS) - 1;
        Self(self.0 & !numbers | number & numbers)
    }

    /// The requester of a client, whichever core makes its requests. An address of IPv6 stands for
    /// its network (/64): one client has as many addresses there as it wants. Two clients may share
    /// their turns by chance.
    pub fn client(address: IpAddr) -> Self {
        static CLIENTS: LazyLock<Requester> = LazyLock::new(Requester::new);
        let number = match address.to_canonical() {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => {
                let network = (address.to_bits() >> 64) as u64;
                // Fibonacci hashing, above the numbers of IPv4.
                network.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 | 1 << 39
            }
        };
        CLIENTS.of(number)
    }

    /// A new requester for maintenance: a rebuild, a scrub. Maintenance has every second turn,
    /// however many other requesters there are.
    pub fn maintenance() -> Self {
        Self(Self::new().0 | Self::MAINTENANCE)
    }

    /// Whether it is for maintenance.
    pub fn is_maintenance(self) -> bool {
        self.0 & Self::MAINTENANCE != 0
    }
}

/// Receives answers.
pub trait Reply: Send + Sync {
    /// Called on a disk thread: must not wait.
    fn deliver(&self, done: DiskDone);
}
