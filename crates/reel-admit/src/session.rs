//! QoS contexts: one open instance of a title by one client (Prism, section 4.2).
//!
//! The key is the session's name in every URL, so unmodified players carry their class in plain
//! requests.

use crate::admission::Admission;
use crate::allowance::Allowance;
use crate::choices::Choices;
use crate::client::Client;
use crate::former::FormerSession;
use crate::kept::{KeptSession, PlayingAt};
use crate::limits::{BELOW_SEGMENTS, DISPLACED_ASKS_NS, LATE_TOLERATED_NS, START_BOUND_NS};
use crate::played::{Played, PlayedBy};
use crate::schedule::{Continuity, Schedule, TrackSpan};
use reel_cache::{PromisedBuffers, SessionKey};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, Demand, ReservationId, Sender};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// One open instance of a title by one client; `T` is what it plays.
#[derive(Debug)]
pub struct Session<T> {
    pub(crate) key: SessionKey,
    pub(crate) title_id: String,
    pub(crate) client: Client,
    /// The client in whose share its reservation counts; `None` if that has no share.
    pub(crate) sharer: Option<Client>,
    /// The class of its reads: its place in the table of classes. It changes while the state is
    /// locked.
    class: AtomicUsize,
    front_end: usize,
    /// Where its client is while its class has no deadlines: up to this media time it has requested
    /// or taken the title. With deadlines, the schedule says more.
    at_ns: AtomicU64,
    /// Whether its client plays the title as one file.
    is_file: AtomicBool,
    opened_ns: u64,
    /// When it was last requested something, or sent something.
    used_ns: AtomicU64,
    /// When it was last requested something.
    asked_ns: AtomicU64,
    sent_bytes: AtomicU64,
    requests: AtomicU64,
    playing: Arc<T>,
    played: Played,
    /// Held by each response that is under way.
    answers: Arc<()>,
    /// The edition of its title, if it can be opened again after its client was silent.
    edition: OnceLock<String>,
    /// The best choice that was offered; `None` if nothing was promised.
    offered: Option<usize>,
    /// The media memory that is promised to it, as long as it has a reservation.
    memory: Option<Arc<PromisedBuffers>>,
    state: Mutex<SessionState>,
}

/// What changes in a session while it plays.
#[derive(Debug)]
pub(crate) struct SessionState {
    pub(crate) schedule: Schedule,
    pub(crate) promise: Option<Promise>,
    pub(crate) allowance: Allowance,
    /// Whether it was closed: a request that is still under way must not reserve anything after
    /// that.
    pub(crate) is_closed: bool,
    /// Whether its client was sent everything to the end, so that nothing is reserved any more.
    pub(crate) is_delivered: bool,
    /// When a client that reads its title as one file in pieces was last found to be off its
    /// schedule while there was no room to move that. It has many requests in a second, and the
    /// ledger is not asked for each.
    pub(crate) stayed_ns: Option<u64>,
    /// The latest request whose response its client has left while that waited for the start.
    pub(crate) left_asked_ns: u64,
    /// Whether it is released like a paused one while no response to it is under way, although it
    /// is sent by the clock.
    pub(crate) needs_answers: bool,
}

impl SessionState {
    /// How `span` continues what was requested before, if it is part of what was promised or the
    /// allowance covers it. A session without allowance that continues from what it had stays on
    /// its schedule.
    pub(crate) fn affords(&mut self, span: &TrackSpan, now_ns: u64) -> Option<Continuity> {
        let Self { schedule, allowance, stayed_ns, .. } = self;
        let asked = stayed_ns.is_some_and(|stayed_ns| now_ns < stayed_ns.saturating_add(DISPLACED_ASKS_NS));
        let continuity = match schedule.continuity(span, now_ns) {
            Continuity::Shifts { .. } if asked && span.is_point() && schedule.may_stay(span, now_ns) => {
                Continuity::OnSchedule
            }
            continuity => continuity,
        };
        if allowance.takes(schedule.beyond_ns(span, continuity), now_ns) {
            return Some(continuity);
        }
        let stays = matches!(continuity, Continuity::Shifts { .. }) && schedule.may_stay(span, now_ns);
        let continuity = Continuity::OnSchedule;
        (stays && allowance.takes(schedule.beyond_ns(span, continuity), now_ns)).then_some(continuity)
    }

