//! All sessions, and what was promised to them.
//!
//! Locks are taken in this order, and each may be left out: the table, a session's state, the
//! reservations, the audience.

use crate::address_range::AddressRange;
use crate::admission::{Admission, Exchange, Reclass, Renewal, Renewed};
use crate::choices::Choices;
use crate::client::SessionClient;
use crate::former::FormerSession;
use crate::kept::{KeptSession, PlayingAt};
use crate::limits::{
    LATE_STAYS_NS, MOVE_COST_NS, PAUSE_GRACE_NS, PIECE_COST_NS_MIN, RETRY_AFTER_MAX_S, SEND_LEAD_NS,
};
use crate::reservations::Applicant;
use crate::schedule::{Continuity, Schedule, TrackSpan};
use crate::session::{Opening, Session, SessionState, SessionSummary};
use crate::table::Table;
use reel_cache::{Audience, Body, Budget, MediaKind, SessionKey, TrackOfSession, Units};
use reel_qos::{AdmitError, Capacities, Class, ClassTable, ClientShare, DEADLINE_NONE_NS, Refusal, Sender};
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
    /// How much of what is promised one client may hold.
    pub client_share: ClientShare,
}

/// Why a session was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenRefused {
    /// One client address holds too many sessions of a title, or of all titles together.
    #[error(
        "this address already holds {held} sessions, the most of one title or of all that one address may; close some or wait. If it is a reverse proxy, have it send X-Forwarded-For, or name it in `gateways`"
    )]
    Client {
        /// How many sessions it holds.
        held: usize,
    },
    /// One client address opened too many sessions that it does not play.
    #[error(
        "this address has opened {held} sessions that it does not play; play or close them, or wait some seconds. If it is a reverse proxy, have it send X-Forwarded-For, or name it in `gateways`"
    )]
    Unstarted {
        /// How many such sessions it holds.
        held: usize,
    },
    /// Its class was changed, or its client has jumped, too often.
    #[error("this session has changed its class or its position too often; try again in a second")]
    TooOften,
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
    /// Whether its own client has too much: other clients are not refused.
    pub fn is_of_client(&self) -> bool {
        matches!(
            self,
            OpenRefused::Client { .. }
                | OpenRefused::Unstarted { .. }
                | OpenRefused::TooOften
                | OpenRefused::NotAdmitted(AdmitError::Share(_))
        )
    }

    /// What is short, if a resource is.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            OpenRefused::NotAdmitted(error) => error.refusal(),
            _ => None,
        }
    }

    /// After how many seconds a new request makes sense.
    pub fn retry_after_s(&self) -> u64 {
        match self {
            OpenRefused::Full { retry_after_s, .. } => *retry_after_s,
            OpenRefused::NotAdmitted(AdmitError::Refused(_) | AdmitError::Share(_)) => {
                // A refusal without a time gets the longest wait, since another session may end
                // before its title does.
                let retry_after_s = self.refusal().and_then(|refusal| refusal.retry_after_s);
                retry_after_s.unwrap_or(RETRY_AFTER_MAX_S).clamp(1, RETRY_AFTER_MAX_S)
            }
            OpenRefused::NotAdmitted(_) => 10,
            OpenRefused::Unstarted { .. } => PAUSE_GRACE_NS / 1_000_000_000,
            OpenRefused::TooOften => 1,
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
    /// When all of it is to be sent, as the network was charged for it.
    pub send_by_ns: u64,
    /// The start of its session, if it is a first segment that is sent until then at an even rate,
    /// because the network has no room for more.
    pub spread_until_ns: Option<u64>,
    /// The average rate of what is reserved for its session; `None` if nothing is.
    pub rate_bps: Option<u64>,
    /// There was no room at the position to which its client has jumped, or for the better choice
    /// that it requests. The session keeps what it holds.
    pub is_displaced: bool,
}

/// How a session begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beginning {
    /// A client plays from now on, or from when there is room.
    Played,
    /// A client of an earlier process continues.
    Continued(PlayingAt),
    /// The server sends by the clock from this time on.
    Pushed {
        /// The time.
        start_ns: u64,
    },
}

impl Permit {
    /// The permit of a response whose session was closed meanwhile, or has used up its allowance.
    /// Nothing is promised to such a response, so it may not use what other sessions were promised.
    pub(crate) const UNPROMISED: Self = Self {
        class: Class::APERIODIC,
        due_ns: DEADLINE_NONE_NS,
        begins: false,
        start_ns: 0,
        send_by_ns: DEADLINE_NONE_NS,
        spread_until_ns: None,
        rate_bps: None,
        is_displaced: false,
    };
}

