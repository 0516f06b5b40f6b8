//! Connections of a front end: accepted by its first thread, and distributed among its threads.

use crate::limits::{ACCEPT_RETRY_NS, LISTENERS_MAX};
use crate::thread::Message;
use reel_ring::{Done, Op};
use reel_rt::{Core, Mailbox};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many connections a front end has, by thread.
#[derive(Debug)]
pub struct OpenConnections {
    max: usize,
    accepted: AtomicU64,
    threads: Vec<AtomicUsize>,
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket.
    pub socket: OwnedFd,
    /// The number of the listener that it came from.
    pub listener: usize,
    /// To be held until the connection is closed, or is no longer this front end's.
    pub counted: Counted,
}

/// A connection is counted as open until this is dropped.
#[derive(Debug)]
pub struct Counted {
    open: Arc<OpenConnections>,
    thread: usize,
}

/// What becomes of a connection.
pub(crate) enum Placed {
    /// It goes to the thread of this number.
    On(usize, Accepted),
    /// There are too many.
    TurnedAway(OwnedFd, usize),
}

/// The listeners of a front end, and the mailboxes of its threads.
pub(crate) struct Acceptor {
    pub(crate) listeners: Vec<Arc<OwnedFd>>,
    pub(crate) threads: Vec<Mailbox<Message>>,
    pub(crate) open: Arc<OpenConnections>,
}

impl OpenConnections {
    /// For so many threads, which together have at most `max` connections.
    pub fn new(threads: usize, max: usize) -> Arc<Self> {
        let threads = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self { max, accepted: AtomicU64::new(0), threads })
    }

    /// Connections accepted so far, with those that were turned away.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections open now, by thread.
    pub fn by_thread(&self) -> impl Iterator<Item = usize> {
        self.threads.iter().map(|open| open.load(Ordering::Relaxed))
    }

    /// A place for a new connection on the thread that has the fewest, if there are not too many.
    pub fn place(self: &Arc<Self>) -> Option<Counted> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        if self.by_thread().sum::<usize>() >= self.max {
            return None;
        }
        let (thread, _) = self.by_thread().enumerate().min_by_key(|(_, open)| *open)?;
        self.threads[thread].fetch_add(1, Ordering::Relaxed);
        Some(Counted { open: Arc::clone(self), thread })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.threads[self.thread].fetch_sub(1, Ordering::Relaxed);
    }
}

impl Acceptor {
    /// The listener whose operation or timer has this token.
    pub(crate) fn listener_of(token: u64) -> Option<usize> {
        let listener = u64::MAX - token;
        (listener < LISTENERS_MAX as u64).then_some(listener as usize)
    }

    /// Waits for the next connection of a listener.
    pub(crate) fn accept(&self, core: &mut Core, listener: usize) {
        let Some(socket) = self.listeners.get(listener) else { return };
        core.ring.push(token_of(listener), Op::Accept { listener: Arc::clone(socket) });
    }

    /// Withdraws what [`Acceptor::accept`] began.
    pub(crate) fn stop(&self, core: &mut Core) {
        for listener in 0..self.listeners.len() {
            core.ring.cancel(token_of(listener));
        }
    }

    /// A connection has arrived, or the attempt has failed. Then the listener waits for the next
    /// one, now or a little later.
    pub(crate) fn accepted(&self, core: &mut Core, listener: usize, done: Done) -> Option<Placed> {
        let socket = match (done.result, done.accepted) {
            (Ok(_), socket) => socket,
            (Err(error), _) if error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error()) => {
                return None;
            }
            // The client closed its connection before it was accepted. That is no reason to delay
            // other clients.
            (Err(error), _) if error.kind() == io::ErrorKind::ConnectionAborted => None,
            (Err(error), _) => {
                // Probably no descriptors are free. Open connections continue, and new ones wait in
                // the backlog.
                tracing::warn!(%error, "cannot accept a connection; trying again shortly (raise LimitNOFILE if this repeats)");
                core.at(core.now_ns() + ACCEPT_RETRY_NS, token_of(listener));
                return None;
            }
        };
        self.accept(core, listener);
        let socket = socket?;
        Some(match self.open.place() {
            Some(counted) => Placed::On(counted.thread, Accepted { socket, listener, counted }),
            None => Placed::TurnedAway(socket, listener),
        })
    }
}

/// Tokens of a protocol have their highest bit clear.
fn token_of(listener: usize) -> u64 {
    u64::MAX - listener as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_to_the_thread_that_has_the_fewest_until_there_are_too_many() {
        let open = OpenConnections::new(2, 3);
        let mut counted: Vec<Counted> = (0..3).map(|_| open.place().expect("there is room")).collect();
        assert_eq!(open.by_thread().collect::<Vec<_>>(), [2, 1]);
        assert!(open.place().is_none());
        drop(counted.remove(0));
        assert_eq!(open.by_thread().collect::<Vec<_>>(), [1, 1]);
        assert!(open.place().is_some());
        assert_eq!(open.accepted(), 5);
    }

    #[test]
    fn tokens_of_listeners_are_no_tokens_of_protocols() {
        for listener in 0..LISTENERS_MAX {
            assert_eq!(Acceptor::listener_of(token_of(listener)), Some(listener));
        }
        assert_eq!(Acceptor::listener_of(u64::MAX >> 1), None);
        assert_eq!(Acceptor::listener_of(0), None);
    }
}
