use crate::locks::lock;
use std::mem;
use std::sync::{Arc, Mutex};

use reel_ring::Waker;

/// Where other threads put messages for a core. A clone sends to the same mailbox.
///
/// # Why no message is lost or delayed
///
/// `send` adds the message under the lock and then wakes the core. The core wakes up (or does not
/// sleep at all), and then takes all messages under the lock. If the core took the lock after the
/// sender, it has the message. If it took the lock before, the sender's wake comes after the core's
/// last check and therefore ends the core's next wait at once (see the waker). Every sender wakes
/// the core, not only the one that found the mailbox empty, because that sender could be
/// descheduled between the push and the wake.
///
/// The lock is held for one push or one swap of two vectors, never while a message is handled.
pub struct Mailbox<M>(Arc<Shared<M>>);

/// The owner's side of a [`Mailbox`]. When it is dropped, messages that were not taken are dropped,
/// and later messages are returned to their senders.
pub struct Inbox<M>(Arc<Shared<M>>);

struct Shared<M> {
    state: Mutex<State<M>>,
    waker: Waker,
}

struct State<M> {
    messages: Vec<M>,
    closed: bool,
}

/// A mailbox whose owner `waker` wakes.
pub fn mailbox<M: Send>(waker: Waker) -> (Mailbox<M>, Inbox<M>) {
    let state = Mutex::new(State { messages: Vec::new(), closed: false });
    let shared = Arc::new(Shared { state, waker });
    (Mailbox(Arc::clone(&shared)), Inbox(shared))
}

impl<M: Send> Mailbox<M> {
    /// Adds a message, or drops it if the owner is gone. Never waits for the owner. Messages of one
    /// sender arrive in order.
    pub fn post(&self, message: M) {
        // A caller that must know uses `send`.
        let _ = self.send(message);
    }

    /// Adds a message.
    ///
    /// # Errors
    /// Returns the message if the owner is gone.
    pub fn send(&self, message: M) -> Result<(), M> {
        {
            let mut state = lock(&self.0.state);
            if state.closed {
                return Err(message);
            }
            state.messages.push(message);
        }
        self.0.waker.wake();
        Ok(())
    }

    /// Adds several messages with one lock and one wake-up.
    ///
    /// # Errors
    /// Returns the messages if the owner is gone.
    pub fn send_all(&self, mut messages: Vec<M>) -> Result<(), Vec<M>> {
        if messages.is_empty() {
            return Ok(());
        }
        {
            let mut state = lock(&self.0.state);
            if state.closed {
                return Err(messages);
            }
            state.messages.append(&mut messages);
        }
        self.0.waker.wake();
        Ok(())
    }

    /// True once the owner is gone.
    pub fn is_closed(&self) -> bool {
        lock(&self.0.state).closed
    }
}

impl<M: Send> Inbox<M> {
    /// Swaps all messages, oldest first, into `batch`, which must be empty. Its memory holds the
    /// next ones.
    pub fn take(&mut self, batch: &mut Vec<M>) {
        debug_assert!(batch.is_empty(), "the last batch was not handled");
        mem::swap(&mut lock(&self.0.state).messages, batch);
    }
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Mailbox<M> {
        Mailbox(Arc::clone(&self.0))
    }
}

impl<M> std::fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("messages", &lock(&self.0.state).messages.len()).finish()
    }
}

impl<M> std::fmt::Debug for Inbox<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("messages", &lock(&self.0.state).messages.len()).finish()
    }
}

impl<M> Drop for Inbox<M> {
    fn drop(&mut self) {
        let rest = {
            let mut state = lock(&self.0.state);
            state.closed = true;
            mem::take(&mut state.messages)
        };
        // Outside the lock, because dropping a message may send to this same mailbox.
        drop(rest);
    }
}
