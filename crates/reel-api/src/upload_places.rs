//! Places of uploads: few, each held in the share of its client, and for as long as a whole file
//! takes to arrive.
//!
//! Clients that are within their shares can hold all places together. Then a client without a place
//! waits in a queue, and uploads that crawl make room for the queue, the slowest first. Only a
//! client that holds no place comes to the queue, since others have their share when no place is
//! free. So one client is never in both, and the queue moves on.

use crate::limits::{
    CLIENT_UPLOADS_MIN, UPLOAD_CRAWL_BYTES, UPLOAD_CRAWL_SPAN, UPLOAD_LOOK_EVERY, UPLOAD_WAIT_MAX,
    UPLOADS_MAX, UPLOADS_WAITING_MAX,
};
use reel_rt::lock;
use reel_serve::{NoPlace, Place, PlaceShares, Places};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

/// All places. Clones are the same places.
#[derive(Clone)]
pub(super) struct UploadPlaces(Arc<Inner>);

struct Inner {
    places: Places,
    /// As many as places. A shutdown waits for them.
    slots: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    uploads: BTreeMap<u64, Upload>,
    /// Those that wait, in order.
    queue: VecDeque<Waiting>,
    next_number: u64,
}

struct Waiting {
    number: u64,
    client: Option<IpAddr>,
}

struct Upload {
    _place: Place,
    _slot: OwnedSemaphorePermit,
    ends: Arc<Notify>,
    pace: Pace,
}

/// How fast an upload is.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// What arrived counts from here.
    since: Instant,
    bytes: u64,
    /// Bytes in the last whole span.
    last_bytes: Option<u64>,
    /// It waits for something else than its client: what arrived is written, or all has arrived.
    is_served: bool,
}

/// The right to receive an upload; it ends when this is dropped, or when the upload makes room.
pub(super) struct UploadPlace {
    places: UploadPlaces,
    number: u64,
    ends: Arc<Notify>,
}

/// A place in the queue.
struct InQueue<'a> {
    places: &'a UploadPlaces,
    number: u64,
}

impl UploadPlaces {
    pub(super) fn new(shares: PlaceShares) -> Self {
        Self(Arc::new(Inner {
            places: Places::new(UPLOADS_MAX, CLIENT_UPLOADS_MIN, shares),
            slots: Arc::new(Semaphore::new(UPLOADS_MAX)),
            state: Mutex::default(),
        }))
    }

    /// Waits until no upload holds a place.
    pub(super) async fn drained(&self) {
        // The semaphore is never closed.
        let _slots = self.0.slots.acquire_many(UPLOADS_MAX as u32).await;
    }

    /// A place for an upload of a client, or why there is none now. Those that wait come first.
    ///
    /// # Errors
    /// The client has its share, all places are taken, or others wait for one.
    pub(super) fn take(&self, client: Option<IpAddr>) -> Result<UploadPlace, NoPlace> {
        let mut state = lock(&self.0.state);
        if state.queue.is_empty() {
            return self.take_free(&mut state, client);
        }
        // A client that has its share does not wait.
        Err(self.0.places.take(client).err().unwrap_or(NoPlace::Full))
    }

    /// The same, after a wait of at most [`UPLOAD_WAIT_MAX`] if all places are taken.
    ///
    /// # Errors
    /// The client has its share, it waits already, too many wait, or no place became free in time.
    pub(super) async fn wait(&self, client: Option<IpAddr>) -> Result<UploadPlace, NoPlace> {
        let until = Instant::now() + UPLOAD_WAIT_MAX;
        match self.take(client) {
            Err(NoPlace::Full) => {}
            taken => return taken,
        }
        let waiting = self.enter_queue(client)?;
        while Instant::now() < until {
            sleep(UPLOAD_LOOK_EVERY).await;
            if let Some(place) = self.turn(waiting.number, client, Instant::now()) {
                return place;
            }
        }
        Err(NoPlace::Full)
    }

