//! What the clients of one thread share: the clock, one buffer to read into, addresses, playlists,
//! results.

use super::catalogue::Catalogue;
use super::counters::Counters;
use super::http::{discard, when_readable};
use super::limits::{PLAYLISTS_KEPT_MAX, READ_BYTES, TICK_NS};
use super::plan::Plan;
use super::request_error::RequestError;
use super::tallies::Tallies;
use reel_testkit::{Media, Playlist};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, sleep_until};

/// One thread of the fleet; its clients take turns, so nothing here is locked.
pub(crate) struct Thread {
    pub(crate) plan: Arc<Plan>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) tallies: RefCell<Tallies>,
    started: Instant,
    /// Bodies go here and nowhere else: thousands of clients need one buffer.
    scratch: RefCell<Vec<u8>>,
    addresses: RefCell<HashMap<String, SocketAddr>>,
    /// By their text: players of the same title share what was read from it.
    playlists: RefCell<HashMap<String, Known>>,
}

/// A playlist that is shared.
#[derive(Clone)]
pub(crate) enum Known {
    Master(Rc<reel_testkit::Master>),
    Media(Rc<Media>),
}

impl Thread {
    pub(crate) fn new(
        plan: Arc<Plan>,
        catalogue: Arc<Catalogue>,
        counters: Arc<Counters>,
        started: Instant,
    ) -> Self {
        Self {
            plan,
            catalogue,
            counters,
            tallies: RefCell::default(),
            started,
            scratch: RefCell::new(vec![0; READ_BYTES]),
            addresses: RefCell::default(),
            playlists: RefCell::default(),
        }
    }

    /// Time since the start of the fleet.
    pub(crate) fn now_ns(&self) -> u64 {
        // 584 years fit.
        self.started.elapsed().as_nanos() as u64
    }

    pub(crate) async fn sleep_until(&self, at_ns: u64) {
        if at_ns > self.now_ns() {
            sleep_until((self.started + Duration::from_nanos(at_ns)).into()).await;
        }
    }

    pub(crate) async fn sleep(&self, ns: u64) {
        self.sleep_until(self.now_ns().saturating_add(ns)).await;
    }

    /// Reads what has arrived, at most `most` bytes, and shows it to `look`; 0 bytes are the end.
    pub(crate) async fn read(
        &self,
        stream: &TcpStream,
        most: usize,
        mut look: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        when_readable(stream, || {
            let mut scratch = self.scratch.borrow_mut();
            let most = most.min(scratch.len());
            let bytes = stream.try_read(&mut scratch[..most])?;
            look(&scratch[..bytes]);
            Ok(bytes)
        })
        .await
    }

    /// Throws away what has arrived, at most `most` bytes.
    pub(crate) async fn discard(&self, stream: &TcpStream, most: usize) -> io::Result<usize> {
        when_readable(stream, || {
            let mut scratch = self.scratch.borrow_mut();
            let most = most.min(scratch.len());
            discard(stream, &mut scratch[..most])
        })
        .await
    }

    /// Where `host:port` is; looked up once.
    pub(crate) async fn address(&self, host_and_port: &str) -> Result<SocketAddr, RequestError> {
        if let Some(address) = self.addresses.borrow().get(host_and_port) {
            return Ok(*address);
        }
        let unknown = || RequestError::failed(format!("{host_and_port} has no address"));
        let mut found = tokio::net::lookup_host(host_and_port).await.map_err(|_| unknown())?;
        let address = found.next().ok_or_else(unknown)?;
        self.addresses.borrow_mut().insert(host_and_port.to_owned(), address);
        Ok(address)
    }

    /// Reads a playlist, or finds it among those read before.
    pub(crate) fn playlist(&self, text: String) -> Result<Known, RequestError> {
        if let Some(known) = self.playlists.borrow().get(&text) {
            return Ok(known.clone());
        }
        let known = match Playlist::parse(&text) {
            Ok(Playlist::Master(master)) => Known::Master(Rc::new(master)),
            Ok(Playlist::Media(media)) => Known::Media(Rc::new(media)),
            Err(error) => return Err(RequestError::failed(format!("{error:#}"))),
        };
        let mut playlists = self.playlists.borrow_mut();
        if playlists.len() >= PLAYLISTS_KEPT_MAX {
            playlists.clear();
        }
        playlists.insert(text, known.clone());
        Ok(known)
    }

    /// Measures how late this thread comes to what it should do: a byte can only be seen to arrive
    /// when its turn comes.
    pub(crate) async fn tick(&self) {
        let mut ticks = interval(Duration::from_nanos(TICK_NS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let due = ticks.tick().await;
            // The timer rounds up to whole milliseconds: that much is not lateness.
            let late_ns = (due.elapsed().as_nanos() as u64).saturating_sub(TICK_NS);
            self.tallies.borrow_mut().ticks.add(late_ns);
        }
    }
}
