//! All sessions, and what was promised to them.
//!
//! Locks are taken in this order, and each may be left out: the table, a session's state, the
//! reservations, the audience.

use crate::address_range::AddressRange;
use crate::admission::{Admission, Exchange, Renewal};
use crate::choices::Choices;
use crate::client::SessionClient;
use crate::former::FormerSession;
use crate::limits::{PAUSE_GRACE_NS, PIECE_COST_NS_MIN, RETRY_AFTER_MAX_S};
use crate::reservations::Applicant;
use crate::schedule::{Continuity, TrackSpan};
use crate::session::{Opening, Session, SessionState, SessionSummary};
use crate::table::Table;
use reel_cache::{Audience, Body, Budget, MediaKind, SessionKey, TrackOfSession, Units};
use reel_qos::{AdmitError, Capacities, Class, ClassTable, DEADLINE_NONE_NS};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bounds of the table, and the resources that can be promised.
#[derive(Clone, Debug)]
pub struct SessionsConfig {
    /// Most sessions at once.
    pub sessions_max: usize,
    /// A session without a request for this long is removed.
    pub idle_max_ns: u64,
    /// The resources that can be promised; `None` promises nothing and refuses nothing.
    pub capacities: Option<Capacities>,
    /// The classes and their shares.
    pub classes: ClassTable,
    /// For how many seconds a start or a seek may wait for which there is no room now; 0 refuses
    /// it at once.
    pub start_wait_s: u64,
}

/// Why a session was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenRefused {
    /// One client address holds too many sessions of a title, or of all titles together.
    #[error(
        "this address already holds {held} sessions, the most of one title or of all that one address may; close some or wait"
    )]
    Client {
        /// How many sessions it holds.
        held: usize,
    },
    /// One client address opened too many sessions that it does not play.
    #[error(
        "this address has opened {held} sessions that it does not play; play or close them, or wait some seconds"
    )]
    Unstarted {
        /// How many such sessions it holds.
        held: usize,
    },
    /// The table is full.
    #[error("all {max} sessions are taken; try again in {retry_after_s} s")]
    Full {
        /// The bound.
        max: usize,
        /// When the least recently used session would be removed.
        retry_after_s: u64,
    },
    /// Its deadlines cannot be promised.
    #[error(transparent)]
    NotAdmitted(#[from] AdmitError),
    /// The system gave no random bytes.
    #[error("the system gave no random bytes for a session key: {0}")]
    NoRandom(String),
}

impl OpenRefused {
    /// After how many seconds a new request makes sense.
    pub fn retry_after_s(&self) -> u64 {
        match self {
            OpenRefused::Full { retry_after_s, .. } => *retry_after_s,
            OpenRefused::NotAdmitted(AdmitError::Refused(refusal)) => {
                // A refusal without a time gets the longest wait, since another session may end
                // before its title does.
                refusal.retry_after_s.unwrap_or(RETRY_AFTER_MAX_S).clamp(1, RETRY_AFTER_MAX_S)
            }
            OpenRefused::NotAdmitted(_) => 10,
            OpenRefused::Unstarted { .. } => PAUSE_GRACE_NS / 1_000_000_000,
            OpenRefused::Client { .. } | OpenRefused::NoRandom(_) => 10,
        }
    }
}

/// What a request for media may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The class of its reads.
    pub class: Class,
    /// When its bytes are due in memory.
    pub due_ns: u64,
    /// Whether this begins a start or a seek, for which the viewer waits.
    pub begins: bool,
    /// Nothing of it may be read or sent before this time: its session waits for its start.
    pub start_ns: u64,
    /// The average rate of what is reserved for its session; `None` if nothing is.
    pub rate_bps: Option<u64>,
}

impl Permit {
    /// The permit of a response whose session was closed meanwhile, or has used up its allowance.
    /// Nothing is promised to such a response, so it may not use what other sessions were promised.
    const UNPROMISED: Self = Self {
        class: Class::APERIODIC,
        due_ns: DEADLINE_NONE_NS,
        begins: false,
        start_ns: 0,
        rate_bps: None,
    };
}

/// All sessions, shared by every thread; `T` is what they play.
#[derive(Debug)]
pub struct Sessions<T> {
    table: Mutex<Table<T>>,
    admission: Admission,
    audience: Audience,
    /// Whether disks have time for sessions that play alone to read units to their ends, so that
    /// other sessions can follow them.
    is_roomy: AtomicBool,
    /// The budget of the memory that is promised to sessions, and the bytes of one of its buffers.
    memory: Option<(Budget, u64)>,
}

