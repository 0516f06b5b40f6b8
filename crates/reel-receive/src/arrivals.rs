//! Datagrams of several sockets, in the order of their arrival.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::{ARRIVALS_MAX, DATAGRAM_BYTES_MAX};
use crate::plan::Port;
use crate::socket::Member;

/// Reads sockets, with a thread for each. While the caller is busy, for example because a player
/// does not read its input, datagrams wait in memory, up to a limit.
#[derive(Debug)]
pub struct Arrivals {
    queue: Receiver<Arrival>,
    /// For sockets that are still to be read. Without it, the queue ends with the last thread.
    sender: Option<SyncSender<Arrival>>,
    begun: Instant,
    dropped: Arc<AtomicU64>,
}

/// A datagram.
#[derive(Debug)]
pub struct Arrival {
    /// The channel, from 0.
    pub channel: usize,
    /// The port of the channel.
    pub port: Port,
    /// The sender.
    pub from: SocketAddr,
    /// When it arrived, on the clock of [`Arrivals::now_ns`].
    pub at_ns: u64,
    /// Its bytes; only the beginning of a datagram that is longer than any of a cast.
    pub bytes: Vec<u8>,
}

/// What came of waiting.
#[derive(Debug)]
pub enum Wait {
    /// A datagram.
    Arrived(Arrival),
    /// Nothing in this time.
    Silent,
    /// No socket is read any more.
    Closed,
}

impl Arrivals {
    /// Begins to read. The threads end with an error of their socket, or after the next datagram
    /// when this value is dropped.
    ///
    /// # Errors
    /// If a thread does not start.
    pub fn read(members: Vec<(Port, Member)>) -> io::Result<Arrivals> {
        let (sender, queue) = sync_channel(ARRIVALS_MAX);
        let (begun, dropped) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let mut arrivals = Arrivals { queue, sender: Some(sender), begun, dropped };
        for (port, member) in members {
            arrivals.also(0, port, Arc::new(member))?;
        }
        arrivals.sender = None;
        Ok(arrivals)
    }

    /// Reads nothing yet: channels are added while others are received.
    #[must_use]
    pub fn none() -> Arrivals {
        let (sender, queue) = sync_channel(ARRIVALS_MAX);
        Arrivals { queue, sender: Some(sender), begun: Instant::now(), dropped: Arc::default() }
    }

    /// Begins to read one socket more, of a channel.
    ///
    /// # Errors
    /// If the thread does not start.
    pub fn also(&self, channel: usize, port: Port, member: Arc<Member>) -> io::Result<()> {
        let Some(sender) = self.sender.clone() else { return Ok(()) };
        let (begun, dropped) = (self.begun, Arc::clone(&self.dropped));
        let reader = Reader { channel, port, member, sender, begun, dropped };
        thread::Builder::new().name(format!("receive-{port:?}")).spawn(move || reader.run())?;
        Ok(())
    }

    /// Nanoseconds since reading began.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        nanoseconds_since(self.begun)
    }

    /// Datagrams that found no room in memory.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits for the next datagram.
    #[must_use]
    pub fn wait(&self, time: Duration) -> Wait {
        match self.queue.recv_timeout(time) {
            Ok(arrival) => Wait::Arrived(arrival),
            Err(RecvTimeoutError::Timeout) => Wait::Silent,
            Err(RecvTimeoutError::Disconnected) => Wait::Closed,
        }
    }
}

struct Reader {
    channel: usize,
    port: Port,
    member: Arc<Member>,
    sender: SyncSender<Arrival>,
    begun: Instant,
    dropped: Arc<AtomicU64>,
}

impl Reader {
    fn run(self) {
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        loop {
            let (count, from) = match self.member.socket().recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let at_ns = nanoseconds_since(self.begun);
            let (channel, port) = (self.channel, self.port);
            let arrival = Arrival { channel, port, from, at_ns, bytes: buffer[..count].to_vec() };
            match self.sender.try_send(arrival) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
    }
}

fn nanoseconds_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
