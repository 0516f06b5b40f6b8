//! All sessions, and what was promised to them.
//!
//! Locks are taken in this order, and each may be left out: the table, a session's state, the book
//! of reservations, the audience.

use crate::book::{Book, Who};
use crate::limits::{
    CLIENT_PART, MEETINGS_MAX, MOVE_COST_NS, PAUSE_GRACE_NS, PIECE_COST_NS_MIN, RETRY_AFTER_MAX_S,
    ROUNDS_MAX, SESSIONS_PER_CLIENT_MAX, UNSTARTED_PER_CLIENT_MAX,
};
use crate::schedule::{Ask, Place};
use crate::session::{Opening, Promise, Session, SessionSummary, State};
use reel_cache::{Audience, Body, Budget, Choices, MediaKind, SessionKey, Units};
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    AdmitError, Answer, Capacities, Class, ClassTable, DEADLINE_NONE_NS, Demand, Ledger, Overcommitment,
    ResourceUsage, Starts,
};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
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
}

impl Permit {
    /// The permit of a response whose session was closed meanwhile, or has used up its allowance.
    /// Nothing is promised to such a response, so it may not use what other sessions were promised.
    const UNPROMISED: Self = Self { class: Class::APERIODIC, due_ns: DEADLINE_NONE_NS, begins: false };
}

/// All sessions, shared by every thread; `T` is what they play.
#[derive(Debug)]
pub struct Sessions<T> {
    sessions_max: usize,
    idle_max_ns: u64,
    table: Mutex<Table<T>>,
    book: Option<Mutex<Book>>,
    audience: Audience,
    /// Whether disks have time for sessions that play alone to read units to their ends, so that
    /// other sessions can follow them.
    is_roomy: AtomicBool,
    /// The budget of the memory that is promised to sessions, and the bytes of one of its buffers.
    memory: Option<(Budget, u64)>,
}

/// Sessions that share what one of them reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Shared reservations of more than one session.
    pub chains: usize,
    /// Sessions that find in memory what others have read.
    pub followers: usize,
    /// Bytes of the arena that are promised to them.
    pub interval_bytes: u64,
}

#[derive(Debug)]
struct Table<T> {
    by_key: HashMap<SessionKey, Arc<Session<T>>>,
    by_client: HashMap<IpAddr, Held>,
}

/// The sessions of a client; [`counted_as`] defines which addresses are the same client.
#[derive(Debug, Default)]
struct Held {
    all: usize,
    by_title: HashMap<String, usize>,
}

impl<T> Sessions<T> {
    /// An empty table.
    pub fn new(config: SessionsConfig) -> Self {
        let book = config.capacities.map(|capacities| {
            // Fits: a day of seconds.
            let mut ledger = Ledger::new(capacities, ROUNDS_MAX as usize);
            ledger.set_classes(config.classes);
            Mutex::new(Book::new(ledger))
        });
        Self {
            sessions_max: config.sessions_max,
            idle_max_ns: config.idle_max_ns,
            table: Mutex::new(Table { by_key: HashMap::new(), by_client: HashMap::new() }),
            book,
            audience: Audience::default(),
            is_roomy: AtomicBool::new(true),
            memory: None,
        }
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
        if let Some(book) = &self.book {
            lock(book).follow_in(units);
        }
        Self { memory: Some((units.budget().clone(), units.buffer_bytes())), ..self.before(units.audience()) }
    }

    /// Opens a session; removes idle ones first.
    ///
    /// `offers` are the demands of the title's choices (renditions), best first. The session is
    /// promised the first choice that fits. Without offers nothing is promised, which is meant for
    /// classes without deadlines.
    ///
    /// # Errors
    /// [`OpenRefused`] if the client or the table has too many sessions, if none of the offers
    /// fits, or if the system gave no random bytes for the key.
    pub fn open(
        &self,
        title_id: &str,
        playing: Arc<T>,
        offers: impl Into<Choices>,
        (client, class): (IpAddr, Class),
        now_ns: u64,
    ) -> Result<Arc<Session<T>>, OpenRefused> {
        let key = SessionKey::random().map_err(OpenRefused::NoRandom)?;
        self.open_as(key, title_id, playing, offers, (client, class), now_ns)
    }

