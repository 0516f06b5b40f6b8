//! The serving side: the engine of one thread, with simulated clients in place of sockets.

use crate::casts::CAST_TAG;
use crate::content::first_wrong;
use crate::pours::POUR_TAG;
use crate::scale::OBJECT_SCALE;
use crate::title::{Title, Track};
use reel_admit::{Session, Sessions};
use reel_cache::{Arrival, Body, Depth, Due, Inbox, Pace, Part, UnitKey, Units};
use reel_play::limits::TRAIN_BYTES_MAX;
use reel_play::{
    DeliveryId, DeliveryPolicy, Engine, Event, NetworkPath, NewDelivery, PlayCounters, Readiness, UplinkPort,
};
use reel_qos::Class;
use reel_ring::Chunk;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One serving thread.
pub(crate) struct Core {
    pub(crate) engine: Engine<Title>,
    inbox: Arc<Arrivals>,
    transfers: Vec<Option<Transfer>>,
    /// Whether something has arrived for a cast.
    has_cast_event: bool,
    /// The same for a viewer of a poured stream.
    has_pour_event: bool,
}

/// What a client requests.
pub(crate) struct Request {
    /// Who requests it.
    pub(crate) address: IpAddr,
    pub(crate) track: Arc<Track>,
    pub(crate) range: Range<u64>,
    pub(crate) session: Option<Arc<Session<Title>>>,
    pub(crate) policy: DeliveryPolicy,
    /// The client's link, in simulated bytes.
    pub(crate) bytes_per_s: u64,
    /// See [`NewDelivery::in_runs`].
    pub(crate) in_runs: bool,
}

/// What came of a transfer.
pub(crate) enum Outcome {
    /// Bytes are on the way until then; [`Core::sent`] is to be called.
    Sends(u64),
    /// All of it was sent.
    Done,
    /// The members do not give it.
    Failed(String),
    /// A unit that was requested in time came so long after it was due.
    Late(u64),
}

/// A response on its way to a client.
struct Transfer {
    delivery: DeliveryId,
    track: Arc<Track>,
    range: Range<u64>,
    bytes_per_s: u64,
    sending_bytes: u64,
    /// Set if it was requested in time.
    promised: Option<Promised>,
    ahead: Depth,
}

/// What is promised of a transfer.
struct Promised {
    /// When its first bytes are due.
    due_ns: u64,
    /// All of it.
    range: Range<u64>,
    /// When what follows is due, if it is a part of a file.
    pace: Option<Pace>,
}

/// What members and other threads bring.
#[derive(Default)]
struct Arrivals(Mutex<Vec<Arrival>>);

impl Core {
    /// A thread for clients numbered below `clients`.
    pub(crate) fn new(
        units: Units,
        sessions: Arc<Sessions<Title>>,
        counters: Arc<PlayCounters>,
        clients: usize,
    ) -> Core {
        let inbox = Arc::new(Arrivals::default());
        let engine = Engine::new(units, Arc::clone(&inbox) as Arc<dyn Inbox>, sessions, counters);
        Core {
            engine,
            inbox,
            transfers: (0..clients).map(|_| None).collect(),
            has_cast_event: false,
            has_pour_event: false,
        }
    }

    /// The same thread, which sends through an uplink.
    pub(crate) fn through(self, uplink: Option<UplinkPort>) -> Core {
        Core { engine: self.engine.through(uplink), ..self }
    }