impl<T> Sessions<T> {
    /// An empty table.
    pub fn new(config: SessionsConfig) -> Self {
        Self {
            table: Mutex::new(Table::new(config.sessions_max, config.idle_max_ns)),
            admission: Admission::new(config.capacities, config.classes, config.start_wait_s),
            audience: Audience::default(),
            is_roomy: AtomicBool::new(true),
            memory: None,
        }
    }

    /// The same table, in which the shares of one client do not bind the clients in these ranges:
    /// each of them speaks for many viewers, as a reverse proxy does.
    pub fn for_gateways(self, gateways: Vec<AddressRange>) -> Self {
        self.table().gateways = gateways;
        self
    }

    /// The same table, which notifies `audience` of the position of every session.
    pub fn before(self, audience: &Audience) -> Self {
        Self { audience: audience.clone(), ..self }
    }

    /// The same table, which notifies the audience of `units` of the position of every session, and
    /// their budget of the memory that is promised to each session. What lies between sessions that
    /// play the same is kept. The later sessions are charged with that memory and not with the
    /// disks.
    pub fn reading(self, units: &Units) -> Self {
        self.admission.follow_in(units);
        Self { memory: Some((units.budget().clone(), units.buffer_bytes())), ..self.before(units.audience()) }
    }

    /// Opens a session; removes idle ones first.
    ///
    /// `offers` are the demands of the title's choices (renditions), best first. The session is
    /// promised the first choice that fits. If none fits now, the session is promised the first
    /// later start at which one fits, up to [`SessionsConfig::start_wait_s`]: its media waits for
    /// [`Session::start_ns`]. Without offers nothing is promised, which is meant for classes
    /// without deadlines.
    ///
    /// # Errors
    /// [`OpenRefused`] if the client or the table has too many sessions, if none of the offers
    /// fits, or if the system gave no random bytes for the key.
    pub fn open(
        &self,
        title_id: &str,
        playing: Arc<T>,
        offers: impl Into<Choices>,
        client: SessionClient,
        now_ns: u64,
    ) -> Result<Arc<Session<T>>, OpenRefused> {
        let key = SessionKey::random().map_err(OpenRefused::NoRandom)?;
        self.open_as(key, title_id, playing, offers, client, now_ns)
    }

    /// The same with the caller's key: that of a former session, or, since their runs must be
    /// repeatable, one of a simulation. If a session has this key already, it is returned.
    ///
    /// # Errors
    /// [`OpenRefused`] if the client or the table has too many sessions, or if none of the offers
    /// fits.
    pub fn open_as(
        &self,
        key: SessionKey,
        title_id: &str,
        playing: Arc<T>,
        offers: impl Into<Choices>,
        client: SessionClient,
        now_ns: u64,
    ) -> Result<Arc<Session<T>>, OpenRefused> {
        let idle = self.table().remove_idle(now_ns);
        idle.iter().for_each(|session| self.end(session));
        let SessionClient { client, class } = client;
        {
            let table = self.table();
            if let Some(other) = table.get(&key) {
                return Ok(Arc::clone(other));
            }
            table.has_room(client, title_id, now_ns)?;
        }
        // The table is not locked here, since every request of every core needs it. A ladder that
        // is refused takes the ledger some milliseconds.
        let applicant = Applicant { key, class, label: title_id };
        let promise = self.admission.reserve_best(offers.into(), applicant, now_ns)?;
        let memory = self.memory.as_ref().map(|(budget, _)| budget.promise(0));
        let opening = Opening { key, title_id, playing, client, class, promise, memory, now_ns };
        let session = Arc::new(Session::new(opening));
        self.settle_memory(&session, &session.state());
        let mut table = self.table();
        if let Some(other) = table.get(&key).cloned() {
            drop(table);
            self.end(&session);
            return Ok(other);
        }
        // Other sessions may have been opened meanwhile.
        if let Err(refused) = table.has_room(client, title_id, now_ns) {
            drop(table);
            self.end(&session);
            return Err(refused);
        }
        table.insert(&session);
        Ok(session)
    }

    /// The session of a key, marked as used now.
    pub fn touch(&self, key: &SessionKey, now_ns: u64) -> Option<Arc<Session<T>>> {
        let (session, is_idle) = {
            let table = self.table();
            let session = Arc::clone(table.get(key)?);
            let is_idle = table.is_idle(&session, now_ns);
            (session, is_idle)
        };
        if is_idle {
            let expired = self.table().expire(key);
            expired.iter().for_each(|session| self.end(session));
            return None;
        }
        session.touch(now_ns);
        Some(session)
    }

