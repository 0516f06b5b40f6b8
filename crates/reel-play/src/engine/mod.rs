//! The engine of one serving thread: a state machine over deliveries.
//!
//! ```text
//!   policy -> open -> [ fill -> chunks -> taken ]... -> close
//!                        ^
//!   arrived, tick, turn -'   say which deliveries can go on (`drain_events`)
//! ```
//! A front end owns the sockets, the clock and the thread. It hands in what arrives, and moves the
//! chunks that it is given. Each call takes the time from its caller, does a bounded amount of work
//! and never waits.

mod delivery;
mod memory;

use crate::counters::PlayCounters;
use crate::limits::PREFETCH_EVERY_NS;
use crate::playable::{MediaRequest, Playable};
use crate::policy::{Decision, DeliveryPolicy};
use crate::slots::Slots;
use delivery::Delivery;
use reel_admit::{Session, Sessions};
use reel_cache::{
    Arrival, Body, Fetched, Fetcher, Inbox, Place, Prefetcher, ReaderState, UnitKey, Units, Urgency,
};
use reel_qos::{AdmitError, Class};
use reel_ring::Chunk;
use reel_volume::VolumeError;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Names a delivery of one engine; never used again for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(u64);

/// A delivery that is to begin.
pub struct NewDelivery<T> {
    /// The front end's own name for it, which comes back in every [`Event`].
    pub tag: u64,
    /// The session that it belongs to, if it belongs to one.
    pub session: Option<Arc<Session<T>>>,
    /// How it is delivered.
    pub policy: DeliveryPolicy,
    /// What is delivered: first what the front end says before the media, then the media.
    pub body: Body,
    /// Bytes of `body` that come before the media and are not counted as media.
    pub preamble_bytes: u64,
    /// Where the media begins in the title as one file, if it is a part of that.
    pub file_offset: u64,
    /// Whether it may be read in long runs while no client waits for it at a fixed time. The front
    /// end then gives runs of a client that takes nothing back by [`Engine::blocked`].
    pub in_runs: bool,
}

/// What a delivery can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// [`Engine::chunks`] has bytes to send.
    Ready,
    /// Units or buffers are on their way; an [`Event`] follows.
    Waiting,
    /// All of it was taken.
    Done,
}

/// In which order deliveries of one thread are gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The byte that is sent next is due then.
    Due(u64),
    /// A person waits for it.
    Interactive,
    /// After everything else, in turns.
    Background,
}

/// What has become of a delivery, with the front end's name for it.
#[derive(Clone, Debug)]
pub enum Event {
    /// It may be able to go on, because there are buffers for it: fill it.
    Ready(u64),
    /// The same, because a unit that it waits for is in memory.
    Unit(u64, UnitKey),
    /// No member and no decoding gives its bytes: it cannot go on.
    Lost(u64, Arc<VolumeError>),
}

/// What a delivery was when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The class of its reads, last.
    pub class: Class,
    /// Media bytes that the client took.
    pub media_bytes: u64,
    /// Whether all of it was taken.
    pub is_complete: bool,
}

/// The deliveries of one thread.
pub struct Engine<T> {
    sessions: Arc<Sessions<T>>,
    counters: Arc<PlayCounters>,
    fetcher: Fetcher,
    prefetcher: Prefetcher,
    deliveries: Slots<Delivery<T>>,
    /// Deliveries that wait for buffers, in the order of the queue for buffers. Some may be gone.
    waiting: BTreeMap<Place, DeliveryId>,
    events: VecDeque<Event>,
    /// When each kind of periodic work is due next, if any is.
    prefetch_ns: Option<u64>,
    pressure_ns: Option<u64>,
    runs_ns: Option<u64>,
}

impl<T: Playable> Engine<T> {
    /// An engine over shared units and sessions; what arrives for it from other threads goes to
    /// `inbox`, which must bring it to [`Engine::arrived`].
    pub fn new(
        units: Units,
        inbox: Arc<dyn Inbox>,
        sessions: Arc<Sessions<T>>,
        counters: Arc<PlayCounters>,
    ) -> Self {
        Self {
            sessions,
            counters,
            fetcher: Fetcher::new(units, inbox),
            prefetcher: Prefetcher::default(),
            deliveries: Slots::new(),
            waiting: BTreeMap::new(),
            events: VecDeque::new(),
            prefetch_ns: None,
            pressure_ns: None,
            runs_ns: None,
        }
    }

    /// The shared units.
    pub fn units(&self) -> &Units {
        self.fetcher.units()
    }

    /// The sessions.
    pub fn sessions(&self) -> &Arc<Sessions<T>> {
        &self.sessions
    }

