//! The engine of one serving thread: a state machine over deliveries.
//!
//! ```text
//!   policy -> open -> [ fill -> chunks -> taken ]... -> close
//!                        ^
//!   arrived, tick, turn -'   name the deliveries that can continue (`next_event`)
//! ```
//! A front end owns the sockets, the clock and the thread. It passes arrivals to the engine and
//! sends the chunks that the engine returns. The caller of each function passes the time. Each call
//! does a bounded amount of work and never waits.

mod delivery;
mod memory;
mod network;
mod pacing;
mod step;

use crate::counters::PlayCounters;
use crate::late::LateViewer;
use crate::limits::PREFETCH_EVERY_NS;
use crate::playable::{MediaRequest, Playable};
use crate::policy::{Decided, Decision, DeliveryPolicy};
use crate::slots::Slots;
use crate::uplink::{UplinkPort, uplink_client};
use delivery::Delivery;
use reel_admit::{Session, Sessions};
use reel_cache::{
    Arrival, Body, Fetched, Fetcher, Inbox, Prefetcher, QueuePosition, ReaderState, UnitKey, Units, Urgency,
};
use reel_qos::{AdmitError, Class, Kind};
use reel_ring::Chunk;
use reel_volume::VolumeError;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Identifies a delivery of one engine. It is never used for another delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(u64);

/// A delivery to open.
pub struct NewDelivery<T> {
    /// The front end's identifier of it, which every [`Event`] contains.
    pub tag: u64,
    /// The session that it belongs to, if it belongs to one.
    pub session: Option<Arc<Session<T>>>,
    /// How it is delivered.
    pub policy: DeliveryPolicy,
    /// The bytes to deliver: first the response head or other preamble of the front end, then the
    /// media.
    pub body: Body,
    /// Bytes of `body` that come before the media and are not counted as media.
    pub preamble_bytes: u64,
    /// Where the media begins in the title as one file, if the delivery is a part of that file.
    pub file_offset: u64,
    /// Whether it may be read in long runs while it has no deadlines. The front end must then
    /// report by [`Engine::set_blocked`] when the client takes nothing, so that the run can be
    /// given back.
    pub in_runs: bool,
    /// How its bytes reach the client.
    pub path: NetworkPath,
}

/// How the bytes of a delivery reach its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkPath {
    /// On the same machine.
    Local,
    /// Through the uplink of the engine, if the engine has one.
    Uplink {
        /// Bytes that the path to the client takes at once without loss:
        /// [`FlowMeter::train_bytes`](crate::FlowMeter::train_bytes).
        train_bytes: u64,
        /// The client whose turn on the uplink this is: [`reel_admit::client_network`].
        client: IpAddr,
        /// Bytes that are sent together or not at all: those of a packet. 1 for a connection.
        piece_bytes: u64,
    },
}

impl NetworkPath {
    /// How the bytes of a connection reach this client, over a path that takes so many bytes at
    /// once without loss.
    pub fn to(client: IpAddr, train_bytes: u64) -> Self {
        Self::of(uplink_client(client), train_bytes)
    }

    /// The same for the client whose turn on the uplink this is; `None` if no link is used.
    pub fn of(uplink_client: Option<IpAddr>, train_bytes: u64) -> Self {
        match uplink_client {
            Some(client) => Self::Uplink { train_bytes, client, piece_bytes: 1 },
            None => Self::Local,
        }
    }
}

/// What a delivery can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// [`Engine::chunks`] has bytes to send.
    Ready,
    /// It waits for units, buffers, the uplink, its start, its next train or run; an [`Event`]
    /// follows. Or it waits for more of its body ([`Engine::append`]), and none follows.
    Waiting,
    /// The client has taken all of it.
    Done,
}

/// The order in which deliveries of one thread are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOrder {
    /// By deadline: the next byte to send is due at this time.
    Due(u64),
    /// A person waits for it.
    Interactive,
    /// After all others, in turns.
    Background,
}