    /// The session that had this key until its client was silent for too long. It can be opened
    /// again with [`Sessions::open_as`].
    pub fn former(&self, key: &SessionKey) -> Option<FormerSession> {
        self.table().former(key).cloned()
    }

    /// Whether the reservation of a session is one of `offers`, the choices of one form of its
    /// title. Also `true` if nothing was promised.
    ///
    /// A client that opens a session need not say in which form it will play the title. Until the
    /// client has requested media, the reservation is exchanged for the best of `offers` that fits.
    /// If none fits, the session keeps its reservation and the refusal is returned.
    ///
    /// # Errors
    /// The refusal of the last of `offers`, if none of them fits.
    pub fn reserves_one_of(
        &self,
        session: &Session<T>,
        offers: Option<&Choices>,
        now_ns: u64,
    ) -> Result<bool, AdmitError> {
        let mut state = session.state();
        match self.admission.exchange(&mut state, applicant(session), offers, now_ns)? {
            Exchange::Unneeded => Ok(true),
            Exchange::NotAllowed => Ok(false),
            Exchange::Made { is_shared } => {
                if !is_shared {
                    // It follows no session any more.
                    self.audience.leaves(session.key);
                }
                self.settle_memory(session, &state);
                Ok(true)
            }
        }
    }

    /// Whether a request for media stays within what was promised to its session. This is checked
    /// for every segment.
    ///
    /// `choice` is the offer that the segment belongs to; `None` if the segment belongs to all of
    /// them. A seek, the end of a pause and a change to a higher choice are admitted again, and may
    /// be refused. After a refusal the session stays, and its reservation is unchanged.
    ///
    /// # Errors
    /// The ledger's refusal, if the request needs another reservation that does not fit.
    pub fn request(
        &self,
        session: &Session<T>,
        choice: Option<usize>,
        span: &TrackSpan,
        now_ns: u64,
    ) -> Result<Permit, AdmitError> {
        let mut state = session.state();
        // While a session waits for its start, its schedule stands at that start.
        let start_ns = state.start_ns(now_ns);
        let Some(continuity) = state.affords(span, start_ns).filter(|_| !state.is_closed) else {
            return Ok(Permit::UNPROMISED);
        };
        let renewal = Renewal { applicant: applicant(session), choice, span, start_ns, now_ns };
        let renewed = self.admission.renew(&mut state, &renewal, continuity);
        self.settle_memory(session, &state);
        let continuity = match renewed {
            // The end that was delivered is not refused, although nothing is reserved for it any
            // more.
            Err(_) if state.is_delivered && continuity == Continuity::OnSchedule => {
                return Ok(Permit::UNPROMISED);
            }
            renewed => renewed?,
        };
        state.is_delivered = false;
        let start_ns = state.start_ns(now_ns);
        let begins = match continuity {
            Continuity::Moves { media_ns } => {
                state.schedule.anchor(media_ns, start_ns);
                true
            }
            Continuity::Shifts { media_ns } => {
                state.schedule.shift(media_ns, start_ns);
                false
            }
            Continuity::Joins => true,
            Continuity::OnSchedule => false,
        };
        state.schedule.requested(span, start_ns);
        let is_promised = session.offered().is_some();
        let class = if begins && is_promised { Class::INTERACTIVE } else { session.class() };
        let due_ns = state.schedule.due_ns(span.from_ns, start_ns);
        let promise = state.promise.as_ref().filter(|promise| promise.reservation.is_some());
        let rate_bps = promise.map(|promise| promise.demand().average_bps());
        Ok(Permit { class, due_ns, begins, start_ns, rate_bps })
    }

    /// Whether a session may be sent a piece of a segment, `media_ns` long, beyond its schedule.
    /// Pieces are single pictures for trick play, or the rest of a segment that broke off. The
    /// session's allowance covers them as long as the client does not play only in this way.
    pub fn allows_piece(&self, session: &Session<T>, media_ns: u64, now_ns: u64) -> bool {
        session.state().allowance.takes(media_ns.max(PIECE_COST_NS_MIN), now_ns)
    }