    /// The start that was promised when the session was opened, if `span` is the beginning of what
    /// was reserved, and comes soon enough after that start. The reservation must not be later than
    /// the client needs it.
    pub(crate) fn promised_start_ns(&self, span: &TrackSpan, now_ns: u64) -> Option<u64> {
        let promise = self.promise.as_ref().filter(|promise| promise.reservation.is_some())?;
        let is_soon = now_ns.saturating_sub(promise.start_ns) <= LATE_TOLERATED_NS;
        let begins = is_soon && !self.schedule.is_started() && span.from_ns < ROUND_NS;
        begins.then_some(promise.start_ns)
    }

    /// For how long the network is charged with what a start or a seek to `span` begins with. The
    /// segments that are shown at a seek are charged over the time of the next ones.
    pub(crate) fn begin_time_ns(&self, span: &TrackSpan) -> u64 {
        let rounds = self.promise.as_ref().map_or(0, |promise| promise.demand().segment_rounds() as u64);
        let is_seek = span.until_ns > rounds * ROUND_NS;
        if is_seek { (rounds * ROUND_NS).max(START_BOUND_NS) } else { START_BOUND_NS }
    }

    /// When the first segment is to be at the client, if it is sent as slowly as it is shown.
    pub(crate) fn spread_until_ns(&self, now_ns: u64) -> Option<u64> {
        let promise = self.promise.as_ref().filter(|promise| promise.reservation.is_some())?;
        (promise.is_spread && now_ns < promise.start_ns).then_some(promise.start_ns)
    }

    /// When the client may play: now, or later if it waits for its start.
    pub(crate) fn start_ns(&self, now_ns: u64) -> u64 {
        self.promise.as_ref().map_or(now_ns, |promise| promise.start_ns.max(now_ns))
    }

    /// Whether something is reserved, but nothing was requested yet.
    pub(crate) fn is_unstarted(&self) -> bool {
        let is_reserved = self.promise.as_ref().is_some_and(|promise| promise.reservation.is_some());
        is_reserved && !self.schedule.is_started()
    }

    /// What was reserved, which is to be released.
    pub(crate) fn take_reservation(&mut self) -> Option<ReservationId> {
        let promise = self.promise.as_mut()?;
        (promise.has_ended, promise.displaced_ns) = (false, None);
        promise.reservation.take()
    }
}

/// What a session was promised.
#[derive(Debug)]
pub(crate) struct Promise {
    /// What the title offers; a session may be promised any of its choices.
    pub(crate) offers: Choices,
    /// The choice that is or was reserved.
    pub(crate) choice: usize,
    /// Held while the client plays; a paused client has none.
    pub(crate) reservation: Option<ReservationId>,
    /// When the client may begin to play: when the session was opened or moved, or later if there
    /// was no room. Nothing is sent before that, since a player that begins earlier than its
    /// schedule would need what follows earlier, too.
    pub(crate) start_ns: u64,
    /// Whether the first segment is sent from the opening to the start, and no faster: a player
    /// begins when it has it.
    pub(crate) is_spread: bool,
    /// Whether the reservation came to its end while its client continues with the last part of its
    /// title. The client was late, and reads that part without a reservation.
    pub(crate) has_ended: bool,
    /// When the ledger was last asked for the client's position, if the client is displaced: it has
    /// jumped to a position for which there was no room, so what is reserved is for another one.
    pub(crate) displaced_ns: Option<u64>,
    /// The best of the lower choices that the client took since it last took the reserved one, and
    /// the number of such segments.
    pub(crate) below: Option<(usize, u32)>,
}

