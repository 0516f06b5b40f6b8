//! The reads of one core: from a requested unit to the members and back.
//!
//! ```text
//!   request --> table: in memory | joined | to be read --> own member ----------------> finish
//!                                                  lost, wrong, stalled or late |         ^
//!                                                                               v         |
//!                                      others of the stripe, through the same table --> decode
//! ```
//! The units that another unit is computed from are read like any unit: once, shared with every
//! reader that requests them.

mod late;
mod owed;

use crate::arrival::{Arrival, DiskReplies, Inbox, Outbox};
use crate::budget::Reservation;
use crate::flight::{FETCH_BITS, Flight, Source};
use crate::unit::{Fetched, UnitKey, UnitWant};
use crate::units::{Decoder, Lookup, Units, Waiter};
use owed::WithDisks;
use reel_arena::Buffer;
use reel_disk::{DiskDone, DiskError, DiskWork, Reply, Requester};
use reel_qos::Class;
use reel_volume::{UnitFetch, UnitRead, UnitRows, UnitStep, VolumeError};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The reads of one core.
pub struct Fetcher {
    units: Units,
    /// The core requests on behalf of its connections.
    requester: Requester,
    replies: Arc<dyn Reply>,
    outbox: Outbox,
    reads: HashMap<u64, InFlight>,
    next_read: u64,
    /// Fetches that found no buffers, in order. Each is started as a whole or not at all.
    waiting: VecDeque<WaitingFetches>,
    with_disks: WithDisks,
    /// When to read around which read if it has not been answered by then.
    due: BTreeSet<(u64, u64)>,
    /// When to check next whether a member lags behind the others.
    lag_check_ns: u64,
    /// Parity is computed rather than read.
    computes_parity: bool,
}

struct InFlight {
    key: UnitKey,
    read: UnitRead,
    flight: Arc<Flight>,
    /// Set for a read that the table does not know of.
    private_to: Option<Waiter>,
    /// The requests to other units through the table, by the index of the fetch.
    sources: HashMap<usize, (UnitFetch, Arc<Source>)>,
    due_ns: Option<u64>,
    /// The read was not answered in time.
    is_late: bool,
    /// Set while its own member and the other members are asked at once.
    hedge: Option<Hedge>,
    /// The reservation that covers its buffers.
    reservation: Option<Arc<Reservation>>,
}

/// A read that is read around: the right to do so, and its memory.
struct Hedge {
    member: usize,
    /// `None` for a read whose viewers have reserved the memory it takes.
    reservation: Option<Arc<Reservation>>,
}

/// Fetches that wait for memory.
struct WaitingFetches {
    id: u64,
    fetches: Vec<UnitFetch>,
    /// Single units from their own members. Otherwise the other units of a stripe, through the
    /// table.
    plain: bool,
}

impl Fetcher {
    /// A fetcher whose arrivals go to `inbox`. The inbox must bring them to [`Fetcher::arrived`] on
    /// this thread.
    pub fn new(units: Units, inbox: Arc<dyn Inbox>) -> Self {
        let with_disks = WithDisks::new(units.disks().members());
        Self {
            units,
            requester: Requester::new(),
            replies: Arc::new(DiskReplies(Arc::clone(&inbox))),
            outbox: Outbox::new(inbox),
            reads: HashMap::new(),
            next_read: 0,
            waiting: VecDeque::new(),
            with_disks,
            due: BTreeSet::new(),
            lag_check_ns: 0,
            computes_parity: false,
        }
    }

    /// The table this fetcher fills.
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// From now on, parity that is to be sent is computed from its data rather than read, wherever
    /// that data is in memory or on its way: disks are short, and processors are not.
    pub fn compute_parity(&mut self, computes_parity: bool) {
        self.computes_parity = computes_parity;
    }

    /// The rows if they are in memory. Otherwise they are fetched, and announced to `connection` as
    /// [`Fetched`].
    pub fn request(&mut self, want: &UnitWant, connection: u64, now_ns: u64) -> Option<UnitRows> {
        self.request_stripe(std::slice::from_ref(want), connection, None, now_ns).pop().flatten()
    }

