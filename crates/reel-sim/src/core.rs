//! The serving side: one core with its fetcher and readers, as the data plane of `reel-http` drives them, without sockets.

use crate::content::first_wrong;
use crate::title::Track;
use reel_admit::limits::SEND_LEAD_NS;
use reel_cache::{
    Body, Deliver, Depth, Due, Fetched, Fetcher, Part, Place, Plan, Prefetcher, PromisedBuffers, Reader,
    ReaderState, SessionKey, Units,
};
use reel_disk::{DiskDone, Reply};
use reel_qos::Class;
use reel_ring::Chunk;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One core.
pub(crate) struct Core {
    pub(crate) fetcher: Fetcher,
    prefetcher: Prefetcher,
    inbox: Arc<Inbox>,
    transfers: Vec<Option<Transfer>>,
    /// Those who found no memory, in their order.
    starved: BTreeMap<Place, u32>,
}

/// What a client asks for.
pub(crate) struct Request {
    pub(crate) track: Arc<Track>,
    pub(crate) range: Range<u64>,
    pub(crate) class: Class,
    pub(crate) due: Due,
    /// When its first bytes are due in memory, if somebody was promised that.
    pub(crate) promised_ns: Option<u64>,
    /// Others play the same.
    pub(crate) reads_on: bool,
    /// The memory that its viewer is promised.
    pub(crate) memory: Option<Arc<PromisedBuffers>>,
    /// The client's link, in simulated bytes.
    pub(crate) bytes_per_s: u64,
}

/// What came of a transfer.
pub(crate) enum Outcome {
    /// Bytes are on the way until then; [`Core::sent`] is to be called.
    Sends(u64),
    /// All of it was sent.
    Done,
    /// The members do not give it.
    Failed(String),
    /// A unit that was asked for in time came so long after it was due.
    Late(u64),
}

/// A response on its way to a client.
struct Transfer {
    reader: Reader,
    track: Arc<Track>,
    range: Range<u64>,
    bytes_per_s: u64,
    sending_bytes: u64,
    starved: Option<Place>,
    /// When its first bytes are due, if they were asked for in time, and where it began.
    promised: Option<(u64, Range<u64>)>,
    ahead: Depth,
}

/// What members and fetchers bring.
#[derive(Default)]
struct Inbox {
    disk: Mutex<Vec<DiskDone>>,
    units: Mutex<Vec<Fetched>>,
}

impl Core {
    /// A core for clients numbered below `clients`.
    pub(crate) fn new(units: Units, clients: usize) -> Core {
        let inbox = Arc::new(Inbox::default());
        let fetcher =
            Fetcher::new(units, Arc::clone(&inbox) as Arc<dyn Reply>, Arc::clone(&inbox) as Arc<dyn Deliver>);
        Core {
            fetcher,
            prefetcher: Prefetcher::default(),
            inbox,
            transfers: (0..clients).map(|_| None).collect(),
            starved: BTreeMap::new(),
        }
    }

    /// Begins to answer; a client has one answer at a time.
    pub(crate) fn begin(
        &mut self,
        client: u32,
        request: Request,
        now_ns: u64,
    ) -> Result<Option<Outcome>, String> {
        let Request { track, range, class, due, promised_ns, reads_on, memory, bytes_per_s } = request;
        let body = Body::new([Part::Object(Arc::clone(&track.map), range.clone())]);
        let reader = Reader::new(body, class, due, u64::from(client)).in_runs();
        let reader = reader.reading_on(reads_on).promised(memory);
        // The demand of a segment is spread over the segment before it, but for the time to send it.
        let asked_before_ns = track.segment_ns - SEND_LEAD_NS;
        let promised_ns = promised_ns.filter(|due_ns| *due_ns >= now_ns + asked_before_ns);
        let promised = promised_ns.map(|due_ns| (due_ns, range.clone()));
        let (ahead, sending_bytes, starved) = (self.fetcher.units().depth(), 0, None);
        self.transfers[client as usize] =
            Some(Transfer { reader, track, range, bytes_per_s, sending_bytes, starved, promised, ahead });
        self.pump(client, now_ns)
    }

    /// What the session of a client will be asked for next of a track.
    pub(crate) fn plan(&mut self, (session, track): (SessionKey, usize), plan: Option<Plan>) {
        self.prefetcher.plan((session, track), plan);
    }

    /// Reads ahead what is due to be; to be called every [`crate::limits::PREFETCH_EVERY_NS`].
    pub(crate) fn prefetch(&mut self, now_ns: u64) {
        self.prefetcher.turn(&mut self.fetcher, now_ns);
    }