/// All sessions, shared by every thread; `T` is what they play.
#[derive(Debug)]
pub struct Sessions<T> {
    table: Mutex<Table<T>>,
    admission: Admission,
    pub(crate) audience: Audience,
    /// Whether disks have time for sessions that play alone to read units to their ends, so that
    /// other sessions can follow them.
    is_roomy: AtomicBool,
    /// The budget of the memory that is promised to sessions, and the bytes of one of its buffers.
    memory: Option<(Budget, u64)>,
}

impl<T> Sessions<T> {
    /// An empty table.
    pub fn new(config: SessionsConfig) -> Self {
        let table = Table::new(config.sessions_max, config.idle_max_ns);
        Self {
            table: Mutex::new(table),
            admission: Admission::new(config),
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
        self.open_at(key, (title_id, playing), offers.into(), client, Beginning::Played, now_ns)
    }

    /// The same for a session that another process has kept: its client continues to play, and
    /// needs the rest of the title from there on.
    ///
    /// # Errors
    /// As of [`Sessions::open_as`].
    pub fn resume(
        &self,
        kept: &KeptSession,
        playing: Arc<T>,
        offers: impl Into<Choices>,
        now_ns: u64,
    ) -> Result<Arc<Session<T>>, OpenRefused> {
        let client = SessionClient::new(kept.former.client, kept.former.class);
        let beginning = kept.playing.map_or(Beginning::Played, Beginning::Continued);
        self.open_at(kept.key, (&kept.former.title_id, playing), offers.into(), client, beginning, now_ns)
    }

    pub(crate) fn open_at(
        &self,
        key: SessionKey,
        (title_id, playing): (&str, Arc<T>),
        offers: Choices,
        client: SessionClient,
        beginning: Beginning,
        now_ns: u64,
    ) -> Result<Arc<Session<T>>, OpenRefused> {
        let idle = self.table().remove_idle(now_ns);
        idle.iter().for_each(|session| self.end(session));
        let (sender, client) = (client.sender(), client.client);
        let sharer = {
            let table = self.table();
            if let Some(other) = table.get(&key) {
                return Ok(Arc::clone(other));
            }
            table.has_room(client, title_id, now_ns)?;
            client.sharer(&table.gateways)
        };
        // The table is not locked here, since every request of every core needs it. A ladder that
        // is refused takes the ledger some milliseconds.
        let applicant = Applicant { key, sender, label: title_id, sharer };
        let promise = match &beginning {
            Beginning::Played => self.admission.reserve_best(offers, applicant, 0, now_ns)?,
            Beginning::Continued(at) => self.admission.reserve_again(offers, applicant, at, now_ns)?,
            Beginning::Pushed { start_ns } => {
                self.admission.reserve_from(offers, applicant, *start_ns, now_ns)?
            }
        };
        let memory = self.memory.as_ref().map(|(budget, _)| budget.promise(0));
        let opening = Opening { key, title_id, playing, client, sharer, sender, promise, memory, now_ns };
        let session = Arc::new(Session::new(opening));
        if let Beginning::Continued(PlayingAt { media_ns, until_ns, .. }) = beginning {
            session.state().schedule = Schedule::resumed(media_ns, until_ns, now_ns);
        }
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
        let session = self.find(key, now_ns)?;
        session.touch(now_ns);
        Some(session)
    }

    /// The session of a key, for a request that is no sign that its client still plays.
    pub fn find(&self, key: &SessionKey, now_ns: u64) -> Option<Arc<Session<T>>> {
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
        Some(session)
    }

    /// The session that had this key until its client was silent for too long. It can be opened
    /// again with [`Sessions::open_as`].
    pub fn former(&self, key: &SessionKey) -> Option<FormerSession> {
        self.table().former(key).cloned()
    }

    /// What another process needs to open the sessions again, those with reservations first.
    /// `is_file` says whether choices are those of a title that is sent as one file.
    pub fn kept(&self, is_file: impl Fn(&T, &Choices) -> bool, now_ns: u64) -> Vec<KeptSession> {
        let sessions: Vec<_> = self.table().all().cloned().collect();
        let mut kept: Vec<_> =
            sessions.iter().filter_map(|session| session.kept(&self.admission, &is_file, now_ns)).collect();
        kept.sort_by_key(|kept| (kept.playing.is_none(), kept.key.to_string()));
        kept
    }

    /// Lets a session that another process has kept be opened again when its client asks.
    pub fn remember(&self, kept: KeptSession) {
        self.table().remember(kept.key, kept.former);
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

    /// Has a session continue in another class, in which `offers` are promised to it; none in a
    /// class without deadlines. It is admitted there as one step with what it gives back. A client
    /// that is paused is admitted where it was. `false` if the session has ended.
    ///
    /// # Errors
    /// The new class has no room for it, or it has moved too often. Then the session has its old
    /// class and all that it held.
    pub fn change_class(
        &self,
        session: &Session<T>,
        class: Class,
        offers: impl Into<Choices>,
        now_ns: u64,
    ) -> Result<bool, OpenRefused> {
        session.asks(now_ns);
        let mut state = session.state();
        if state.is_closed {
            return Ok(false);
        }
        if session.class() == class {
            return Ok(true);
        }
        if !state.allowance.takes(MOVE_COST_NS, now_ns) {
            return Err(OpenRefused::TooOften);
        }
        // A client in a class without deadlines continues where it was.
        let shown_ns = state.schedule.shown_ns(now_ns);
        let was_promised = state.promise.is_some();
        let applicant = applicant(session);
        let wanted = Reclass {
            applicant: Applicant { sender: Sender { class, ..applicant.sender }, ..applicant },
            offers: offers.into(),
            best: session.offered().unwrap_or(0),
            at_ns: session.at_ns(),
            now_ns,
        };
        self.admission.reclass(&mut state, wanted)?;
        session.set_class(class);
        if was_promised {
            session.is_at(shown_ns);
        }
        if state.promise.is_none() {
            self.audience.leaves(session.key);
        }
        self.settle_memory(session, &state);
        Ok(true)
    }

    /// Whether a request for media stays within what was promised to its session. This is checked
    /// for every segment.
    ///
    /// `choice` is the offer that the segment belongs to; `None` if the segment belongs to all of
    /// them. A seek, the end of a pause and a change to a higher choice are admitted again. If
    /// there is no room, a session with a reservation keeps it, and the request has none
    /// ([`Permit::is_displaced`]). A session without one, whose client was paused, is refused.
    ///
    /// # Errors
    /// The ledger's refusal, if the request needs a reservation that does not fit, and the session
    /// holds none.
    pub fn request(
        &self,
        session: &Session<T>,
        choice: Option<usize>,
        span: &TrackSpan,
        now_ns: u64,
    ) -> Result<Permit, AdmitError> {
        session.asks(now_ns);
        let mut state = session.state();
        // While a session waits for its start, its schedule stands at that start.
        let start_ns = state.start_ns(now_ns);
        let Some(continuity) = state.affords(span, start_ns).filter(|_| !state.is_closed) else {
            // It is sent all the same, when nothing else waits.
            state.schedule.fetched(span, false);
            return Ok(Permit::UNPROMISED);
        };
        let renewal = Renewal { applicant: applicant(session), choice, span, start_ns, now_ns };
        let renewed = self.admission.renew(&mut state, &renewal, continuity);
        self.settle_memory(session, &state);
        let Renewed { continuity, is_reserved } = match renewed {
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
        if !is_reserved && !begins {
            return Ok(Permit { is_displaced: true, ..Permit::UNPROMISED });
        }
        let is_promised = state.promise.is_some();
        let class = if begins && is_promised { Class::INTERACTIVE } else { session.class() };
        let due_ns = state.schedule.due_ns(span.from_ns, start_ns);
        let promise = state.promise.as_ref().filter(|promise| promise.reservation.is_some());
        let rate_bps = promise.map(|promise| promise.demand().average_bps());
        let spread_until_ns = state.spread_until_ns(now_ns).filter(|_| is_reserved);
        // What follows may be requested a moment before the start, when the first segment is there.
        let start_ns = if spread_until_ns.is_some() { now_ns } else { start_ns };
        let spread_until_ns = spread_until_ns.filter(|_| begins);
        let send_by_ns = match spread_until_ns {
            Some(until_ns) => until_ns,
            None if begins => start_ns.saturating_add(state.begin_time_ns(span)),
            None => due_ns.saturating_add(SEND_LEAD_NS),
        };
        let is_displaced = !is_reserved;
        Ok(Permit { class, due_ns, begins, start_ns, send_by_ns, spread_until_ns, rate_bps, is_displaced })
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
        let is_roomy = is_shared && self.is_roomy();
        !state.is_closed && self.audience.plays(track, body, offset, duration_ns, is_roomy, now_ns)
    }

    /// The client of a session reads its title as one file in pieces, and has requested the bytes
    /// up to this media time. It may be silent until all of that would be shown: a kernel reads
    /// ahead in bursts.
    pub fn reads_until(&self, session: &Session<T>, media_ns: u64) {
        session.state().schedule.reads_until(media_ns);
    }

    /// Whether so little of the disks is promised that there is time for reads that could be
    /// avoided: of whole units for sessions that may follow, and of parity that could be computed.
    pub fn is_roomy(&self) -> bool {
        self.is_roomy.load(Ordering::Relaxed)
    }

    /// When bytes of this media time of a session are due in memory.
    pub fn due_ns(&self, session: &Session<T>, media_ns: u64, now_ns: u64) -> u64 {
        session.state().schedule.due_ns(media_ns, now_ns)
    }

    /// Whether a thread panicked while it changed the table or the reservations, which all threads
    /// share.
    pub fn is_poisoned(&self) -> bool {
        self.table.is_poisoned() || self.admission.is_poisoned()
    }

    /// Ends all sessions of a title.
    pub fn close_title(&self, title_id: &str) {
        let of_title: Vec<SessionKey> = {
            let table = self.table();
            table
                .all()
                .filter(|session| session.title_id() == title_id)
                .map(|session| session.key())
                .collect()
        };
        for key in of_title {
            self.close(&key);
        }
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

    /// A client has left while the response to what it requested at `asked_ns` waited for the start
    /// of its session. That response has ended. What is reserved is released, unless the client
    /// continues elsewhere: with another response, or a later request.
    pub fn left(&self, session: &Session<T>, asked_ns: u64, now_ns: u64) {
        // The lock is held throughout, so that a client that requests meanwhile keeps what it
        // holds.
        let mut state = session.state();
        // Of several responses, the last one that is left may be the first that was requested.
        state.left_asked_ns = state.left_asked_ns.max(asked_ns);
        let continues = session.asked_ns() > state.left_asked_ns || session.has_answers();
        if continues || state.start_ns(now_ns) <= now_ns {
            return;
        }
        self.release(session, &mut state);
        // If the client comes back, it begins as soon as there is room.
        state.schedule = Schedule::default();
        if let Some(promise) = &mut state.promise {
            promise.start_ns = now_ns;
        }
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
                |session: &&Arc<Session<T>>| now_ns.saturating_sub(session.asked_ns()) > PAUSE_GRACE_NS;
            let silent: Vec<_> = table.all().filter(is_silent).cloned().collect();
            (idle, silent)
        };
        idle.iter().for_each(|session| self.end(session));
        for session in silent {
            // The lock is held throughout, so that a client that requests meanwhile keeps what it
            // holds.
            let mut state = session.state();
            let has_delivered = session.has_delivered(&state);
            let is_unused = state.needs_answers && !session.has_answers();
            let is_dry = has_delivered || is_unused;
            let dry_ns = if is_dry { 0 } else { state.schedule.dry_ns().unwrap_or(0) };
            let needed_ns = dry_ns.max(state.start_ns(0));
            let grace_ns = state.schedule.grace_ns();
            let is_paused = now_ns > needed_ns.max(session.used_ns()).saturating_add(grace_ns);
            // A client that takes a byte now and then holds nothing for longer than a slow one.
            let is_left_behind = now_ns > needed_ns.max(session.asked_ns()).saturating_add(LATE_STAYS_NS);
            if is_paused || is_left_behind {
                state.is_delivered |= has_delivered;
                self.release(&session, &mut state);
            }
        }
    }

    /// Releases what is reserved for a session that is sent by the clock, until it continues with
    /// [`Sessions::push`].
    pub fn pause(&self, session: &Session<T>) {
        self.release(session, &mut session.state());
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
    pub(crate) fn settle_memory(&self, session: &Session<T>, state: &SessionState) {
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
pub(crate) fn applicant<T>(session: &Session<T>) -> Applicant<'_> {
    let (key, sender, label) = (session.key, session.sender(), session.title_id());
    Applicant { key, sender, label, sharer: session.sharer }
}
