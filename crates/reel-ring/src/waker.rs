use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU32, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::RingError;

/// The owner is working, and there was no call since its last check.
const AWAKE: u32 = 0;
/// The owner sleeps in the kernel, or is about to.
const ASLEEP: u32 = 1;
/// There was a call since the owner's last check.
const CALLED: u32 = 2;

/// Wakes the thread that owns a ring. A call while the thread works is not lost: its next wait
/// returns at once.
///
/// # Why no call is lost
///
/// A caller writes its message, then calls `wake`. The owner leaves `wait`, then reads messages.
/// Two races matter.
///
/// *Call against sleep.* Caller and owner both change `state` by atomic read-modify-writes, which
/// are totally ordered. If the owner's AWAKE -> ASLEEP comes first, the caller's swap sees ASLEEP
/// and writes the eventfd. Its counter stays up until it is read, even if the owner has not reached
/// the kernel yet. If the caller's swap comes first, the owner's exchange finds CALLED and fails,
/// and the owner does not sleep.
///
/// *Call against the owner's check.* A caller that finds CALLED does only that one load, and relies
/// on the owner's check after it. The owner resets the word *before* it reads messages. Both sides
/// have a full fence between their write and their read (message, fence, load / swap, fence,
/// messages), so one of the two must see the other: either the caller sees the reset and calls
/// again, or the owner sees the message.
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

struct Shared {
    state: AtomicU32,
    eventfd: OwnedFd,
}

impl Waker {
    /// Makes the owner's present or next `wait` return. It is cheap while the owner works: one swap
    /// for the first caller, a fence and a load for later ones. Only if the owner sleeps does it
    /// cost a system call.
    pub fn wake(&self) {
        atomic::fence(Ordering::SeqCst);
        if self.0.state.load(Ordering::Relaxed) == CALLED {
            return;
        }
        if self.0.state.swap(CALLED, Ordering::SeqCst) == ASLEEP {
            // The counter refuses only at 2^64 - 2 unread calls, and then the owner is being woken
            // anyway.
            let _ = rustix::io::write(&self.0.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// The eventfd is blocking: for a non-blocking one, io_uring would answer EAGAIN instead of
    /// waiting.
    pub(crate) fn new() -> Result<Waker, RingError> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|e| RingError::System { step: "eventfd", source: e.into() })?;
        Ok(Waker(Arc::new(Shared { state: AtomicU32::new(AWAKE), eventfd })))
    }

    /// Owner: about to sleep. False if there was a call, so the owner must not sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.0.state.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Owner: awake again (or never asleep), and about to check its messages.
    pub(crate) fn check_calls(&self) {
        self.0.state.swap(AWAKE, Ordering::SeqCst);
        atomic::fence(Ordering::SeqCst);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.eventfd.as_fd()
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.0.state.load(Ordering::Relaxed) {
            AWAKE => "awake",
            ASLEEP => "asleep",
            _ => "called",
        };
        f.debug_tuple("Waker").field(&state).finish()
    }
}