    /// Like [`Fetcher::request`], for all requested units of one stripe. If one of them has to be
    /// computed, the units it is computed from are read once, as far as that needs them. The
    /// buffers stay reserved by `reservation` until the reads are answered.
    pub(crate) fn request_stripe(
        &mut self,
        wants: &[UnitWant],
        connection: u64,
        reservation: Option<&Arc<Reservation>>,
        now_ns: u64,
    ) -> Vec<Option<UnitRows>> {
        let bypass = self.units.bypass();
        bypass.unmark_slow(now_ns);
        let is_bypassed =
            |want: &UnitWant| bypass.is_bypassed(want.map.unit_at(want.stripe, want.position).0);
        let rows = wants.iter().any(is_bypassed).then(|| {
            let first = wants.iter().map(|want| want.rows.start).min().unwrap_or(0);
            first..wants.iter().map(|want| want.rows.end).max().unwrap_or(0)
        });
        let widened = wants
            .iter()
            .map(|want| UnitWant { rows: rows.clone().unwrap_or_else(|| want.rows.clone()), ..want.clone() });
        // Units that are computed come last: then they find the reads of the others under way.
        let mut got: Vec<Option<UnitRows>> = vec![None; wants.len()];
        let (last, first): (Vec<_>, Vec<_>) = widened.enumerate().partition(|(_, want)| is_bypassed(want));
        for (place, want) in first.into_iter().chain(last) {
            got[place] = self.request_unit(&want, connection, reservation, now_ns);
        }
        got
    }

    /// Takes an arrival. A unit is returned to the caller, for the connection that waits for it.
    pub fn arrived(&mut self, arrival: Arrival, now_ns: u64) -> Option<Fetched> {
        match arrival {
            Arrival::Unit(fetched) => return Some(fetched),
            Arrival::Disk(done) => self.disk_done(done, now_ns),
            Arrival::Source { read, fetch } => self.source_arrived(read, fetch, now_ns),
            Arrival::Raised { read } => self.set_due(read, now_ns),
        }
        None
    }

    /// The next arrival that this thread made for itself. Every call of this fetcher may make some.
    /// The caller gives each of them to [`Fetcher::arrived`] until there are none.
    pub fn next_own(&mut self) -> Option<Arrival> {
        self.outbox.pop()
    }

    /// Takes the answer of a member.
    fn disk_done(&mut self, done: DiskDone, now_ns: u64) {
        if let Some(member) = self.with_disks.answered(done.token) {
            match done.result {
                Err(DiskError::Withdrawn) => {
                    self.units.counters().withdrawn.fetch_add(1, Ordering::Relaxed);
                    self.units.bypass().withdrawn(member);
                }
                _ => self.units.bypass().answered(member, now_ns),
            }
        }
        let (id, index) = (done.token >> FETCH_BITS, done.token & ((1 << FETCH_BITS) - 1));
        let Some(flight) = self.reads.get_mut(&id) else { return };
        flight.flight.answered(done.token);
        let answer = match (done.result, done.buffer) {
            (Ok(()), Some(buffer)) => Ok(buffer),
            // Every read has a buffer. Without one nothing was read.
            (Ok(()), None) => Err(DiskError::Stopped),
            (Err(error), _) => Err(error),
        };
        let step = flight.read.fetched(index as usize, answer);
        self.continue_read(id, step, now_ns);
    }