    fn enter_queue(&self, client: Option<IpAddr>) -> Result<InQueue<'_>, NoPlace> {
        let client = self.0.places.sharer(client);
        let mut state = lock(&self.0.state);
        let waits = client.is_some() && state.queue.iter().any(|waiting| waiting.client == client);
        if waits || state.queue.len() >= UPLOADS_WAITING_MAX {
            return Err(NoPlace::Full);
        }
        let number = state.number();
        state.queue.push_back(Waiting { number, client });
        Ok(InQueue { places: self, number })
    }

    /// A place for who is the first in the queue, if there is one or an upload makes room.
    fn turn(
        &self,
        number: u64,
        client: Option<IpAddr>,
        now: Instant,
    ) -> Option<Result<UploadPlace, NoPlace>> {
        let mut state = lock(&self.0.state);
        if state.queue.front()?.number != number {
            return None;
        }
        match self.take_free(&mut state, client) {
            Err(NoPlace::Full) => {}
            taken => return Some(taken),
        }
        let crawling = state.uploads.iter_mut().filter_map(|(number, upload)| {
            let bytes = upload.pace.crawls(now)?;
            Some((bytes, *number))
        });
        let (_, slowest) = crawling.min()?;
        if let Some(upload) = state.uploads.remove(&slowest) {
            upload.ends.notify_one();
        }
        Some(self.take_free(&mut state, client))
    }

    fn take_free(&self, state: &mut State, client: Option<IpAddr>) -> Result<UploadPlace, NoPlace> {
        let place = self.0.places.take(client)?;
        // There are as many slots as places.
        let slot = self.0.slots.clone().try_acquire_owned().map_err(|_| NoPlace::Full)?;
        let (number, ends) = (state.number(), Arc::new(Notify::new()));
        let upload =
            Upload { _place: place, _slot: slot, ends: Arc::clone(&ends), pace: Pace::new(Instant::now()) };
        state.uploads.insert(number, upload);
        Ok(UploadPlace { places: self.clone(), number, ends })
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

impl UploadPlace {
    /// Waits until the upload has to end, because others wait and it crawls.
    pub(super) async fn makes_room(&self) {
        self.ends.notified().await;
    }

    /// So many bytes have arrived, and are worked on.
    pub(super) fn arrived(&self, bytes: usize) {
        self.pace(|pace, now| pace.arrived(bytes as u64, now));
    }

    /// All of it has arrived: it makes no room any more. Returns whether it has not done so before.
    pub(super) fn has_arrived(&self) -> bool {
        self.arrived(0);
        lock(&self.places.0.state).uploads.contains_key(&self.number)
    }

    /// The upload waits for its client again, after so much time.
    pub(super) fn awaits(&self, served: Duration) {
        self.pace(|pace, _| pace.awaits(served));
    }

    fn pace(&self, change: impl FnOnce(&mut Pace, Instant)) {
        if let Some(upload) = lock(&self.places.0.state).uploads.get_mut(&self.number) {
            change(&mut upload.pace, Instant::now());
        }
    }
}

impl Drop for UploadPlace {
    fn drop(&mut self) {
        lock(&self.places.0.state).uploads.remove(&self.number);
    }
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        lock(&self.places.0.state).queue.retain(|waiting| waiting.number != self.number);
    }
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0, last_bytes: None, is_served: false }
    }

    fn arrived(&mut self, bytes: u64, now: Instant) {
        self.look(now);
        self.bytes += bytes;
        self.is_served = true;
    }

    fn awaits(&mut self, served: Duration) {
        // The time of the server's own disk is not the client's.
        self.since += served;
        self.is_served = false;
    }

    /// Begins a new span if the last one is over. A longer one is counted for its length.
    fn look(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= UPLOAD_CRAWL_SPAN {
            let spans = elapsed.as_secs_f64() / UPLOAD_CRAWL_SPAN.as_secs_f64();
            *self = Self { last_bytes: Some((self.bytes as f64 / spans) as u64), ..Self::new(now) };
        }
    }

    /// The bytes of the last whole span, if they are so few that the upload crawls.
    fn crawls(&mut self, now: Instant) -> Option<u64> {
        if self.is_served {
            return None;
        }
        self.look(now);
        self.last_bytes.filter(|bytes| *bytes < UPLOAD_CRAWL_BYTES)
    }
}