    /// The same with the caller's key, which no session may have yet. Simulations use it, since
    /// their runs must be repeatable.
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
        (client, class): (IpAddr, Class),
        now_ns: u64,
    ) -> Result<Arc<Session<T>>, OpenRefused> {
        let forgotten = self.table().forget_idle(self.idle_max_ns, now_ns);
        forgotten.iter().for_each(|session| self.end(session));
        self.has_room(&self.table(), (client, title_id), now_ns)?;
        // The table is not locked here, since every request of every core needs it. A ladder that
        // is refused takes the ledger some milliseconds.
        let promise = self.promise(offers.into(), Who { key, class, label: title_id }, now_ns)?;
        let memory = self.memory.as_ref().map(|(budget, _)| budget.promise(0));
        let opening = Opening { key, title_id, playing, client, class, promise, memory, now_ns };
        let session = Arc::new(Session::new(opening));
        self.settle_memory(&session, &session.state());
        let mut table = self.table();
        // Other sessions may have been opened meanwhile.
        if let Err(refused) = self.has_room(&table, (client, title_id), now_ns) {
            drop(table);
            self.end(&session);
            return Err(refused);
        }
        let held = table.by_client.entry(counted_as(client)).or_default();
        held.all += 1;
        *held.by_title.entry(title_id.to_owned()).or_default() += 1;
        table.by_key.insert(key, Arc::clone(&session));
        Ok(session)
    }

    /// The session of a key, marked as used now.
    pub fn touch(&self, key: &SessionKey, now_ns: u64) -> Option<Arc<Session<T>>> {
        let session = Arc::clone(self.table().by_key.get(key)?);
        if now_ns.saturating_sub(session.used_ns()) > self.idle_max_ns {
            self.close(key);
            return None;
        }
        session.touch(now_ns);
        Some(session)
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
    pub fn is_promised(
        &self,
        session: &Session<T>,
        offers: Option<&Choices>,
        now_ns: u64,
    ) -> Result<bool, AdmitError> {
        let mut state = session.state();
        let State { schedule, promise, allowance, is_closed } = &mut *state;
        let (Some(promise), Some(book)) = (promise, &self.book) else { return Ok(true) };
        let Some(offers) = offers else { return Ok(false) };
        if Arc::ptr_eq(&promise.offers.demands, &offers.demands) {
            return Ok(true);
        }
        if schedule.is_started() || *is_closed || !allowance.takes(MOVE_COST_NS, now_ns) {
            return Ok(false);
        }
        let who = Who { key: session.key, class: session.class(), label: session.title_id() };
        let mut refused = None;
        lock(book).advance(now_ns / ROUND_NS);
        for choice in 0..offers.demands.len() {
            let put = |held| lock(book).put((who, held), (offers, choice, true), 0, now_ns);
            let reservation = match put(promise.reservation) {
                Err(AdmitError::Ended(_)) => {
                    promise.reservation = None;
                    put(None)
                }
                reservation => reservation,
            };
            match reservation {
                Ok(reservation) => {
                    *promise = Promise::new(offers.clone(), choice, reservation);
                    if offers.shared(choice).is_none() {
                        // It follows no session any more.
                        self.audience.leaves(session.key);
                    }
                    self.settle_memory(session, &state);
                    return Ok(true);
                }
                Err(refusal) => refused = Some(refusal),
            }
        }
        refused.map_or(Ok(false), Err)
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
    pub fn ask(
        &self,
        session: &Session<T>,
        choice: Option<usize>,
        ask: &Ask,
        now_ns: u64,
    ) -> Result<Permit, AdmitError> {
        let mut state = session.state();
        let Some(place) = state.affords(ask, now_ns).filter(|_| !state.is_closed) else {
            return Ok(Permit::UNPROMISED);
        };
        let kept = self.keep_somewhere(session, &mut state, choice, (ask, place), now_ns);
        self.settle_memory(session, &state);
        let place = kept?;
        let begins = matches!(place, Place::Joins | Place::Moved { .. });
        match place {
            Place::Moved { media_ns } => state.schedule.anchor(media_ns, now_ns),
            Place::Shifts { media_ns } => state.schedule.shift(media_ns, now_ns),
            Place::OnSchedule | Place::Joins => {}
        }
        state.schedule.asked(ask, now_ns);
        let class = if begins && self.promises(session) { Class::INTERACTIVE } else { session.class() };
        Ok(Permit { class, due_ns: state.schedule.due_ns(ask.from_ns, now_ns), begins })
    }

    /// Whether a session may be sent a piece of a segment, `media_ns` long, beyond its schedule.
    /// Pieces are single pictures for winding, or the rest of a segment that broke off. The
    /// session's allowance covers them as long as the client does not play only in this way.
    pub fn spares(&self, session: &Session<T>, media_ns: u64, now_ns: u64) -> bool {
        session.state().allowance.takes(media_ns.max(PIECE_COST_NS_MIN), now_ns)
    }

    /// A session is sent `body` from `offset` on, and will continue to play what follows there,
    /// which is shown for `duration_ns` in all. So the audience knows which session will need it.
    ///
    /// Returns whether units are to be read to their ends ([`crate::Reader::reading_on`]). They are
    /// if other sessions play it, too, and as long as disks have time for sessions that may follow.
    pub fn plays(
        &self,
        session: &Session<T>,
        strand: MediaKind,
        (body, offset): (&Body, u64),
        duration_ns: u64,
        now_ns: u64,
    ) -> bool {
        let state = session.state();
        let track = (session.key, strand.index());
        // Sessions may follow only in a track that is shared.
        let shared = state.promise.as_ref().and_then(|promise| promise.offers.shared(promise.choice));
        let is_shared = shared.is_some_and(|shared| shared.tracks().any(|(slot, _)| slot == track.1));
        let is_roomy = is_shared && self.is_roomy.load(Ordering::Relaxed);
        !state.is_closed && self.audience.plays(track, (body, offset), duration_ns, is_roomy, now_ns)
    }

    /// When bytes of this media time of a session are due in memory.
    pub fn due_ns(&self, session: &Session<T>, media_ns: u64, now_ns: u64) -> u64 {
        session.state().schedule.due_ns(media_ns, now_ns)
    }

    /// Ends a session; `false` if there was none. Responses under way are finished.
    pub fn close(&self, key: &SessionKey) -> bool {
        let Some(session) = self.table().remove(key) else { return false };
        self.end(&session);
        true
    }

    /// Updates all sessions to what their clients do. It must be called every round. Sessions that
    /// were idle for too long are removed. Reservations of clients that are paused or gone are
    /// released. The ledger is locked for one decision at a time.
    pub fn tick(&self, now_ns: u64) {
        if let Some(book) = &self.book {
            lock(book).advance(now_ns / ROUND_NS);
            for _ in 0..MEETINGS_MAX {
                if !lock(book).meet_next() {
                    break;
                }
            }
            let mut book = lock(book);
            book.settle_memory();
            self.is_roomy.store(book.is_roomy(), Ordering::Relaxed);
        }
        let (forgotten, silent) = {
            let mut table = self.table();
            let forgotten = table.forget_idle(self.idle_max_ns, now_ns);
            let is_silent =
                |session: &&Arc<Session<T>>| now_ns.saturating_sub(session.used_ns()) > PAUSE_GRACE_NS;
            let silent: Vec<_> = table.by_key.values().filter(is_silent).cloned().collect();
            (forgotten, silent)
        };
        forgotten.iter().for_each(|session| self.end(session));
        for session in silent {
            // The lock is held throughout, so that a client that requests meanwhile keeps what it
            // holds.
            let mut state = session.state();
            let dry_ns = state.schedule.dry_ns().unwrap_or(session.opened_ns()).max(session.used_ns());
            if now_ns > dry_ns.saturating_add(PAUSE_GRACE_NS) {
                self.release(&mut state);
                self.settle_memory(&session, &state);
                self.audience.leaves(session.key);
            }
        }
    }

    /// How many sessions are open.
    pub fn len(&self) -> usize {
        self.table().by_key.len()
    }

    /// Whether no session is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of silence after which a session is removed.
    pub fn idle_max_ns(&self) -> u64 {
        self.idle_max_ns
    }

    /// All sessions, oldest first.
    pub fn list(&self, now_ns: u64) -> Vec<SessionSummary> {
        let sessions: Vec<_> = self.table().by_key.values().cloned().collect();
        let mut all: Vec<_> = sessions.iter().map(|session| session.summary(now_ns)).collect();
        all.sort_by_key(|session| std::cmp::Reverse(session.age_ns));
        all
    }

    /// How much of every resource is promised; empty if nothing is.
    pub fn usage(&self, now_ns: u64) -> Vec<ResourceUsage> {
        self.book.as_ref().map_or_else(Vec::new, |book| lock(book).ledger().usage(now_ns / ROUND_NS))
    }

    /// How many sessions share what others read.
    pub fn sharing(&self) -> Sharing {
        self.book.as_ref().map_or_else(Sharing::default, |book| lock(book).sharing())
    }

    /// How many more viewers of `demand`, starting one after another, could be promised it in a
    /// class; `None` if nothing is promised at all.
    ///
    /// # Errors
    /// Those of [`Ledger::how_many`].
    pub fn how_many(&self, class: Class, demand: &Demand) -> Option<Result<Answer, AdmitError>> {
        let book = self.book.as_ref()?;
        Some(lock(book).ledger().how_many(class, demand, Starts::Spread))
    }

    /// Whether what is promised is the sum of what the sessions hold. Also whether each session has
    /// disk time, its own or that of the session it follows. For simulations and tests.
    pub fn adds_up(&self) -> bool {
        self.book.as_ref().is_none_or(|book| lock(book).adds_up())
    }

    /// Replaces the resources that can be promised from here on. What was promised stays promised.
    pub fn set_capacities(&self, capacities: Capacities) {
        if let Some(book) = &self.book {
            tell(lock(book).set_capacities(capacities));
        }
    }

    /// Replaces the classes and their shares from here on. What was promised stays promised.
    pub fn set_classes(&self, classes: ClassTable) {
        if let Some(book) = &self.book {
            tell(lock(book).set_classes(classes));
        }
    }

    fn has_room(
        &self,
        table: &Table<T>,
        (client, title_id): (IpAddr, &str),
        now_ns: u64,
    ) -> Result<(), OpenRefused> {
        if table.by_key.len() >= self.sessions_max {
            let oldest_ns = table.by_key.values().map(|session| session.used_ns()).min().unwrap_or(now_ns);
            let left_ns = oldest_ns.saturating_add(self.idle_max_ns).saturating_sub(now_ns);
            let retry_after_s = left_ns.div_ceil(1_000_000_000).max(1);
            return Err(OpenRefused::Full { max: self.sessions_max, retry_after_s });
        }
        let client = counted_as(client);
        let Some(held) = table.by_client.get(&client) else { return Ok(()) };
        let of_title = held.by_title.get(title_id).copied().unwrap_or(0);
        if of_title >= SESSIONS_PER_CLIENT_MAX {
            return Err(OpenRefused::Client { held: of_title });
        }
        if held.all >= (self.sessions_max / CLIENT_PART).max(SESSIONS_PER_CLIENT_MAX) {
            return Err(OpenRefused::Client { held: held.all });
        }
        if held.all >= UNSTARTED_PER_CLIENT_MAX {
            let unstarted = |session: &&Arc<Session<T>>| {
                counted_as(session.client) == client && {
                    let state = session.state();
                    !state.schedule.is_started()
                        && state.promise.as_ref().is_some_and(|promise| promise.reservation.is_some())
                }
            };
            let held = table.by_key.values().filter(unstarted).count();
            if held >= UNSTARTED_PER_CLIENT_MAX {
                return Err(OpenRefused::Unstarted { held });
            }
        }
        Ok(())
    }

    /// Reserves the best of `offers` that can be promised from now on.
    fn promise(&self, offers: Choices, who: Who<'_>, now_ns: u64) -> Result<Option<Promise>, OpenRefused> {
        let Some(book) = &self.book else { return Ok(None) };
        let mut refused = None;
        lock(book).advance(now_ns / ROUND_NS);
        for choice in 0..offers.demands.len() {
            match lock(book).put((who, None), (&offers, choice, true), 0, now_ns) {
                Ok(reservation) => return Ok(Some(Promise::new(offers, choice, reservation))),
                Err(refusal) => refused = Some(refusal),
            }
        }
        // The last offer needed least, so its refusal is the nearest to being granted.
        refused.map_or(Ok(None), |refusal| Err(refusal.into()))
    }

    /// Changes the reservation to what the client does. If that is refused, the session keeps its
    /// position, or takes no more than the choice it requests now. Returns the relation of the
    /// request to the schedule that results.
    fn keep_somewhere(
        &self,
        session: &Session<T>,
        state: &mut State,
        choice: Option<usize>,
        (ask, place): (&Ask, Place),
        now_ns: u64,
    ) -> Result<Place, AdmitError> {
        let who = Who { key: session.key, class: session.class(), label: session.title_id() };
        let below = state.promise.as_ref().and_then(|promise| promise.below);
        let Err(mut refused) = self.keep_promise(state, who, choice, place, ask, now_ns) else {
            return Ok(place);
        };
        // The second call counts the same segment, not another one.
        if let Some(promise) = &mut state.promise {
            promise.below = below;
        }
        let stays = if state.begins_as_promised(ask, session.opened_ns(), now_ns) {
            // A second after the opening, a server at capacity may not have these rounds. The
            // session keeps the rounds that were promised to it.
            state.schedule.anchor(ask.from_ns, session.opened_ns());
            Some(Place::Joins)
        } else if place.moves_to().is_some() && state.schedule.may_stay(ask, now_ns) {
            // A client that only requests farther ahead than before may have jumped, or its buffer
            // grew. A client that fell behind requests no more than was promised to it. Both keep
            // their reservations.
            Some(Place::OnSchedule)
        } else {
            None
        };
        if let Some(place) = stays {
            match self.keep_promise(state, who, choice, place, ask, now_ns) {
                Ok(()) => return Ok(place),
                Err(error) => refused = error,
            }
        }
        // There is no room for the rendition that the session had, but there may be room for the
        // lower one that it requests.
        let Some(promise) = &mut state.promise else { return Err(refused) };
        let had = promise.choice;
        let lower = choice.map(|choice| choice.min(promise.offers.demands.len() - 1));
        let Some(lower) = lower.filter(|lower| *lower > had) else { return Err(refused) };
        promise.choice = lower;
        let kept = self.keep_promise(state, who, choice, place, ask, now_ns);
        if let (Err(_), Some(promise)) = (&kept, &mut state.promise) {
            (promise.choice, promise.below) = (had, below);
        }
        kept.map(|()| place)
    }

    /// Changes the reservation to what the client does, if anything was promised to it.
    fn keep_promise(
        &self,
        state: &mut State,
        who: Who<'_>,
        choice: Option<usize>,
        place: Place,
        ask: &Ask,
        now_ns: u64,
    ) -> Result<(), AdmitError> {
        let State { schedule, promise, .. } = state;
        let (Some(promise), Some(book)) = (promise, &self.book) else { return Ok(()) };
        let asked = choice.map(|choice| choice.min(promise.offers.demands.len() - 1));
        let is_on = promise.reservation.is_some() || promise.has_ended;
        let stays = place.moves_to().is_none();
        let mut choice = promise.choice;
        if let (Some(stream), true) = (promise.reservation, asked.is_some_and(|asked| asked > choice)) {
            let mut book = lock(book);
            // A session that shares one choice with others stops following them when its client
            // requests a lower choice at the same position.
            if stays && book.leave((who, stream), (&promise.offers, choice), now_ns) {
                promise.choice += 1;
                choice = promise.choice;
            } else if !stays && book.is_sharing(stream) {
                // At another position it stops following them only if the move is admitted.
                choice += 1;
            }
        }
        let wanted = asked.and_then(|asked| promise.takes(asked));
        if is_on && wanted.is_none() && stays {
            return Ok(());
        }
        let choice = wanted.unwrap_or(choice);
        let position_ns = match place {
            Place::Shifts { media_ns } | Place::Moved { media_ns } => media_ns,
            Place::OnSchedule | Place::Joins => schedule.position_ns(now_ns).min(ask.from_ns),
        };
        let mut book = lock(book);
        book.advance(now_ns / ROUND_NS);
        let is_played = asked.is_none_or(|asked| asked == choice);
        let mut put = |held| book.put((who, held), (&promise.offers, choice, is_played), position_ns, now_ns);
        match put(promise.reservation) {
            Ok(reservation) => (promise.reservation, promise.has_ended) = (Some(reservation), false),
            // A reservation that has come to the end of its title has ended, although it was not
            // released.
            Err(AdmitError::Ended(_)) => {
                (promise.reservation, promise.has_ended) = (None, true);
                (promise.reservation, promise.has_ended) = (Some(put(None)?), false);
            }
            // The lower choice gives something back for the same time, so keeping the reservation
            // is safe. A client that is a little late needs other rounds than it has, and could be
            // refused in them.
            Err(_) if is_on && stays && choice > promise.choice => return Ok(()),
            Err(error) => return Err(error),
        }
        promise.choice = choice;
        Ok(())
    }

    fn promises(&self, session: &Session<T>) -> bool {
        session.offered().is_some()
    }

    fn end(&self, session: &Session<T>) {
        let mut state = session.state();
        state.is_closed = true;
        self.release(&mut state);
        self.settle_memory(session, &state);
        self.audience.leaves(session.key);
    }

    /// Changes the session's memory to what its reservation needs.
    fn settle_memory(&self, session: &Session<T>, state: &State) {
        if let Some((_, buffer_bytes)) = &self.memory {
            session.settle_memory(state, *buffer_bytes);
        }
    }

    /// Releases what is reserved for a session.
    fn release(&self, state: &mut State) {
        let reservation = state.promise.as_mut().and_then(|promise| {
            promise.has_ended = false;
            promise.reservation.take()
        });
        if let (Some(reservation), Some(book)) = (reservation, &self.book) {
            lock(book).release(reservation);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table<T>> {
        // A panic elsewhere leaves the table whole: every change of it is one insert or remove.
        lock(&self.table)
    }
}

impl<T> Table<T> {
    fn remove(&mut self, key: &SessionKey) -> Option<Arc<Session<T>>> {
        let session = self.by_key.remove(key)?;
        let client = counted_as(session.client);
        if let Some(held) = self.by_client.get_mut(&client) {
            held.all -= 1;
            if let Some(of_title) = held.by_title.get_mut(session.title_id()) {
                *of_title -= 1;
                if *of_title == 0 {
                    held.by_title.remove(session.title_id());
                }
            }
            if held.all == 0 {
                self.by_client.remove(&client);
            }
        }
        Some(session)
    }

    fn forget_idle(&mut self, idle_max_ns: u64, now_ns: u64) -> Vec<Arc<Session<T>>> {
        let is_idle = |session: &&Arc<Session<T>>| now_ns.saturating_sub(session.used_ns()) > idle_max_ns;
        let idle: Vec<_> = self.by_key.values().filter(is_idle).map(|session| session.key).collect();
        idle.iter().filter_map(|key| self.remove(key)).collect()
    }
}

/// The address under which the sessions of a client are counted. For IPv6 it is the network, since
/// one host may take any address in it. Addresses of the block that no packet comes from (100::/64,
/// RFC 6666) stand for the users of programs, one address for each user.
fn counted_as(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) if address.segments()[..4] != [0x100, 0, 0, 0] => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address => address,
    }
}

/// Logs where more is promised than there is now.
fn tell(over_committed: Vec<Overcommitment>) {
    for over in over_committed {
        tracing::warn!(
            resource = %over.resource, used = over.used, capacity = over.capacity, rounds = over.rounds,
            "more is promised than there is now; nothing new is admitted until enough of it has ended"
        );
    }
}

fn lock<V>(shared: &Mutex<V>) -> MutexGuard<'_, V> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