    /// How a request of a session is delivered. Media goes to admission; what is read ahead for the
    /// session follows the request.
    ///
    /// # Errors
    /// When the ledger has no room where the client goes. The session stays as it was.
    pub fn policy(
        &mut self,
        session: &Session<T>,
        request: &MediaRequest,
        now_ns: u64,
    ) -> Result<DeliveryPolicy, AdmitError> {
        let classes = self.units().disks().classes();
        let decision = Decision { sessions: &self.sessions, classes: &classes, now_ns };
        let policy = decision.of(session, request, &mut self.prefetcher);
        if self.prefetch_ns.is_none() && !self.prefetcher.is_empty() {
            self.prefetch_ns = Some(now_ns + PREFETCH_EVERY_NS);
        }
        match &policy {
            Ok(policy) if policy.class == Class::APERIODIC && session.class() != policy.class => {
                self.counters.unreserved.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(refusal) => self.counters.not_admitted(refusal),
        }
        policy
    }

    /// Begins a delivery. Nothing is read before [`Engine::fill`].
    pub fn open(&mut self, delivery: NewDelivery<T>, now_ns: u64) -> DeliveryId {
        DeliveryId(self.deliveries.insert_with(|token| Delivery::new(delivery, token, now_ns)))
    }

    /// Asks for what a delivery needs next, as far as memory allows; `None` if it has ended.
    pub fn fill(&mut self, id: DeliveryId, now_ns: u64) -> Option<Readiness> {
        let state = self.fill_reader(id, now_ns)?;
        self.settle(now_ns);
        Some(match state {
            ReaderState::Ready => Readiness::Ready,
            ReaderState::AwaitUnits | ReaderState::AwaitMemory => Readiness::Waiting,
            ReaderState::Done => Readiness::Done,
        })
    }

    /// What can be sent of a delivery now, in order, within the limits of one send.
    pub fn chunks(&self, id: DeliveryId) -> Vec<Chunk> {
        self.deliveries.get(id.0).map_or_else(Vec::new, |delivery| delivery.reader.chunks())
    }

    /// Bytes of a delivery that [`Engine::release_sent`] has not let go of yet.
    pub fn unsent_bytes(&self, id: DeliveryId) -> u64 {
        self.deliveries.get(id.0).map_or(0, |delivery| delivery.reader.unsent_bytes())
    }

    /// The client took `bytes` of the chunks.
    pub fn taken(&mut self, id: DeliveryId, bytes: u64, now_ns: u64) {
        self.release_sent(id, bytes);
        self.count_taken(id, bytes, now_ns);
    }

    /// Lets go of `bytes` of the chunks without counting them as taken: the front end has copied
    /// them, as TLS does, and counts them by [`Engine::count_taken`] when the client takes the
    /// copy.
    pub fn release_sent(&mut self, id: DeliveryId, bytes: u64) {
        if let Some(delivery) = self.deliveries.get_mut(id.0) {
            delivery.reader.advance(bytes);
        }
    }

    /// The client took `bytes` that were let go of before.
    pub fn count_taken(&mut self, id: DeliveryId, bytes: u64, now_ns: u64) {
        let classes = self.units().disks().classes();
        let decision = Decision { sessions: &self.sessions, classes: &classes, now_ns };
        let Some(delivery) = self.deliveries.get_mut(id.0) else { return };
        delivery.taken(bytes, now_ns);
        delivery.follow(&decision, &self.counters);
        self.counters.sent(delivery.class, bytes);
    }

    /// The client took something, or may go on to: it is not blocked.
    pub fn progressed(&mut self, id: DeliveryId, now_ns: u64) {
        if let Some(delivery) = self.deliveries.get_mut(id.0) {
            delivery.progressed_ns = now_ns;
        }
    }

    /// Whether the client takes nothing at the moment. Its buffers may then be given to those that
    /// wait.
    pub fn set_blocked(&mut self, id: DeliveryId, is_blocked: bool, now_ns: u64) {
        let Some(delivery) = self.deliveries.get_mut(id.0) else { return };
        delivery.is_blocked = is_blocked;
        if is_blocked && delivery.reader.has_long_run() {
            self.watch_runs(now_ns);
        }
    }

    /// In which order a delivery is gone on with; `None` if it has ended.
    pub fn order(&self, id: DeliveryId) -> Option<Order> {
        let delivery = self.deliveries.get(id.0)?;
        Some(match delivery.reader.urgency() {
            Urgency::Due(due_ns) => Order::Due(due_ns),
            Urgency::Waited => Order::Interactive,
            Urgency::Unhurried if delivery.class == Class::INTERACTIVE => Order::Interactive,
            Urgency::Unhurried => Order::Background,
        })
    }

    /// When the byte at `offset` of a delivery's body is due in memory; `None` if at no fixed time.
    pub fn due_ns(&self, id: DeliveryId, offset: u64) -> Option<u64> {
        self.deliveries.get(id.0)?.reader.due_ns(offset)
    }

    /// The class of a delivery's reads now.
    pub fn class(&self, id: DeliveryId) -> Option<Class> {
        self.deliveries.get(id.0).map(|delivery| delivery.class)
    }

    /// Ends a delivery; `None` if it had ended.
    pub fn close(&mut self, id: DeliveryId) -> Option<DeliveryReport> {
        let delivery = self.deliveries.remove(id.0)?;
        if let Some(place) = delivery.waiting {
            self.waiting.remove(&place);
        }
        Some(delivery.report())
    }

    /// Takes what has arrived from a disk or another thread.
    pub fn arrived(&mut self, arrival: Arrival, now_ns: u64) {
        if let Some(fetched) = self.fetcher.arrived(arrival, now_ns) {
            self.unit_joined(&fetched);
        }
        self.settle(now_ns);
    }

    /// Goes on with all that waits for buffers; to be called after each batch of arrivals and
    /// sends.
    pub fn turn(&mut self, now_ns: u64) {
        self.fetcher.retry(now_ns);
        self.settle(now_ns);
        self.serve_waiting(now_ns);
        // Buffers come free on other threads, too, and no message tells: so look again soon.
        if self.is_waiting() {
            self.watch_pressure(now_ns);
        }
    }

    /// When [`Engine::tick`] has something to do next; `None` while it has not.
    pub fn next_tick_ns(&self) -> Option<u64> {
        let timers = [self.fetcher.next_due_ns(), self.prefetch_ns, self.pressure_ns, self.runs_ns];
        timers.into_iter().flatten().min()
    }

    /// Does what is due by now: hedged reads, read-ahead, and taking buffers back.
    pub fn tick(&mut self, now_ns: u64) {
        let is_due = |at_ns: &mut Option<u64>| at_ns.take_if(|at_ns| *at_ns <= now_ns).is_some();
        if self.fetcher.next_due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.fetcher.overdue(now_ns);
        }
        if is_due(&mut self.pressure_ns) {
            self.relieve_pressure(now_ns);
        }
        if is_due(&mut self.prefetch_ns) {
            self.prefetcher.turn(&mut self.fetcher, now_ns);
            if !self.prefetcher.is_empty() {
                self.prefetch_ns = Some(now_ns + PREFETCH_EVERY_NS);
            }
        }
        if is_due(&mut self.runs_ns) {
            self.end_untaken_runs(now_ns);
        }
        self.settle(now_ns);
    }