    /// Begins to answer; a client has one answer at a time.
    pub(crate) fn begin(
        &mut self,
        client: u32,
        request: Request,
        now_ns: u64,
    ) -> Result<Option<Outcome>, String> {
        let Request { address, track, range, session, policy, bytes_per_s, in_runs } = request;
        // The rate of what is reserved is that of real bytes.
        let paced_bytes_per_s = policy.paced_bytes_per_s.map(|rate| rate / OBJECT_SCALE);
        let policy = DeliveryPolicy { paced_bytes_per_s, ..policy };
        let promised = promised(&policy, &track, &range, now_ns);
        let delivery = NewDelivery {
            tag: u64::from(client),
            session,
            policy,
            body: Body::new([Part::Object(Arc::clone(&track.map), range.clone())]),
            preamble_bytes: 0,
            file_offset: range.start,
            in_runs,
            path: NetworkPath::Uplink {
                train_bytes: TRAIN_BYTES_MAX / OBJECT_SCALE,
                client: address,
                piece_bytes: 1,
            },
        };
        self.cancel(client);
        let (delivery, ahead) = (self.engine.open(delivery, now_ns), self.engine.units().depth());
        self.transfers[client as usize] =
            Some(Transfer { delivery, track, range, bytes_per_s, sending_bytes: 0, promised, ahead });
        self.pump(client, now_ns)
    }

    /// The client is no longer interested.
    pub(crate) fn cancel(&mut self, client: u32) {
        if let Some(transfer) = self.transfers[client as usize].take() {
            self.engine.close(transfer.delivery);
        }
    }

    /// Whether a client is being answered.
    pub(crate) fn is_busy(&self, client: u32) -> bool {
        self.transfers[client as usize].is_some()
    }

    /// What was on the way to a client has arrived.
    pub(crate) fn sent(&mut self, client: u32, now_ns: u64) -> Result<Option<Outcome>, String> {
        let Some(transfer) = &mut self.transfers[client as usize] else { return Ok(None) };
        let bytes = std::mem::take(&mut transfer.sending_bytes);
        transfer.range.start += bytes;
        self.engine.taken(transfer.delivery, bytes, now_ns);
        self.pump(client, now_ns)
    }

    /// Passes all arrivals to the engine, and continues the clients that can continue; `true` if
    /// something arrived.
    pub(crate) fn turn(&mut self, now_ns: u64, outcomes: &mut Vec<(u32, Outcome)>) -> Result<bool, String> {
        let arrivals = std::mem::take(&mut *lock(&self.inbox.0));
        let some = !arrivals.is_empty();
        for arrival in arrivals {
            self.engine.arrived(arrival, now_ns);
        }
        self.engine.turn(now_ns);
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Lost(tag, error) if tag >= POUR_TAG => {
                    return Err(format!("a poured stream has nothing stored that could be lost: {error}"));
                }
                Event::Ready(tag) | Event::Unit(tag, _) if tag >= POUR_TAG => self.has_pour_event = true,
                Event::Lost(tag, error) if tag >= CAST_TAG => {
                    return Err(format!("a cast cannot be given what is stored: {error}"));
                }
                Event::Ready(tag) | Event::Unit(tag, _) if tag >= CAST_TAG => self.has_cast_event = true,
                Event::Ready(client) => self.proceed(client as u32, now_ns, outcomes)?,
                Event::Unit(client, key) => {
                    self.check_time(client as u32, key, now_ns, outcomes);
                    self.proceed(client as u32, now_ns, outcomes)?;
                }
                Event::Lost(client, error) => {
                    self.cancel(client as u32);
                    outcomes.push((client as u32, Outcome::Failed(error.to_string())));
                }
            }
        }
        Ok(some)
    }

    /// Whether a viewer of a poured stream can continue, since this was asked last.
    pub(crate) fn take_pour_event(&mut self) -> bool {
        std::mem::take(&mut self.has_pour_event)
    }

    /// Whether something has arrived for a cast since this was asked last.
    pub(crate) fn take_cast_event(&mut self) -> bool {
        std::mem::take(&mut self.has_cast_event)
    }

    fn proceed(
        &mut self,
        client: u32,
        now_ns: u64,
        outcomes: &mut Vec<(u32, Outcome)>,
    ) -> Result<(), String> {
        outcomes.extend(self.pump(client, now_ns)?.map(|outcome| (client, outcome)));
        Ok(())
    }

    /// Whether a unit came in time for its client.
    fn check_time(&mut self, client: u32, key: UnitKey, now_ns: u64, outcomes: &mut Vec<(u32, Outcome)>) {
        let Some(transfer) = &mut self.transfers[client as usize] else { return };
        if let Some(late_ns) = transfer.late_ns(key, now_ns) {
            transfer.promised = None;
            outcomes.push((client, Outcome::Late(late_ns)));
        }
    }

    /// Sends what can be sent, or asks for what is missing.
    fn pump(&mut self, client: u32, now_ns: u64) -> Result<Option<Outcome>, String> {
        let Some(transfer) = &mut self.transfers[client as usize] else { return Ok(None) };
        if transfer.sending_bytes > 0 {
            return Ok(None);
        }
        match self.engine.fill(transfer.delivery, now_ns) {
            Some(Readiness::Ready) => {
                let bytes = transfer.check(&self.engine.chunks(transfer.delivery))?;
                transfer.sending_bytes = bytes;
                let ns = (u128::from(bytes) * 1_000_000_000 / u128::from(transfer.bytes_per_s.max(1))) as u64;
                Ok(Some(Outcome::Sends(now_ns + ns.max(1))))
            }
            Some(Readiness::Waiting) | None => Ok(None),
            Some(Readiness::Done) => {
                self.cancel(client);
                Ok(Some(Outcome::Done))
            }
        }
    }
}

