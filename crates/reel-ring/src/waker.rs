use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU32, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::RingError;

/// The owner is working; nobody has called since it last looked.
const AWAKE: u32 = 0;
/// The owner sleeps in the kernel, or is about to.
const ASLEEP: u32 = 1;
/// Somebody has called since the owner last looked.
const CALLED: u32 = 2;

/// Wakes the thread that owns a ring. A call while it works is not lost: its next wait returns at once.
///
/// # Why no call is lost
///
/// A caller writes its message, then calls `wake`; the owner leaves `wait`, then reads messages. Two races count.
///
/// *Call against sleep.* Caller and owner both change `state` by atomic read-modify-writes, which are totally
/// ordered. If the owner's AWAKE -> ASLEEP comes first, the caller's swap sees ASLEEP and writes the eventfd,
/// whose counter stays up until read, even if the owner has not reached the kernel yet. If the caller's swap
/// comes first, the owner's exchange finds CALLED, fails, and the owner does not sleep.
///
/// *Call against the owner's look.* A caller that finds CALLED leaves it at that one load, trusting the owner to
/// look after it. The owner resets the word *before* it reads messages. Both sides have a full fence between
/// their write and their read (message, fence, load / swap, fence, messages): one of the two must see the other,
/// so either the caller sees the reset and calls again, or the owner sees the message.
#[derive(Clone)]
pub struct Waker(Arc<Shared>);

struct Shared {
    state: AtomicU32,
    eventfd: OwnedFd,
}

impl Waker {
    /// Makes the owner's present or next `wait` return. Cheap while the owner works: a fence and a load once
    /// somebody has called, one swap for the first caller; a system call only if the owner sleeps.
    pub fn wake(&self) {
        atomic::fence(Ordering::SeqCst);
        if self.0.state.load(Ordering::Relaxed) == CALLED {
            return;
        }
        if self.0.state.swap(CALLED, Ordering::SeqCst) == ASLEEP {
            // The counter can only refuse at 2^64 - 2 unread calls, and then the owner is being woken anyway.
            let _ = rustix::io::write(&self.0.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// The eventfd is blocking: io_uring would answer EAGAIN for a non-blocking one instead of waiting.
    pub(crate) fn new() -> Result<Waker, RingError> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|e| RingError::System { step: "eventfd", source: e.into() })?;
        Ok(Waker(Arc::new(Shared { state: AtomicU32::new(AWAKE), eventfd })))
    }

    /// Owner: about to sleep. False if somebody has called, and the owner must not sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.0.state.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Owner: awake again (or has never slept), and will now look at its messages.
    pub(crate) fn look(&self) {
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