    /// The next event; `None` if there is none now.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether a delivery of any thread waits for buffers that others could give back.
    pub fn is_pressed(&self) -> bool {
        self.fetcher.has_waiting_fetches() || self.units().budget().is_helped_by(false)
    }

    /// Deliveries under way.
    pub fn len(&self) -> usize {
        self.deliveries.len()
    }

    /// Whether no delivery is under way.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Reads under way. An engine that ends before they do leaves deliveries of other threads
    /// waiting for them.
    pub fn reads_in_flight(&self) -> usize {
        self.fetcher.in_flight()
    }

    /// Segments that were read ahead so far.
    pub fn prefetched(&self) -> u64 {
        self.prefetcher.started
    }

    /// Takes what this thread has sent to itself.
    fn settle(&mut self, now_ns: u64) {
        while let Some(arrival) = self.fetcher.next_own() {
            if let Some(fetched) = self.fetcher.arrived(arrival, now_ns) {
                self.unit_joined(&fetched);
            }
        }
    }

    /// A unit that a delivery or the read-ahead waits for has come, or cannot come.
    fn unit_joined(&mut self, fetched: &Fetched) {
        if Prefetcher::is_for_prefetch(fetched.connection) {
            return self.prefetcher.fetched(fetched);
        }
        let Some(delivery) = self.deliveries.get_mut(fetched.connection) else { return };
        match delivery.reader.fetched(fetched) {
            Ok(_) => self.events.push_back(Event::Unit(delivery.tag, fetched.key)),
            Err(error) => {
                self.counters.lost_bytes.fetch_add(1, Ordering::Relaxed);
                self.events.push_back(Event::Lost(delivery.tag, error));
            }
        }
    }

    /// Has a delivery ask for what it needs next, and keeps its position among those that wait for
    /// buffers.
    fn fill_reader(&mut self, id: DeliveryId, now_ns: u64) -> Option<ReaderState> {
        let delivery = self.deliveries.get_mut(id.0)?;
        let state = delivery.reader.fill(&mut self.fetcher, now_ns);
        let place = delivery.reader.place();
        let before = std::mem::replace(&mut delivery.waiting, place);
        // Its position here must change with its position in the queue; otherwise the two orders
        // differ one day and all wait for ever.
        if before != place {
            before.and_then(|before| self.waiting.remove(&before));
            place.and_then(|place| self.waiting.insert(place, id));
        }
        Some(state)
    }
}