/// The state of a session's reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationState {
    /// The session has a reservation.
    Reserved,
    /// The client has jumped to a position for which there was no room. It is sent what no other
    /// session needs until there is room.
    Displaced,
    /// The client is silent, so its reservation was released. Its next request is admitted again.
    Paused,
    /// The client was sent everything to the end, so nothing is reserved any more.
    Delivered,
    /// Nothing was promised to it, because its class has no deadlines or admission is off.
    Unpromised,
}

/// What other parts of the server may know of a session.
#[derive(Clone, Debug)]
pub struct SessionSummary {
    /// Its key.
    pub key: SessionKey,
    /// The title it plays.
    pub title_id: String,
    /// The address that opened it.
    pub client: Client,
    /// Its class.
    pub class: Class,
    /// The state of its reservation.
    pub reservation: ReservationState,
    /// The average rate of what is reserved for it, in bits per second.
    pub rate_bps: u64,
    /// Nanoseconds until it may begin to play, while it waits for its start.
    pub starts_in_ns: u64,
    /// The media time that is shown. For a client that is paused or gone, it is at most the end of
    /// what the client requested.
    pub position_ns: u64,
    /// Nanoseconds since it was opened.
    pub age_ns: u64,
    /// Nanoseconds since its last request.
    pub idle_ns: u64,
    /// Media bytes sent.
    pub sent_bytes: u64,
    /// Requests answered.
    pub requests: u64,
}

/// The parts that a session is made of.
pub(crate) struct Opening<'a, T> {
    pub(crate) key: SessionKey,
    pub(crate) title_id: &'a str,
    pub(crate) playing: Arc<T>,
    pub(crate) client: Client,
    pub(crate) sharer: Option<Client>,
    pub(crate) sender: Sender,
    pub(crate) promise: Option<Promise>,
    pub(crate) memory: Option<PromisedBuffers>,
    pub(crate) now_ns: u64,
}

impl<T> Session<T> {
    pub(crate) fn new(opening: Opening<'_, T>) -> Self {
        let Opening { key, title_id, playing, client, sharer, sender, promise, memory, now_ns } = opening;
        Self {
            key,
            title_id: title_id.to_owned(),
            client,
            sharer,
            class: AtomicUsize::new(sender.class.index()),
            front_end: sender.front_end,
            at_ns: AtomicU64::new(0),
            is_file: AtomicBool::new(false),
            opened_ns: now_ns,
            used_ns: AtomicU64::new(now_ns),
            asked_ns: AtomicU64::new(now_ns),
            sent_bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            playing,
            played: Played::default(),
            answers: Arc::default(),
            edition: OnceLock::new(),
            offered: promise.as_ref().map(|promise| promise.choice),
            memory: memory.map(Arc::new),
            state: Mutex::new(SessionState {
                schedule: Schedule::default(),
                promise,
                allowance: Allowance::new(now_ns),
                is_closed: false,
                is_delivered: false,
                stayed_ns: None,
                left_asked_ns: 0,
                needs_answers: false,
            }),
        }
    }

    /// Its name in URLs.
    pub fn key(&self) -> SessionKey {
        self.key
    }

    /// The class of its reads.
    pub fn class(&self) -> Class {
        // It was a class before it was stored.
        Class::new(self.class.load(Ordering::Relaxed)).unwrap_or(Class::APERIODIC)
    }

    /// The class of its reads, and the front end that sends to it.
    pub(crate) fn sender(&self) -> Sender {
        Sender { class: self.class(), front_end: self.front_end }
    }

    /// Its class from now on. The caller has locked the state.
    pub(crate) fn set_class(&self, class: Class) {
        self.class.store(class.index(), Ordering::Relaxed);
    }

    /// Its client plays the title as one file, or by segments.
    pub fn plays_as_file(&self, is_file: bool) {
        self.is_file.store(is_file, Ordering::Relaxed);
    }