/// What happened to a delivery, with the front end's identifier of it.
#[derive(Clone, Debug)]
pub enum Event {
    /// Buffers are available for it, the uplink has time for it, or its session or its next train
    /// starts, so it may be able to continue: call [`Engine::fill`].
    Ready(u64),
    /// The same, because a unit that it waits for is in memory.
    Unit(u64, UnitKey),
    /// Its bytes can neither be read nor decoded, so it cannot continue.
    Lost(u64, Arc<VolumeError>),
}

/// The result of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The last class of its reads.
    pub class: Class,
    /// Media bytes that the client took.
    pub media_bytes: u64,
    /// Whether the client took all of it.
    pub is_complete: bool,
}

/// The deliveries of one thread.
pub struct Engine<T> {
    sessions: Arc<Sessions<T>>,
    counters: Arc<PlayCounters>,
    /// Which of the front ends of the counters it works for.
    front_end: usize,
    fetcher: Fetcher,
    prefetcher: Prefetcher,
    deliveries: Slots<Delivery<T>>,
    /// Deliveries that wait for buffers, in the order of the queue for buffers. Some may be gone.
    waiting: BTreeMap<QueuePosition, DeliveryId>,
    events: VecDeque<Event>,
    /// When each kind of periodic work is due next, if any is.
    prefetch_ns: Option<u64>,
    pressure_ns: Option<u64>,
    runs_ns: Option<u64>,
    /// The link that clients are sent to through, if its rate is known.
    uplink: Option<UplinkPort>,
    uplink_ns: Option<u64>,
    /// How many deliveries wait for it.
    uplink_waiting: usize,
    /// Deliveries that may send from a time on: at the start of their session, or their next train
    /// or run.
    later: BTreeSet<(u64, DeliveryId)>,
    /// How many calls have begun and not ended.
    depth: u32,
}

impl<T: Playable> Engine<T> {
    /// Makes an engine that uses shared units and sessions. Other threads put its arrivals into
    /// `inbox`, which must pass them to [`Engine::arrived`].
    pub fn new(
        units: Units,
        inbox: Arc<dyn Inbox>,
        sessions: Arc<Sessions<T>>,
        counters: Arc<PlayCounters>,
    ) -> Self {
        Self {
            sessions,
            counters,
            front_end: 0,
            fetcher: Fetcher::new(units, inbox),
            prefetcher: Prefetcher::default(),
            deliveries: Slots::new(),
            waiting: BTreeMap::new(),
            events: VecDeque::new(),
            prefetch_ns: None,
            pressure_ns: None,
            runs_ns: None,
            uplink: None,
            uplink_ns: None,
            uplink_waiting: 0,
            later: BTreeSet::new(),
            depth: 0,
        }
    }

    /// The same engine, whose deliveries share an uplink with those of other threads.
    #[must_use]
    pub fn through(self, uplink: Option<UplinkPort>) -> Self {
        Self { uplink, ..self }
    }

    /// The same engine, which works for another one of [`PlayCounters::front_ends`] than the first.
    #[must_use]
    pub fn for_front_end(self, front_end: usize) -> Self {
        Self { front_end, ..self }
    }

    /// The shared units.
    pub fn units(&self) -> &Units {
        self.fetcher.units()
    }

    /// The sessions.
    pub fn sessions(&self) -> &Arc<Sessions<T>> {
        &self.sessions
    }

    /// Decides how a request of a session is delivered. A request for media may need admission. The
    /// reads ahead for the session follow the request.
    ///
    /// # Errors
    /// If the ledger cannot reserve what the client's new position needs. The session is unchanged.
    pub fn policy(
        &mut self,
        session: &Session<T>,
        request: &MediaRequest,
        now_ns: u64,
    ) -> Result<DeliveryPolicy, AdmitError> {
        self.inside(|engine| {
            let classes = engine.units().disks().classes();
            let decision = Decision { sessions: &engine.sessions, classes: &classes, now_ns };
            // If the class changes in the meantime, it is decided again when the delivery reads.
            let decided = Some(Decided { class: session.class(), request: request.clone() });
            let policy = decision.of(session, request, &mut engine.prefetcher);
            let policy = policy.map(|policy| DeliveryPolicy { decided, ..policy });
            if engine.prefetch_ns.is_none() && !engine.prefetcher.is_empty() {
                engine.prefetch_ns = Some(now_ns + PREFETCH_EVERY_NS);
            }
            match &policy {
                Ok(policy)
                    if policy.is_displaced
                        || policy.class == Class::APERIODIC && session.class() != policy.class =>
                {
                    engine.counters.unreserved.fetch_add(1, Ordering::Relaxed);
                }
                Ok(_) => {}
                Err(refusal) => engine.counters.not_admitted(refusal),
            }
            policy
        })
    }