/// What is promised of a request, if it is reserved for and requested in time.
fn promised(policy: &DeliveryPolicy, track: &Track, range: &Range<u64>, now_ns: u64) -> Option<Promised> {
    let (due_ns, pace) = match &policy.due {
        Due::Ramp(ramp) => (ramp.due_ns, None),
        Due::Paced(pace) => (due_at(pace, 0), Some(pace.clone())),
        Due::After(_) => return None,
    };
    // The demand of a segment is spread over the segment before it, but for the time to send it.
    let requested_before_ns = track.segment_ns - reel_admit::limits::SEND_LEAD_NS;
    let begins_ns = now_ns.max(policy.start_ns);
    let is_in_time = policy.class == Class::PERIODIC && due_ns >= begins_ns + requested_before_ns;
    is_in_time.then(|| Promised { due_ns, range: range.clone(), pace })
}

/// When the byte at `offset` of a read of a file is due.
fn due_at(pace: &Pace, offset: u64) -> u64 {
    pace.due_ns + pace.media_ns(offset).saturating_sub(pace.media_ns)
}

impl Transfer {
    /// How late a unit came, by the promise that was made for it: a reader's window of stripes is
    /// due together, and what is beyond it as it is shown.
    fn late_ns(&self, key: UnitKey, now_ns: u64) -> Option<u64> {
        let promised = self.promised.as_ref().filter(|_| key.object == self.track.map.id())?;
        let Promised { due_ns, range, pace } = promised;
        let geometry = self.track.map.geometry();
        let stripe_bytes = geometry.stripe_bytes() as u64;
        let offset = (key.stripe * stripe_bytes).saturating_sub(range.start);
        if let Some(pace) = pace {
            return now_ns.checked_sub(due_at(pace, offset)).filter(|late_ns| *late_ns > 0);
        }
        let bytes = range.end - range.start;
        let beyond = offset.saturating_sub(self.ahead.window_bytes(geometry, bytes, self.track.segment_ns));
        let later_ns = self.track.segment_ns * beyond / bytes;
        now_ns.checked_sub(due_ns + later_ns).filter(|late_ns| *late_ns > 0)
    }

    /// Compares what would be sent now with what the title holds; its length.
    fn check(&self, chunks: &[Chunk]) -> Result<u64, String> {
        let mut at = self.range.start;
        for chunk in chunks {
            let bytes = bytes_of(chunk);
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
            return Err(format!("a delivery of {} is ready and has nothing", self.track.map.name()));
        }
        Ok(at - self.range.start)
    }
}

/// The bytes of what is sent.
pub(crate) fn bytes_of(chunk: &Chunk) -> &[u8] {
    match chunk {
        Chunk::Lease(lease) => &lease[..],
        Chunk::Bytes(bytes, range) => &bytes[range.clone()],
    }
}

impl Inbox for Arrivals {
    fn post(&self, arrival: Arrival) {
        lock(&self.0).push(arrival);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
