//! Events that reach the thread that owns a fetcher, from disks and from other threads.

use crate::unit::Fetched;
use reel_disk::{DiskDone, Reply};
use std::collections::VecDeque;
use std::sync::Arc;

/// One event for the thread that owns a [`Fetcher`](crate::Fetcher). That thread gives it to
/// [`Fetcher::arrived`](crate::Fetcher::arrived).
pub enum Arrival {
    /// A member has answered a request of a read of this thread.
    Disk(DiskDone),
    /// A unit that a connection of this thread waits for is in memory, or cannot be read.
    Unit(Fetched),
    /// A unit that a read of this thread is decoded from is in memory, or the table does not
    /// provide it.
    Source {
        /// The read.
        read: u64,
        /// The fetch within the read.
        fetch: usize,
    },
    /// A read of this thread has become more urgent, because a reader of another thread joined it.
    Raised {
        /// The read.
        read: u64,
    },
}

/// Brings arrivals to the thread that owns a fetcher. It is called on any thread.
pub trait Inbox: Send + Sync {
    /// Takes an arrival. Must not wait.
    fn post(&self, arrival: Arrival);
}

/// Sends the answers of the disks to an inbox.
pub(crate) struct DiskReplies(pub(crate) Arc<dyn Inbox>);

impl Reply for DiskReplies {
    fn deliver(&self, done: DiskDone) {
        self.0.post(Arrival::Disk(done));
    }
}

/// Arrivals that the thread of a fetcher makes. Those for the thread itself are queued here; those
/// for other threads go to their inboxes.
pub(crate) struct Outbox {
    own: Arc<dyn Inbox>,
    queue: VecDeque<Arrival>,
}

impl Outbox {
    /// The outbox of the thread with this inbox.
    pub(crate) fn new(own: Arc<dyn Inbox>) -> Self {
        Self { own, queue: VecDeque::new() }
    }

    /// The inbox of this thread.
    pub(crate) fn own(&self) -> &Arc<dyn Inbox> {
        &self.own
    }

    /// Gives an arrival to the thread it is meant for.
    pub(crate) fn post(&mut self, to: &Arc<dyn Inbox>, arrival: Arrival) {
        if Arc::ptr_eq(to, &self.own) {
            self.queue.push_back(arrival);
        } else {
            to.post(arrival);
        }
    }

    /// The next arrival of this thread for itself.
    pub(crate) fn pop(&mut self) -> Option<Arrival> {
        self.queue.pop_front()
    }
}