    /// When [`Core::overdue`] has something to do next.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.fetcher.next_due_ns()
    }

    /// Reads around members that have not answered in time.
    pub(crate) fn overdue(&mut self, now_ns: u64) {
        self.fetcher.overdue(now_ns);
    }

    /// Segments read ahead.
    pub(crate) fn prefetched(&self) -> u64 {
        self.prefetcher.started
    }

    /// Whether somebody waits for memory; what is read ahead is let go of then.
    pub(crate) fn relieve_pressure(&mut self) {
        if self.fetcher.is_hungry() || self.fetcher.units().budget().missing() > 0 {
            self.prefetcher.release();
        }
    }

    /// The client is no longer interested.
    pub(crate) fn cancel(&mut self, client: u32) {
        self.transfers[client as usize] = None;
    }

    /// Whether a client is being answered.
    pub(crate) fn is_busy(&self, client: u32) -> bool {
        self.transfers[client as usize].is_some()
    }

    /// What was on the way to a client has arrived.
    pub(crate) fn sent(&mut self, client: u32, now_ns: u64) -> Result<Option<Outcome>, String> {
        let Some(transfer) = &mut self.transfers[client as usize] else { return Ok(None) };
        let bytes = std::mem::take(&mut transfer.sending_bytes);
        transfer.reader.advance(bytes);
        transfer.range.start += bytes;
        self.pump(client, now_ns)
    }

    /// Deals with everything that members and fetchers brought; `true` if there was something.
    pub(crate) fn turn(&mut self, now_ns: u64, outcomes: &mut Vec<(u32, Outcome)>) -> Result<bool, String> {
        let mut some = false;
        let (answers, news) = (std::mem::take(&mut *lock(&self.inbox.disk)), Arc::clone(&self.inbox));
        for done in answers {
            some = true;
            self.fetcher.disk_done(done, now_ns);
        }
        let news = std::mem::take(&mut *lock(&news.units));
        for fetched in news {
            some = true;
            if Prefetcher::is_for_prefetch(fetched.connection) {
                self.prefetcher.fetched(&fetched);
                continue;
            }
            // Fits: other connections are numbers of clients.
            let client = fetched.connection as u32;
            let Some(transfer) = &mut self.transfers[client as usize] else { continue };
            if let Some(late_ns) = transfer.late_ns(&fetched, now_ns) {
                transfer.promised = None;
                outcomes.push((client, Outcome::Late(late_ns)));
            }
            match transfer.reader.fetched(&fetched) {
                Ok(_) => outcomes.extend(self.pump(client, now_ns)?.map(|outcome| (client, outcome))),
                Err(error) => {
                    self.transfers[client as usize] = None;
                    outcomes.push((client, Outcome::Failed(error.to_string())));
                }
            }
        }
        if self.fetcher.is_hungry() {
            self.fetcher.retry(now_ns);
        }
        while let Some((&place, &client)) = self.starved.first_key_value() {
            outcomes.extend(self.pump(client, now_ns)?.map(|outcome| (client, outcome)));
            let transfer = self.transfers[client as usize].as_ref();
            if transfer.is_some_and(|transfer| transfer.starved == Some(place)) {
                break;
            }
            // Served, and gone from here by that; or its client has left.
            self.starved.remove(&place);
        }
        Ok(some)
    }

    /// Sends what can be sent, or asks for what is missing, as `reel-http` does it.
    fn pump(&mut self, client: u32, now_ns: u64) -> Result<Option<Outcome>, String> {
        let Some(transfer) = &mut self.transfers[client as usize] else { return Ok(None) };
        if transfer.sending_bytes > 0 {
            return Ok(None);
        }
        let state = transfer.reader.fill(&mut self.fetcher, now_ns);
        let place = transfer.reader.place();
        let before = std::mem::replace(&mut transfer.starved, place);
        if before != place {
            before.and_then(|before| self.starved.remove(&before));
            place.and_then(|place| self.starved.insert(place, client));
        }
        match state {
            ReaderState::Ready => {
                let bytes = transfer.check()?;
                transfer.sending_bytes = bytes;
                let ns = (u128::from(bytes) * 1_000_000_000 / u128::from(transfer.bytes_per_s.max(1))) as u64;
                Ok(Some(Outcome::Sends(now_ns + ns.max(1))))
            }
            ReaderState::AwaitUnits | ReaderState::AwaitMemory => Ok(None),
            ReaderState::Done => {
                self.transfers[client as usize] = None;
                Ok(Some(Outcome::Done))
            }
        }
    }
}

impl Transfer {
    /// How late a unit came, by the promise that was made for it: a reader's window of stripes is due together, and what is beyond
    /// it as it is shown.
    fn late_ns(&self, fetched: &Fetched, now_ns: u64) -> Option<u64> {
        let (due_ns, range) = self.promised.as_ref().filter(|_| fetched.key.object == self.track.map.id())?;
        let geometry = self.track.map.geometry();
        let stripe_bytes = geometry.stripe_bytes() as u64;
        let offset = (fetched.key.stripe * stripe_bytes).saturating_sub(range.start);
        let bytes = range.end - range.start;
        let beyond = offset.saturating_sub(self.ahead.window_bytes(geometry, bytes, self.track.segment_ns));
        let later_ns = self.track.segment_ns * beyond / bytes;
        now_ns.checked_sub(due_ns + later_ns).filter(|late_ns| *late_ns > 0)
    }

    /// Compares what would be sent now with what the title holds; its length.
    fn check(&self) -> Result<u64, String> {
        let mut at = self.range.start;
        for chunk in self.reader.chunks() {
            let bytes = match &chunk {
                Chunk::Lease(lease) => &lease[..],
                Chunk::Bytes(bytes, range) => &bytes[range.clone()],
            };
            let range = at..at + bytes.len() as u64;
            if range.end > self.range.end {
                return Err(format!(
                    "{} bytes too many of {}",
                    range.end - self.range.end,
                    self.track.map.name()
                ));
            }
            if let Some(wrong) = first_wrong(self.track.seed, range.clone(), bytes) {
                return Err(format!("byte {wrong} of {} is wrong", self.track.map.name()));
            }
            at = range.end;
        }
        if at == self.range.start {
            return Err(format!("a reader of {} is ready and has nothing", self.track.map.name()));
        }
        Ok(at - self.range.start)
    }
}

impl Reply for Inbox {
    fn deliver(&self, done: DiskDone) {
        lock(&self.disk).push(done);
    }
}

impl Deliver for Inbox {
    fn fetched(&self, fetched: Fetched) {
        lock(&self.units).push(fetched);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