    /// Whether its client plays the title as one file.
    pub fn is_file(&self) -> bool {
        self.is_file.load(Ordering::Relaxed)
    }

    /// Its client, whose class has no deadlines, is at this media time of the title. If the session
    /// changes to a class with deadlines, that is where it begins.
    pub fn is_at(&self, media_ns: u64) {
        self.at_ns.store(media_ns, Ordering::Relaxed);
    }

    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns.load(Ordering::Relaxed)
    }

    /// The id of the title it plays.
    pub fn title_id(&self) -> &str {
        &self.title_id
    }

    /// Who opened it.
    pub fn client(&self) -> Client {
        self.client
    }

    /// What it plays.
    pub fn playing(&self) -> &Arc<T> {
        &self.playing
    }

    /// The best of the title's choices that the session was offered. Its playlists show this choice
    /// and those after it. `None` if nothing was promised and all choices are shown.
    pub fn offered(&self) -> Option<usize> {
        self.offered
    }

    /// The media memory that its readers share as its reservation; `None` where no memory is
    /// promised to sessions ([`crate::Sessions::reading`]).
    pub fn memory(&self) -> Option<Arc<PromisedBuffers>> {
        self.memory.clone()
    }

    /// Promises the session the memory that belongs to its reservation now, in buffers of
    /// `buffer_bytes` bytes.
    pub(crate) fn settle_memory(&self, state: &SessionState, buffer_bytes: u64) {
        let reserved = state.promise.as_ref().filter(|promise| promise.reservation.is_some());
        if let Some(memory) = &self.memory {
            let buffers = reserved.map_or(0, |promise| promise.demand().held_bytes().div_ceil(buffer_bytes));
            memory.set(usize::try_from(buffers).unwrap_or(usize::MAX));
        }
    }

    /// A response with the title as one file begins. The reservation serves the newest of them.
    pub fn plays_from(&self) -> PlayedBy {
        self.played.begins()
    }

    /// Lets the session be opened again by its key after its client was silent for too long
    /// ([`crate::Sessions::former`]). `edition` names the bytes of its title.
    pub fn may_return_to(&self, edition: String) {
        // The edition of a session never changes.
        let _ = self.edition.set(edition);
    }

    /// What is remembered of it when it ends.
    pub(crate) fn former(&self) -> Option<FormerSession> {
        let edition = self.edition.get()?.clone();
        let (title_id, class, client) = (self.title_id.clone(), self.class(), self.client);
        Some(FormerSession { title_id, edition, class, client })
    }

    /// What is kept of it over a restart; `None` if it cannot be opened again.
    pub(crate) fn kept(
        &self,
        admission: &Admission,
        is_file: impl Fn(&T, &Choices) -> bool,
        now_ns: u64,
    ) -> Option<KeptSession> {
        let (former, state) = (self.former()?, self.state());
        let promise = state.promise.as_ref().filter(|_| state.schedule.is_started());
        let playing = promise.and_then(|promise| {
            Some(PlayingAt {
                as_file: is_file(&self.playing, &promise.offers),
                media_ns: state.schedule.position_ns(now_ns),
                until_ns: state.schedule.until_ns(),
                choice: promise.choice,
                epoch: admission.epoch_of(promise.reservation?),
            })
        });
        Some(KeptSession { key: self.key, former, playing })
    }

    /// A response begins. It is under way as long as what is returned is held.
    pub fn answers(&self) -> Arc<()> {
        Arc::clone(&self.answers)
    }

    /// It is sent by the clock, and only while its client has a response: without one, it is
    /// released like that of a client that pauses. It continues with
    /// [`Sessions::push`](crate::Sessions::push).
    pub fn needs_answers(&self) {
        self.state().needs_answers = true;
    }

    /// Whether the client was sent everything to the end of its title.
    pub(crate) fn has_delivered(&self, state: &SessionState) -> bool {
        state.schedule.is_complete() && !self.has_answers()
    }

    /// Whether a response is under way.
    pub(crate) fn has_answers(&self) -> bool {
        Arc::strong_count(&self.answers) > 1
    }

    /// Counts media bytes sent, and keeps the session from becoming idle while it is being sent to.
    pub fn sent(&self, bytes: u64, now_ns: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.used_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Its client requests something in it.
    pub fn touch(&self, now_ns: u64) {
        self.asks(now_ns);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Its client requests something.
    pub(crate) fn asks(&self, now_ns: u64) {
        self.used_ns.fetch_max(now_ns, Ordering::Relaxed);
        self.asked_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    pub(crate) fn asked_ns(&self) -> u64 {
        self.asked_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn used_ns(&self) -> u64 {
        self.used_ns.load(Ordering::Relaxed)
    }

    /// When its client may begin to play: `now_ns`, or later if there was no room.
    pub fn start_ns(&self, now_ns: u64) -> u64 {
        self.state().start_ns(now_ns)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        // A panic elsewhere leaves a reservation that the next tick cleans up.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What other parts of the server may know of it.
    pub fn summary(&self, now_ns: u64) -> SessionSummary {
        let state = self.state();
        let (reservation, rate_bps) = match &state.promise {
            None => (ReservationState::Unpromised, 0),
            Some(promise) if promise.displaced_ns.is_some() => (ReservationState::Displaced, 0),
            Some(promise) if promise.reservation.is_none() && state.is_delivered => {
                (ReservationState::Delivered, 0)
            }
            Some(promise) if promise.reservation.is_none() => (ReservationState::Paused, 0),
            Some(promise) => (ReservationState::Reserved, promise.demand().average_bps()),
        };
        SessionSummary {
            key: self.key,
            title_id: self.title_id.clone(),
            client: self.client,
            class: self.class(),
            reservation,
            rate_bps,
            starts_in_ns: state.start_ns(now_ns) - now_ns,
            position_ns: state.schedule.shown_ns(now_ns),
            age_ns: now_ns.saturating_sub(self.opened_ns),
            idle_ns: now_ns.saturating_sub(self.used_ns()),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }
}

impl Promise {
    pub(crate) fn new(offers: Choices, choice: usize, reservation: ReservationId, start_ns: u64) -> Self {
        Self {
            offers,
            choice,
            reservation: Some(reservation),
            start_ns,
            is_spread: false,
            has_ended: false,
            displaced_ns: None,
            below: None,
        }
    }

    /// The first segment is sent from now on, and media begins to be played so many rounds later.
    pub(crate) fn spread(
        offers: Choices,
        choice: usize,
        reservation: ReservationId,
        rounds: u64,
        now_ns: u64,
    ) -> Self {
        let start_ns = (now_ns / ROUND_NS + rounds) * ROUND_NS;
        Self { is_spread: true, ..Self::new(offers, choice, reservation, start_ns) }
    }

    /// Whether the session continues with what it was promised, although that may have ended.
    pub(crate) fn is_on(&self) -> bool {
        self.reservation.is_some() || self.has_ended || self.displaced_ns.is_some()
    }

    /// The demand of the reserved choice.
    pub(crate) fn demand(&self) -> &Arc<Demand> {
        // In range: a choice is made from the offers only.
        &self.offers.demands[self.choice]
    }

    /// Notes a segment of `choice`; returns the choice to reserve from here on, if it is another
    /// one.
    pub(crate) fn takes(&mut self, choice: usize) -> Option<usize> {
        if choice <= self.choice {
            self.below = None;
            return (choice < self.choice).then_some(choice);
        }
        let (best, count) = self.below.map_or((choice, 0), |(best, count)| (best.min(choice), count));
        self.below = Some((best, count + 1));
        (count + 1 >= BELOW_SEGMENTS).then(|| {
            self.below = None;
            best
        })
    }
}