    /// Has a delivery of a title as one file, which belongs to no session, continue as one of
    /// `session` from where it is. Returns whether it does. It does not if the session starts later
    /// (try again then), or if the delivery has ended.
    ///
    /// # Errors
    /// If the ledger cannot reserve what the client's position needs. The delivery continues as
    /// before.
    pub fn join(
        &mut self,
        id: DeliveryId,
        session: Arc<Session<T>>,
        now_ns: u64,
    ) -> Result<bool, AdmitError> {
        self.inside(|engine| {
            let classes = engine.units().disks().classes();
            let decision = Decision { sessions: &engine.sessions, classes: &classes, now_ns };
            let Some(delivery) = engine.deliveries.get_mut(id.0) else { return Ok(false) };
            let joined = delivery.join(&decision, session);
            if let Err(refusal) = &joined {
                engine.counters.not_admitted(refusal);
            }
            joined
        })
    }

    /// Has a delivery continue in a class without deadlines.
    pub fn release_deadlines(&mut self, id: DeliveryId, class: Class) {
        if let Some(delivery) = self.deliveries.get_mut(id.0) {
            delivery.release_deadlines(class);
        }
    }

    /// Begins a delivery. Nothing is read before [`Engine::fill`]. Nor before the start of its
    /// session, if that is later: then an [`Event::Ready`] follows at that time.
    pub fn open(&mut self, delivery: NewDelivery<T>, now_ns: u64) -> DeliveryId {
        self.inside(|engine| {
            let start_ns = delivery.policy.start_ns;
            let client = match delivery.path {
                NetworkPath::Uplink { client, .. } => Some(client),
                NetworkPath::Local => None,
            };
            let has_clients = engine.uplink.is_some();
            let path = if has_clients { delivery.path } else { NetworkPath::Local };
            let delivery = NewDelivery { path, ..delivery };
            let delivery = |token| Delivery::new(delivery, (client, has_clients), token, now_ns);
            let id = DeliveryId(engine.deliveries.insert_with(delivery));
            if start_ns > now_ns {
                engine.later.insert((start_ns, id));
            }
            id
        })
    }

    /// The body of a delivery is still being made. When all of it was sent, the delivery waits
    /// ([`Readiness::Waiting`]) for [`Engine::append`] or [`Engine::complete`].
    pub fn stay_open(&mut self, id: DeliveryId) {
        if let Some(delivery) = self.deliveries.get_mut(id.0) {
            delivery.reader.stay_open();
        }
    }

    /// More of a body that is still being made, all of which is due at the same time, or at none.
    /// Nothing of the body is to be unsent, or it becomes due then, too.
    pub fn append(&mut self, id: DeliveryId, more: Body, class: Class, due_ns: Option<u64>) {
        self.inside(|engine| {
            let Some(delivery) = engine.deliveries.get_mut(id.0) else { return };
            let is_other_class = delivery.class != class;
            delivery.append(more, class, due_ns);
            if is_other_class {
                // What it was granted is of the former class.
                engine.give_grant_back(id);
            }
        });
    }

    /// All of a body was made.
    pub fn complete(&mut self, id: DeliveryId) {
        if let Some(delivery) = self.deliveries.get_mut(id.0) {
            delivery.reader.complete();
        }
    }

