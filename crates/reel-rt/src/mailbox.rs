//! Messages from any thread to one core.
//!
//! No wake-up is lost: a sender wakes the core when it finds the queue empty, and the core empties the queue under the same lock.
//! So either the sender saw the core's emptying, and wakes it; or it saw messages that the core has not taken yet, and whoever
//! put the first of those has woken it. One wake-up serves all messages of a burst.

use reel_ring::Waker;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

/// The sending end; clones send to the same core.
pub struct Mailbox<M> {
    shared: Arc<Shared<M>>,
}

/// The receiving end, owned by the core.
pub struct Inbox<M> {
    shared: Arc<Shared<M>>,
}

struct Shared<M> {
    queue: Mutex<Vec<M>>,
    waker: Waker,
}

/// A mailbox whose first message wakes `waker`.
pub fn mailbox<M: Send>(waker: Waker) -> (Mailbox<M>, Inbox<M>) {
    let shared = Arc::new(Shared { queue: Mutex::new(Vec::new()), waker });
    (Mailbox { shared: Arc::clone(&shared) }, Inbox { shared })
}

impl<M: Send> Mailbox<M> {
    /// Sends a message; never waits for the core. Messages of one sender arrive in order.
    pub fn post(&self, message: M) {
        let mut queue = self.shared.queue();
        let was_empty = queue.is_empty();
        queue.push(message);
        drop(queue);
        if was_empty {
            self.shared.waker.wake();
        }
    }
}

impl<M> Inbox<M> {
    /// Moves everything that has arrived into `messages`, which must be empty (its memory is used again).
    pub fn take(&self, messages: &mut Vec<M>) {
        debug_assert!(messages.is_empty(), "messages would be overtaken by later ones");
        mem::swap(&mut *self.shared.queue(), messages);
    }
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M> Shared<M> {
    fn queue(&self) -> MutexGuard<'_, Vec<M>> {
        // A push or a swap leaves the queue whole, whoever panics.
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
