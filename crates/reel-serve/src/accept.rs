//! Connections of a front end: accepted by its first thread, and distributed among its threads.

use crate::limits::{ACCEPT_RETRY_NS, CLIENT_CONNECTIONS_MIN, LISTENERS_MAX};
use crate::places::{NoPlace, Place, PlaceShares, Places};
use crate::room::{Leaving, Room};
use crate::thread::Message;
use reel_ring::{Done, Op};
use reel_rt::{Core, Mailbox, lock};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// How many connections a front end has, by thread.
#[derive(Debug)]
pub struct OpenConnections {
    places: Places,
    /// A step that panics in it has changed nothing, or loses no more than an order.
    room: Mutex<Room>,
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
    number: u64,
}

/// What becomes of a connection.
pub(crate) enum Placed {
    /// It goes to the thread of this number. Another one may have to end for it.
    On(usize, Accepted, Option<Leaving>),
    /// There are too many, or too many of its client.
    TurnedAway(OwnedFd, usize, NoPlace),
}

/// The listeners of a front end, and the mailboxes of its threads.
pub(crate) struct Acceptor {
    pub(crate) listeners: Vec<Arc<OwnedFd>>,
    pub(crate) threads: Vec<Mailbox<Message>>,
    pub(crate) open: Arc<OpenConnections>,
}

impl OpenConnections {
    /// For so many threads, which together have at most `max` connections. Each client has a share
    /// of them.
    pub fn new(threads: usize, max: usize, shares: PlaceShares) -> Arc<Self> {
        let threads = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        let places = Places::new(max, CLIENT_CONNECTIONS_MIN, shares);
        Arc::new(Self { places, room: Mutex::default(), accepted: AtomicU64::new(0), threads })
    }

    /// Connections accepted so far, with those that were turned away.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections open now, by thread.
    pub fn by_thread(&self) -> impl Iterator<Item = usize> {
        self.threads.iter().map(|open| open.load(Ordering::Relaxed))
    }

    /// A place for a new connection on the thread that has the fewest. `client` is `None` if the
    /// connection is not of the network.
    ///
    /// # Errors
    /// There are too many, or too many of this client.
    pub fn place(self: &Arc<Self>, client: Option<IpAddr>) -> Result<Counted, NoPlace> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let place = self.places.take(client)?;
        self.counted(place)
    }

    /// The same. If there is no place, a quiet connection makes room.
    ///
    /// # Errors
    /// There are too many, or too many of this client, and none of them is quiet.
    pub fn place_or_make_room(
        self: &Arc<Self>,
        client: Option<IpAddr>,
    ) -> Result<(Counted, Option<Leaving>), NoPlace> {
        let why = match self.place(client) {
            Ok(counted) => return Ok((counted, None)),
            Err(why) => why,
        };
        let mut room = lock(&self.room);
        let made = match why {
            NoPlace::Share { .. } => room.of_client(self.places.sharer(client)),
            NoPlace::Full => room.of_any(),
        };
        drop(room);
        let (mut place, leaving) = made.ok_or(why)?;
        if let Some(client) = client {
            place.give_to(client)?;
        }
        Ok((self.counted(place)?, Some(leaving)))
    }

    /// How much one client may have.
    pub fn shares(&self) -> &PlaceShares {
        self.places.shares()
    }

    fn counted(self: &Arc<Self>, place: Place) -> Result<Counted, NoPlace> {
        let (thread, _) = self.by_thread().enumerate().min_by_key(|(_, open)| *open).ok_or(NoPlace::Full)?;
        self.threads[thread].fetch_add(1, Ordering::Relaxed);
        let number = lock(&self.room).opened(thread, place);
        Ok(Counted { open: Arc::clone(self), thread, number })
    }
}

impl Counted {
    /// The client owes the next request since this time. Until it comes, the connection may have to
    /// end for others: then [`Protocol::make_room`](crate::Protocol::make_room) is called with this
    /// token.
    pub fn quiet(&self, token: u64, since_ns: u64) {
        lock(&self.open.room).quiet(self.number, token, since_ns);
    }

    /// A request has arrived.
    pub fn busy(&self) {
        lock(&self.open.room).busy(self.number);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.threads[self.thread].fetch_sub(1, Ordering::Relaxed);
        lock(&self.open.room).closed(self.number);
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
        Some(match self.open.place_or_make_room(address_of(&socket)) {
            Ok((counted, leaving)) => {
                Placed::On(counted.thread, Accepted { socket, listener, counted }, leaving)
            }
            Err(why) => Placed::TurnedAway(socket, listener, why),
        })
    }
}

/// The address of the other end. A socket of this machine has none.
fn address_of(socket: &OwnedFd) -> Option<IpAddr> {
    let address = rustix::net::getpeername(socket).ok()??;
    Some(SocketAddr::try_from(address).ok()?.ip())
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
        let open = OpenConnections::new(2, 3, PlaceShares::default());
        let mut counted: Vec<Counted> = (0..3).map(|_| open.place(None).expect("there is room")).collect();
        assert_eq!(open.by_thread().collect::<Vec<_>>(), [2, 1]);
        assert_eq!(open.place(None).unwrap_err(), NoPlace::Full);
        drop(counted.remove(0));
        assert_eq!(open.by_thread().collect::<Vec<_>>(), [1, 1]);
        assert!(open.place(None).is_ok());
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