    /// Requests what a delivery needs next, as far as memory allows, and asks the uplink for it;
    /// `None` if it has ended.
    pub fn fill(&mut self, id: DeliveryId, now_ns: u64) -> Option<Readiness> {
        self.inside(|engine| {
            if engine.deliveries.get(id.0)?.start_ns > now_ns {
                return Some(Readiness::Waiting);
            }
            let state = engine.fill_reader(id, now_ns)?;
            engine.settle(now_ns);
            Some(match state {
                ReaderState::Ready if engine.may_send(id, now_ns) => Readiness::Ready,
                ReaderState::Ready | ReaderState::AwaitUnits | ReaderState::AwaitMemory => Readiness::Waiting,
                ReaderState::Done => Readiness::Done,
            })
        })
    }

    /// The chunks of a delivery that can be sent now, in order, within the limits of one send.
    pub fn chunks(&self, id: DeliveryId) -> Vec<Chunk> {
        let chunks = |delivery: &Delivery<T>| delivery.reader.chunks(delivery.sendable_bytes());
        self.deliveries.get(id.0).map_or_else(Vec::new, chunks)
    }

    /// Bytes of a delivery that [`Engine::release_sent`] has not released yet.
    pub fn unsent_bytes(&self, id: DeliveryId) -> u64 {
        self.deliveries.get(id.0).map_or(0, |delivery| delivery.reader.unsent_bytes())
    }

    /// Reports that the client took `bytes` of the chunks.
    pub fn taken(&mut self, id: DeliveryId, bytes: u64, now_ns: u64) {
        self.release_sent(id, bytes);
        self.count_taken(id, bytes, now_ns);
    }

    /// Releases `bytes` of the chunks without counting them as taken. The front end has copied
    /// them, as TLS does. It calls [`Engine::count_taken`] when the client takes the copy.
    pub fn release_sent(&mut self, id: DeliveryId, bytes: u64) {
        self.inside(|engine| {
            if let Some(delivery) = engine.deliveries.get_mut(id.0) {
                delivery.spend(bytes, &engine.counters);
            }
        })
    }

    /// Reports that the client took `bytes` that were released before.
    pub fn count_taken(&mut self, id: DeliveryId, bytes: u64, now_ns: u64) {
        self.inside(|engine| {
            let classes = engine.units().disks().classes();
            let decision = Decision { sessions: &engine.sessions, classes: &classes, now_ns };
            let Some(delivery) = engine.deliveries.get_mut(id.0) else { return };
            delivery.taken(bytes, now_ns);
            delivery.follow(&decision, &engine.counters);
            engine.counters.sent(engine.front_end, delivery.class, bytes);
        })
    }

    /// Reports that the client took something or may take more: it is not blocked.
    pub fn progressed(&mut self, id: DeliveryId, now_ns: u64) {
        if let Some(delivery) = self.deliveries.get_mut(id.0) {
            delivery.progressed_ns = now_ns;
        }
    }

    /// Reports whether the client takes nothing at the moment. Its buffers may then be given to
    /// other deliveries that wait.
    pub fn set_blocked(&mut self, id: DeliveryId, is_blocked: bool, now_ns: u64) {
        self.inside(|engine| {
            let Some(delivery) = engine.deliveries.get_mut(id.0) else { return };
            delivery.is_blocked = is_blocked;
            if !is_blocked {
                return;
            }
            if delivery.reader.has_long_run() {
                engine.watch_runs(now_ns);
            }
            engine.give_grant_back(id);
        })
    }

    /// The place of a delivery in the order of processing; `None` if it has ended.
    pub fn order(&self, id: DeliveryId) -> Option<DeliveryOrder> {
        let delivery = self.deliveries.get(id.0)?;
        Some(match delivery.reader.urgency() {
            Urgency::Due(due_ns) => DeliveryOrder::Due(due_ns),
            Urgency::Waited => DeliveryOrder::Interactive,
            Urgency::Unhurried if delivery.is_transfer() => DeliveryOrder::Background,
            Urgency::Unhurried => DeliveryOrder::Interactive,
        })
    }

    /// When the byte at `offset` of a delivery's body is due in memory; `None` if it has no
    /// deadline.
    pub fn due_ns(&self, id: DeliveryId, offset: u64) -> Option<u64> {
        self.deliveries.get(id.0)?.reader.due_ns(offset)
    }