    /// A session is sent `body` from `offset` on, and will continue to play what follows there,
    /// which is shown for `duration_ns` in all. So the audience knows which session will need it.
    ///
    /// Once it was sent everything, nothing is reserved for it any more ([`Sessions::tick`]).
    ///
    /// Returns whether units are to be read to their ends ([`reel_cache::Reader::reading_on`]).
    /// That is so if other sessions play it, too, and as long as disks have time for sessions that
    /// may follow.
    pub fn plays(
        &self,
        session: &Session<T>,
        kind: MediaKind,
        body: &Body,
        offset: u64,
        duration_ns: u64,
        now_ns: u64,
    ) -> bool {
        let mut state = session.state();
        state.schedule.ends(kind, duration_ns);
        let track = TrackOfSession { session: session.key, track: kind.index() };
        // Sessions may follow only in a track that is shared.
        let shared = state.promise.as_ref().and_then(|promise| promise.offers.shared(promise.choice));
        let is_shared = shared.is_some_and(|shared| shared.tracks().any(|(slot, _)| slot == track.track));
        let is_roomy = is_shared && self.is_roomy.load(Ordering::Relaxed);
        !state.is_closed && self.audience.plays(track, body, offset, duration_ns, is_roomy, now_ns)
    }

    /// When bytes of this media time of a session are due in memory.
    pub fn due_ns(&self, session: &Session<T>, media_ns: u64, now_ns: u64) -> u64 {
        session.state().schedule.due_ns(media_ns, now_ns)
    }

    /// Ends a session; `false` if there was none. Responses under way are finished.
    pub fn close(&self, key: &SessionKey) -> bool {
        let (session, is_former) = {
            let mut table = self.table();
            (table.remove(key), table.forget(key))
        };
        let Some(session) = session else { return is_former };
        self.end(&session);
        true
    }

    /// Updates all sessions to what their clients do. It must be called every round. Sessions that
    /// were idle for too long are removed. Reservations of clients that are paused or gone, or were
    /// sent everything, are released. The ledger is locked for one decision at a time.
    pub fn tick(&self, now_ns: u64) {
        self.is_roomy.store(self.admission.tick(now_ns), Ordering::Relaxed);
        let (idle, silent) = {
            let mut table = self.table();
            let idle = table.remove_idle(now_ns);
            let is_silent =
                |session: &&Arc<Session<T>>| now_ns.saturating_sub(session.used_ns()) > PAUSE_GRACE_NS;
            let silent: Vec<_> = table.all().filter(is_silent).cloned().collect();
            (idle, silent)
        };
        idle.iter().for_each(|session| self.end(session));
        for session in silent {
            // The lock is held throughout, so that a client that requests meanwhile keeps what it
            // holds.
            let mut state = session.state();
            let has_delivered = session.has_delivered(&state);
            let dry_ns = if has_delivered { 0 } else { state.schedule.dry_ns().unwrap_or(0) };
            let needed_ns = dry_ns.max(session.used_ns()).max(state.start_ns(0));
            if now_ns > needed_ns.saturating_add(PAUSE_GRACE_NS) {
                state.is_delivered |= has_delivered;
                self.release(&session, &mut state);
            }
        }
    }

    /// The ledger of what is promised to the sessions.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// How many sessions are open.
    pub fn len(&self) -> usize {
        self.table().len()
    }

    /// Whether no session is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of silence after which a session is removed.
    pub fn idle_max_ns(&self) -> u64 {
        self.table().idle_max_ns()
    }

    /// All sessions, oldest first.
    pub fn list(&self, now_ns: u64) -> Vec<SessionSummary> {
        let sessions: Vec<_> = self.table().all().cloned().collect();
        let mut all: Vec<_> = sessions.iter().map(|session| session.summary(now_ns)).collect();
        all.sort_by_key(|session| std::cmp::Reverse(session.age_ns));
        all
    }

    fn end(&self, session: &Session<T>) {
        let mut state = session.state();
        state.is_closed = true;
        self.release(session, &mut state);
    }

    /// Releases what is reserved for a session: resources of the ledger, memory, and its place
    /// among the sessions that play the same.
    fn release(&self, session: &Session<T>, state: &mut SessionState) {
        if let Some(reservation) = state.take_reservation() {
            self.admission.release(reservation);
        }
        self.settle_memory(session, state);
        self.audience.leaves(session.key);
    }

    /// Changes the session's memory to what its reservation needs.
    fn settle_memory(&self, session: &Session<T>, state: &SessionState) {
        if let Some((_, buffer_bytes)) = &self.memory {
            session.settle_memory(state, *buffer_bytes);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table<T>> {
        // A panic elsewhere leaves the table whole: every change of it is one insert or remove.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session as the ledger knows it.
fn applicant<T>(session: &Session<T>) -> Applicant<'_> {
    Applicant { key: session.key, class: session.class(), label: session.title_id() }
}