    /// Tries again the fetches that found no buffer. It is called once per turn, and is cheap when
    /// no fetch waits.
    pub fn retry(&mut self, now_ns: u64) {
        // A fetch that needs many buffers must not hold up those behind it: their readers may be
        // the ones that hold the memory.
        let mut too_many = usize::MAX;
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else { return };
            let count = waiting.fetches.len();
            let waiting = if count < too_many { self.try_start(waiting, now_ns) } else { Some(waiting) };
            if let Some(waiting) = waiting {
                too_many = too_many.min(count);
                self.waiting.push_back(waiting);
            }
        }
    }

    /// Reads under way. If a core ends before they do, readers on other cores still wait for them.
    pub fn in_flight(&self) -> usize {
        self.reads.len()
    }

    /// Whether a fetch waits for memory.
    pub fn has_waiting_fetches(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn request_unit(
        &mut self,
        want: &UnitWant,
        connection: u64,
        reservation: Option<&Arc<Reservation>>,
        now_ns: u64,
    ) -> Option<UnitRows> {
        let (class, deadline_ns) = (want.class, want.deadline_ns);
        let waiter = Waiter { to: Arc::clone(self.outbox.own()), connection, class, deadline_ns };
        let requester = want.requester.unwrap_or_else(|| self.requester.of(connection));
        let flight = self.new_flight(requester, class, deadline_ns);
        let private_to = match self.units.look_up(want, waiter.clone(), &flight, &mut self.outbox) {
            Lookup::Ready(rows) => return Some(rows),
            Lookup::Joined => return None,
            Lookup::Read(_) => None,
            Lookup::ReadPrivately => Some(waiter),
        };
        let map = Arc::clone(&want.map);
        let mut read = UnitRead::new(map, self.units.health(), want.stripe, want.position, want.rows.clone());
        let member = read.member();
        let stalled = self.units.health().readable(member) && self.units.bypass().is_bypassed(member);
        let hedges = stalled && self.units.bypass().begin(member);
        let fetches = match (hedges, self.is_computed(want)) {
            (true, _) => read.hedged_reads(),
            (false, true) => read.computed_reads(),
            (false, false) => read.reads(),
        };
        let id = self.insert_read(want.key(), read, flight, private_to, reservation.cloned());
        if hedges {
            self.set_hedge(id, Hedge { member, reservation: None });
        }
        self.start(id, fetches, now_ns);
        None
    }

    /// Whether parity is to be computed: all other units of its stripe are in memory or on their
    /// way, so that no member is read for it.
    fn is_computed(&self, want: &UnitWant) -> bool {
        let geometry = want.map.geometry();
        let is_there = |position| {
            let key = UnitKey { position, ..want.key() };
            position == want.position || !self.units.is_to_be_read(key, &want.rows)
        };
        self.computes_parity
            && want.position >= geometry.data_rows()
            && !self.units.is_degraded()
            && (0..geometry.width()).all(is_there)
    }

    fn new_flight(&mut self, requester: Requester, class: Class, deadline_ns: u64) -> Arc<Flight> {
        let id = self.next_read;
        self.next_read += 1;
        let answers = (Arc::clone(&self.replies), Arc::clone(self.outbox.own()));
        Flight::new(id, requester, answers, class, deadline_ns)
    }

    fn insert_read(
        &mut self,
        key: UnitKey,
        read: UnitRead,
        flight: Arc<Flight>,
        private_to: Option<Waiter>,
        reservation: Option<Arc<Reservation>>,
    ) -> u64 {
        let id = flight.id();
        let (sources, due_ns, is_late, hedge) = (HashMap::new(), None, false, None);
        let flight = InFlight { key, read, flight, private_to, sources, due_ns, is_late, hedge, reservation };
        self.reads.insert(id, flight);
        id
    }

    /// Does what a read needs next.
    fn continue_read(&mut self, id: u64, step: UnitStep, now_ns: u64) {
        match step {
            UnitStep::Wait => {}
            UnitStep::Fetch(fetches) => self.start(id, fetches, now_ns),
            UnitStep::Ready(rows) => self.finish(id, Ok(rows), now_ns),
            UnitStep::Failed(error) => self.finish(id, Err(Arc::new(error)), now_ns),
        }
    }

    fn start(&mut self, id: u64, fetches: Vec<UnitFetch>, now_ns: u64) {
        let Some(flight) = self.reads.get(&id) else { return };
        let plain = fetches.iter().all(|fetch| fetch.own);
        if !plain && flight.private_to.is_none() && !self.units.begin_decoding(flight.key, &mut self.outbox) {
            // It was requested only to compute another unit, which reads itself what it needs. The
            // table has forgotten it.
            self.forget(id);
            return;
        }
        if let Some(waiting) = self.try_start(WaitingFetches { id, fetches, plain }, now_ns) {
            self.waiting.push_back(waiting);
        }
    }

    /// Starts the whole fetch, or returns it because there is no memory.
    fn try_start(&mut self, waiting: WaitingFetches, now_ns: u64) -> Option<WaitingFetches> {
        let flight = self.reads.get(&waiting.id)?;
        if !waiting.plain {
            return if self.try_gather(waiting.id, &waiting.fetches, now_ns) { None } else { Some(waiting) };
        }
        let sizes: Vec<_> = waiting.fetches.iter().map(|fetch| fetch.bytes).collect();
        let Some(buffers) = self.units.take_buffers(&sizes) else { return Some(waiting) };
        let flight = Arc::clone(&flight.flight);
        for (fetch, buffer) in waiting.fetches.iter().zip(buffers) {
            self.submit(&flight, fetch, buffer, now_ns);
        }
        self.set_due(waiting.id, now_ns);
        None
    }

    /// Asks the table for the other units of a stripe, and reads those that no other core reads.
    /// `false` if there is not enough memory for all of it.
    fn try_gather(&mut self, id: u64, fetches: &[UnitFetch], now_ns: u64) -> bool {
        let Some(flight) = self.reads.get_mut(&id) else { return true };
        let key = |fetch: &UnitFetch| UnitKey { position: fetch.position, ..flight.key };
        let fresh: Vec<bool> =
            fetches.iter().map(|fetch| self.units.is_to_be_read(key(fetch), &fetch.rows)).collect();
        let target_bytes = Some(flight.read.target_bytes()).filter(|&bytes| bytes > 0);
        let read_bytes =
            fetches.iter().zip(&fresh).filter(|(_, fresh)| **fresh).map(|(fetch, _)| fetch.bytes);
        let sizes: Vec<usize> = target_bytes.into_iter().chain(read_bytes).collect();
        let Some(buffers) = self.units.take_buffers(&sizes) else { return false };
        let mut buffers = buffers.into_iter();
        if target_bytes.is_some()
            && let Some(buffer) = buffers.next()
        {
            flight.read.give_target(buffer);
        }
        for (fetch, fresh) in fetches.iter().zip(fresh) {
            let buffer = if fresh { buffers.next() } else { None };
            self.gather(id, fetch, buffer, now_ns);
        }
        true
    }

    /// Asks the table for one other unit of a stripe. `buffer` is given if the unit appeared to
    /// need a read.
    fn gather(&mut self, id: u64, fetch: &UnitFetch, buffer: Option<Buffer>, now_ns: u64) {
        let Some(flight) = self.reads.get(&id) else { return };
        let key = UnitKey { position: fetch.position, ..flight.key };
        let (map, rows) = (Arc::clone(flight.read.map()), fetch.rows.clone());
        let readable = self.units.health().readable(fetch.member);
        let ((class, deadline_ns), requester) = (flight.flight.urgency(), flight.flight.requester());
        let own = self.new_flight(requester, class, deadline_ns);
        let source = Arc::new(Source::default());
        let to = Arc::clone(self.outbox.own());
        let decoder = Decoder { to, read: id, fetch: fetch.index, source: Arc::clone(&source) };
        let found = if readable {
            self.units.look_up_source(key, &rows, decoder, &own, &mut self.outbox)
        } else {
            // The table would compute it from the unit that is to be computed here.
            Lookup::ReadPrivately
        };
        let Some(flight) = self.reads.get_mut(&id) else { return };
        match found {
            Lookup::Ready(rows) => {
                let step = flight.read.shared(fetch.index, rows);
                self.continue_read(id, step, now_ns);
            }
            Lookup::ReadPrivately => self.read_privately(id, fetch.clone(), buffer, now_ns),
            Lookup::Joined => {
                flight.flight.add_source(key);
                flight.sources.insert(fetch.index, (fetch.clone(), source));
            }
            Lookup::Read(own) => {
                flight.flight.add_source(key);
                flight.sources.insert(fetch.index, (fetch.clone(), source));
                let reservation = flight.reservation();
                let read = UnitRead::new(map, self.units.health(), key.stripe, key.position, rows);
                self.read_source(key, read, own, reservation, buffer, now_ns);
            }
        }
    }

    /// Reads a unit that another unit is computed from.
    fn read_source(
        &mut self,
        key: UnitKey,
        mut read: UnitRead,
        flight: Arc<Flight>,
        reservation: Option<Arc<Reservation>>,
        buffer: Option<Buffer>,
        now_ns: u64,
    ) {
        let fetches = read.reads();
        let id = self.insert_read(key, read, Arc::clone(&flight), None, reservation);
        match (&fetches[..], buffer) {
            ([fetch], Some(buffer)) if fetch.own => {
                self.submit(&flight, fetch, buffer, now_ns);
                self.set_due(id, now_ns);
            }
            _ => self.start(id, fetches, now_ns),
        }
    }

    /// Reads rows of another unit for one decoding alone, because the table has none to share.
    fn read_privately(&mut self, id: u64, fetch: UnitFetch, buffer: Option<Buffer>, now_ns: u64) {
        let Some(flight) = self.reads.get(&id) else { return };
        let flight = Arc::clone(&flight.flight);
        match buffer {
            Some(buffer) => self.submit(&flight, &fetch, buffer, now_ns),
            None => {
                let waiting = WaitingFetches { id, fetches: vec![fetch], plain: true };
                if let Some(waiting) = self.try_start(waiting, now_ns) {
                    self.waiting.push_back(waiting);
                }
            }
        }
    }

    /// A unit that another is computed from has come, or the table does not provide it after all.
    fn source_arrived(&mut self, id: u64, index: usize, now_ns: u64) {
        let Some(flight) = self.reads.get_mut(&id) else { return };
        let Some((fetch, source)) = flight.sources.remove(&index) else { return };
        match source.take() {
            Some(rows) => {
                let step = flight.read.shared(index, rows);
                self.continue_read(id, step, now_ns);
            }
            None => self.read_privately(id, fetch, None, now_ns),
        }
    }

    fn submit(&mut self, flight: &Flight, fetch: &UnitFetch, buffer: Buffer, now_ns: u64) {
        let work = DiskWork::Read { offset: fetch.offset, bytes: fetch.bytes, buffer };
        self.units.bypass().submitted(fetch.member, now_ns);
        let reservation = self.reads.get(&flight.id()).and_then(InFlight::reservation);
        self.with_disks.submitted(flight.token(fetch.index), fetch.member, reservation, now_ns);
        flight.submit(self.units.disks(), fetch.member, fetch.index, work);
    }

    fn finish(&mut self, id: u64, result: Result<UnitRows, Arc<VolumeError>>, now_ns: u64) {
        self.note_deadline(id, now_ns);
        let Some((key, private_to)) = self.forget(id) else { return };
        match private_to {
            None => self.units.finish(key, &result, &mut self.outbox, now_ns),
            Some(waiter) => self.units.notify(waiter, key, &result, &mut self.outbox, now_ns),
        }
    }

    /// Ends a read here. Requests that wait at a member are withdrawn. Otherwise a member that is
    /// read around would have more and more outstanding requests for units that are computed by
    /// now. A request that is already in the device only gives its buffer back.
    fn forget(&mut self, id: u64) -> Option<(UnitKey, Option<Waiter>)> {
        let flight = self.reads.remove(&id)?;
        if let Some(due_ns) = flight.due_ns {
            self.due.remove(&(due_ns, id));
        }
        match &flight.hedge {
            Some(hedge) => {
                self.units.bypass().end(hedge.member);
                if let Some(reservation) = &hedge.reservation {
                    self.with_disks.keep_for_unanswered(
                        &flight.flight.requests(),
                        flight.sources.len(),
                        reservation,
                    );
                }
            }
            None if flight.is_late => {}
            None => self.units.bypass().answered_in_time(flight.read.member()),
        }
        flight.flight.withdraw(self.units.disks());
        Some((flight.key, flight.private_to))
    }
}

impl InFlight {
    /// The reservation for a request that is made for it now. A hedged read has its own memory.
    fn reservation(&self) -> Option<Arc<Reservation>> {
        let hedged = self.hedge.as_ref().and_then(|hedge| hedge.reservation.as_ref());
        hedged.or(self.reservation.as_ref()).cloned()
    }
}

impl Drop for Fetcher {
    /// Viewers of other cores may have joined these reads. They must not wait for ever, so they are
    /// told that the reads are given up, and read themselves.
    fn drop(&mut self) {
        let given_up = || VolumeError::Disk { doing: "read a unit".to_owned(), source: DiskError::Withdrawn };
        let reads: Vec<u64> = self.reads.keys().copied().collect();
        for id in reads {
            self.finish(id, Err(Arc::new(given_up())), 0);
        }
        for member in self.with_disks.members() {
            self.units.bypass().withdrawn(member);
        }
    }
}