    /// The session whose start a delivery waits for: nothing of it is read or sent before.
    pub fn awaits_start_of(&self, id: DeliveryId, now_ns: u64) -> Option<Arc<Session<T>>> {
        self.deliveries.get(id.0)?.awaits_start_of(now_ns)
    }

    /// The present class of a delivery's reads.
    pub fn class(&self, id: DeliveryId) -> Option<Class> {
        self.deliveries.get(id.0).map(|delivery| delivery.class)
    }

    /// Ends a delivery; `None` if it had ended.
    pub fn close(&mut self, id: DeliveryId) -> Option<DeliveryReport> {
        self.inside(|engine| {
            engine.give_grant_back(id);
            let delivery = engine.deliveries.remove(id.0)?;
            engine.later.remove(&(delivery.start_ns, id));
            engine.later.remove(&(delivery.run.until_ns(), id));
            if let Some(pacer) = &delivery.pacer {
                engine.later.remove(&(pacer.next_ns(), id));
            }
            if let Some(position) = delivery.waiting {
                engine.waiting.remove(&position);
            }
            Some(delivery.report())
        })
    }

    /// Takes an arrival from a disk or another thread.
    pub fn arrived(&mut self, arrival: Arrival, now_ns: u64) {
        self.inside(|engine| {
            if let Some(fetched) = engine.fetcher.arrived(arrival, now_ns) {
                engine.unit_joined(&fetched, now_ns);
            }
            engine.settle(now_ns);
        })
    }

    /// Continues all deliveries that wait for buffers. Call it after each batch of arrivals and
    /// sends.
    pub fn turn(&mut self, now_ns: u64) {
        self.inside(|engine| {
            engine.fetcher.retry(now_ns);
            engine.settle(now_ns);
            engine.serve_waiting(now_ns);
            // Buffers also become free on other threads, without a message, so this is checked
            // again soon.
            if engine.is_waiting() {
                engine.watch_pressure(now_ns);
            }
        })
    }

    /// When [`Engine::tick`] has something to do next; `None` if nothing is planned.
    pub fn next_tick_ns(&self) -> Option<u64> {
        let later_ns = self.later.first().map(|(later_ns, _)| *later_ns);
        let timers = [
            self.fetcher.next_due_ns(),
            self.prefetch_ns,
            self.pressure_ns,
            self.runs_ns,
            self.uplink_ns,
            later_ns,
        ];
        timers.into_iter().flatten().min()
    }

    /// Does all work that is due: hedged reads, read-ahead, taking buffers back, collecting grants
    /// of the uplink, and continuing deliveries that waited for their start or their next train.
    pub fn tick(&mut self, now_ns: u64) {
        self.inside(|engine| {
            let is_due = |at_ns: &mut Option<u64>| at_ns.take_if(|at_ns| *at_ns <= now_ns).is_some();
            if engine.fetcher.next_due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
                engine.fetcher.overdue(now_ns);
            }
            if is_due(&mut engine.pressure_ns) {
                engine.relieve_pressure(now_ns);
            }
            if is_due(&mut engine.prefetch_ns) {
                engine.prefetcher.turn(&mut engine.fetcher, now_ns);
                if !engine.prefetcher.is_empty() {
                    engine.prefetch_ns = Some(now_ns + PREFETCH_EVERY_NS);
                }
            }
            if is_due(&mut engine.runs_ns) {
                engine.end_untaken_runs(now_ns);
            }
            if is_due(&mut engine.uplink_ns) {
                engine.collect_grants(now_ns);
            }
            while let Some(&(later_ns, id)) = engine.later.first()
                && later_ns <= now_ns
            {
                engine.later.pop_first();
                if let Some(delivery) = engine.deliveries.get_mut(id.0) {
                    delivery.progressed_ns = now_ns;
                    engine.events.push_back(Event::Ready(delivery.tag));
                }
            }
            engine.settle(now_ns);
        })
    }

    /// Ends all deliveries of a front end's identifier, after a panic of the front end.
    pub fn close_tagged(&mut self, tag: u64) {
        for token in self.deliveries.tokens(|delivery| delivery.tag == tag) {
            self.close(DeliveryId(token));
        }
    }

    /// Whether every call has ended. If one has panicked instead, the engine may be half changed,
    /// and can only be dropped.
    pub fn is_sound(&self) -> bool {
        self.depth == 0
    }

    /// The next event; `None` if there is none now.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether a delivery of any thread waits for buffers that other deliveries could give back.
    pub fn is_pressed(&self) -> bool {
        self.fetcher.has_waiting_fetches() || self.units().budget().is_helped_by(false)
    }

    /// Number of open deliveries.
    pub fn len(&self) -> usize {
        self.deliveries.len()
    }

    /// Whether no delivery is open.
    pub fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Number of reads under way. If the engine ends before them, deliveries of other threads that
    /// wait for them never continue.
    pub fn reads_in_flight(&self) -> usize {
        self.fetcher.in_flight()
    }

    /// Number of segments that were read ahead so far.
    pub fn prefetched(&self) -> u64 {
        self.prefetcher.started
    }

    /// Does the work of one call. A panic leaves the engine marked as not sound.
    fn inside<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Processes the arrivals that this thread has queued for itself.
    fn settle(&mut self, now_ns: u64) {
        while let Some(arrival) = self.fetcher.next_own() {
            if let Some(fetched) = self.fetcher.arrived(arrival, now_ns) {
                self.unit_joined(&fetched, now_ns);
            }
        }
    }

    /// A unit that a delivery or the read-ahead waits for has come, or cannot come.
    fn unit_joined(&mut self, fetched: &Fetched, now_ns: u64) {
        if Prefetcher::is_for_prefetch(fetched.connection) {
            return self.prefetcher.fetched(fetched);
        }
        let kind = |class| self.fetcher.units().disks().classes().kind(class);
        let late = fetched.late.filter(|late| kind(late.class) == Kind::Periodic);
        let Some(delivery) = self.deliveries.get_mut(fetched.connection) else { return };
        if let (Some(session), Some(late)) = (delivery.session(), late) {
            self.counters.late.note(LateViewer::of(session, late, now_ns));
        }
        match delivery.reader.fetched(fetched) {
            Ok(_) => self.events.push_back(Event::Unit(delivery.tag, fetched.key)),
            // Several units can be lost before the front end ends the delivery. It ends once.
            Err(_) if std::mem::replace(&mut delivery.is_lost, true) => {}
            Err(error) => {
                self.counters.lost_bytes.fetch_add(1, Ordering::Relaxed);
                self.events.push_back(Event::Lost(delivery.tag, error));
            }
        }
    }

    /// Has a delivery continue as one of the class that its session has now.
    fn follow_class(&mut self, id: DeliveryId, now_ns: u64) {
        let Some(delivery) = self.deliveries.get_mut(id.0) else { return };
        let Some(had) = delivery.former_class() else { return };
        let classes = self.fetcher.units().disks().classes();
        let decision = Decision { sessions: &self.sessions, classes: &classes, now_ns };
        delivery.change_class(&decision, &self.counters, had);
        // What it was granted or waits for is of the former class.
        self.give_grant_back(id);
    }

    /// Has a delivery ask for what it needs next, and keeps its position among those that wait for
    /// buffers.
    fn fill_reader(&mut self, id: DeliveryId, now_ns: u64) -> Option<ReaderState> {
        self.follow_class(id, now_ns);
        let delivery = self.deliveries.get_mut(id.0)?;
        self.fetcher.compute_parity(!self.sessions.is_roomy());
        let state = delivery.reader.fill(&mut self.fetcher, now_ns);
        let position = delivery.reader.queue_position();
        let before = std::mem::replace(&mut delivery.waiting, position);
        // Its position here must change with its position in the queue; otherwise the two orders
        // differ one day and all wait for ever.
        if before != position {
            before.and_then(|before| self.waiting.remove(&before));
            position.and_then(|position| self.waiting.insert(position, id));
        }
        Some(state)
    }
}
