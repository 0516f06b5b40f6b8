//! Casts, from any thread: added, listed, described and stopped.

use crate::broadcast::{Broadcast, BroadcastConfig};
use crate::config::{CastConfig, CastFec, CastRefused, is_name};
use crate::day::DayClock;
use crate::description::{describe, own_address, repair_window_us};
use crate::identity::Identity;
use crate::limits::{CAST_PASSES_MAX, CAST_RESERVED_NS, CASTS_MAX};
use crate::on_air::{CastReport, OnAir};
use crate::playlist::Playlist;
use crate::slots::SlotsReport;
use reel_admit::{Client, Session, SessionClient, Sessions};
use reel_cache::Depth;
use reel_library::{Library, Stream};
use reel_play::limits::PUSH_LEAD_NS;
use reel_play::{Form, Playable, PlayableTitle, PushedStream};
use reel_qos::Class;
use reel_rt::lock;
use reel_rtp::fec::Geometry;
use reel_serve::{OpenedSession, Waker};
use reel_udp::MulticastSocket;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// All casts of a server. Clones are the same casts.
#[derive(Clone)]
pub struct Casts(Arc<Inner>);

/// The parts of the server that casts use.
pub struct CastParts {
    /// The titles.
    pub library: Arc<Library>,
    /// All sessions.
    pub sessions: Arc<Sessions<PlayableTitle>>,
    /// How far readers read ahead.
    pub depth: Depth,
    /// The place of their front end among those of the server.
    pub front_end: usize,
    /// Where the server answers HTTP.
    pub http: SocketAddr,
    /// The most packets of a train; `None` for
    /// [`CAST_TRAIN_PACKETS`](crate::limits::CAST_TRAIN_PACKETS). For experiments.
    pub train_packets: Option<NonZeroU64>,
}

/// There is no cast of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no cast {0:?}; `reel cast list` shows all")]
pub struct NoSuchCast(pub String);

/// Why a cast has no slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSlots {
    /// There is no such cast.
    #[error(transparent)]
    NoSuchCast(#[from] NoSuchCast),
    /// It is sent to one group.
    #[error("the cast {0:?} has no schedule: it is sent to one group, as its clock says")]
    NoSchedule(String),
}

/// Finds an address of those in question that something else of the server sends to.
type SentTo = Box<dyn Fn(&dyn Fn(SocketAddr) -> bool) -> Option<SocketAddr> + Send + Sync>;

struct Inner {
    parts: CastParts,
    /// What sends datagrams beside casts.
    beside: OnceLock<SentTo>,
    registry: Mutex<BTreeMap<String, Place>>,
    /// Wakes the thread that sends.
    waker: OnceLock<Waker>,
    is_stopping: AtomicBool,
}

/// The place of a name.
enum Place {
    /// The cast is being added.
    Adding(CastConfig),
    Cast(Arc<OnAir>),
}

impl Casts {
    /// No casts yet.
    pub fn new(parts: CastParts) -> Casts {
        Casts(Arc::new(Inner {
            parts,
            beside: OnceLock::new(),
            registry: Mutex::default(),
            waker: OnceLock::new(),
            is_stopping: AtomicBool::new(false),
        }))
    }

    /// What else of the server sends datagrams: `sent_to` finds an address of those in question
    /// that is in use. Said once.
    pub fn beside(
        &self,
        sent_to: impl Fn(&dyn Fn(SocketAddr) -> bool) -> Option<SocketAddr> + Send + Sync + 'static,
    ) {
        // A second one would be of another server.
        let _ = self.0.beside.set(Box::new(sent_to));
    }

    /// Has a title sent, from a moment after `now_ns` on. Reads the index of the title, so it must
    /// not be called by a thread that must not wait.
    ///
    /// # Errors
    /// [`CastRefused`].
    pub fn add(&self, config: CastConfig, now_ns: u64) -> Result<CastReport, CastRefused> {
        config.check()?;
        let name = self.take_name(&config)?;
        let added = self.open(&name, config, now_ns);
        // Found here, and not by the thread that sends.
        added.iter().for_each(|cast| _ = (repair_window_us(cast), own_address(cast)));
        let mut registry = lock(&self.0.registry);
        let added = added.and_then(|cast| self.without_others(&registry, cast));
        let cast = match added {
            Ok(cast) if !self.0.is_stopping.load(Ordering::Relaxed) => Arc::new(cast),
            added => {
                registry.remove(&name);
                return Err(added.err().unwrap_or(CastRefused::Stopping));
            }
        };
        registry.insert(name, Place::Cast(Arc::clone(&cast)));
        drop(registry);
        self.wake();
        Ok(cast.report(now_ns))
    }

    /// All casts by name, those that have ended included.
    pub fn list(&self, now_ns: u64) -> Vec<CastReport> {
        self.all().iter().map(|cast| cast.report(now_ns)).collect()
    }

    /// The name of the cast that sends to an address, or is about to.
    pub fn that_sends_to(&self, to: SocketAddr) -> Option<String> {
        let sends = |place: &Place| match place {
            Place::Adding(config) => config.sends_to(1, to),
            Place::Cast(cast) => !cast.has_ended() && cast.config.sends_to(cast.channels(), to),
        };
        let registry = lock(&self.0.registry);
        registry.iter().find(|(_, place)| sends(place)).map(|(name, _)| name.clone())
    }

    /// The SDP of a cast (RFC 8866).
    ///
    /// # Errors
    /// [`NoSuchCast`].
    pub fn description(&self, name: &str) -> Result<String, NoSuchCast> {
        let cast = self.all().into_iter().find(|cast| cast.name == name && !cast.has_ended());
        let cast = cast.ok_or_else(|| NoSuchCast(name.to_owned()))?;
        let described = describe(&cast).map_err(|error| {
            tracing::error!(cast = name, %error, "a cast cannot be described");
            NoSuchCast(name.to_owned())
        })?;
        Ok(described.text)
    }

    /// What the channels of a cast send in so many slots from `first_slot` on; without it, around
    /// the present one. Slots are counted up to 2^63.
    ///
    /// # Errors
    /// There is no such cast, or it has no schedule.
    pub fn slots(
        &self,
        name: &str,
        first_slot: Option<u64>,
        slots: u32,
        now_ns: u64,
    ) -> Result<SlotsReport, NoSlots> {
        let cast = self.all().into_iter().find(|cast| cast.name == name);
        let cast = cast.ok_or_else(|| NoSuchCast(name.to_owned()))?;
        cast.slots(first_slot, slots, now_ns).ok_or_else(|| NoSlots::NoSchedule(name.to_owned()))
    }

    /// Ends a cast, or removes one that has ended from the list.
    ///
    /// # Errors
    /// [`NoSuchCast`].
    pub fn stop(&self, name: &str) -> Result<(), NoSuchCast> {
        let mut registry = lock(&self.0.registry);
        let Some(Place::Cast(cast)) = registry.get(name) else { return Err(NoSuchCast(name.to_owned())) };
        cast.is_stopped.store(true, Ordering::Relaxed);
        registry.remove(name);
        drop(registry);
        self.wake();
        Ok(())
    }

    /// The thread that sends runs.
    pub(crate) fn sent_by(&self, waker: Waker) {
        // A second thread would have other casts.
        let _ = self.0.waker.set(waker);
        self.wake();
    }

    /// All casts.
    pub(crate) fn all(&self) -> Vec<Arc<OnAir>> {
        let cast = |place: &Place| match place {
            Place::Cast(cast) => Some(Arc::clone(cast)),
            Place::Adding(_) => None,
        };
        lock(&self.0.registry).values().filter_map(cast).collect()
    }

    /// Whether no stream of a cast is in the volume any more.
    pub(crate) fn is_removed(&self, cast: &OnAir) -> bool {
        !cast.playlist.all().any(|playing| self.0.parts.library.has_stream(playing.title()))
    }

    /// Asks for the session of the next passes, which begins at `start_ns`, or of the slots from
    /// then on. Titles of a playlist that were removed are left out.
    pub(crate) fn ask(&self, cast: &OnAir, (start_ns, place): (u64, u64), now_ns: u64) {
        let next = match &cast.broadcast {
            Some(broadcast) => {
                let slot = first_slot(cast.day, broadcast.slot_ns(), start_ns.max(now_ns));
                let playing = self.of_window(cast.playlist.first(), Some((broadcast, slot)));
                Some((slot, cast.slots_start_ns(slot).unwrap_or(start_ns), playing))
            }
            None => {
                let is_there = |playing: &PlayableTitle| self.0.parts.library.has_stream(playing.title());
                let next = cast.playlist.next(place, cast.config.is_looped, is_there);
                next.map(|(place, playing)| (place, start_ns, Arc::clone(playing)))
            }
        };
        match next {
            Some((place, start_ns, playing)) => {
                let answer = self.session(playing.title().id(), &playing, start_ns, now_ns);
                cast.answered(answer.map(|session| (session, place)).map_err(|refused| refused.to_string()));
            }
            None => cast.is_over(),
        }
        self.wake();
    }

    /// The server stops: nothing is added any more.
    pub(crate) fn stops(&self) {
        self.0.is_stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn close(&self, session: &Session<PlayableTitle>) {
        self.0.parts.sessions.close(&session.key());
    }

    /// The cast, unless its channels need the group of another one.
    fn without_others(&self, registry: &BTreeMap<String, Place>, cast: OnAir) -> Result<OnAir, CastRefused> {
        let meets = |(name, place): (&String, &Place)| match place {
            Place::Cast(other) if !other.has_ended() => {
                let meets = cast.config.meets(cast.channels(), &other.config, other.channels());
                meets.then(|| (name.clone(), other.config.group))
            }
            Place::Cast(_) | Place::Adding(_) => None,
        };
        if let Some((other, group)) = registry.iter().find_map(meets) {
            return Err(CastRefused::GroupTaken { other, group });
        }
        // The group is this cast's in the registry already, so what begins from now on sees it.
        let is_own = |to: SocketAddr| cast.config.sends_to(cast.channels(), to);
        match self.0.beside.get().and_then(|sent_to| sent_to(&is_own)) {
            None => Ok(cast),
            Some(to) => Err(CastRefused::SentTo(to)),
        }
    }

    /// Reserves a name and a group.
    fn take_name(&self, config: &CastConfig) -> Result<String, CastRefused> {
        let mut registry = lock(&self.0.registry);
        for (other, place) in registry.iter() {
            let (held, channels, has_ended) = match place {
                Place::Adding(config) => (config, 1, false),
                Place::Cast(cast) => (&cast.config, cast.channels(), cast.has_ended()),
            };
            if !has_ended && held.meets(channels, config, 1) {
                return Err(CastRefused::GroupTaken { other: other.clone(), group: held.group });
            }
        }
        let is_free = |name: &str| match registry.get(name) {
            None => true,
            Some(Place::Adding(_)) => false,
            Some(Place::Cast(cast)) => cast.has_ended(),
        };
        let name = match &config.name {
            Some(name) if is_free(name) => name.clone(),
            Some(name) => return Err(CastRefused::NameTaken(name.clone())),
            None if !is_name(&config.title) => return Err(CastRefused::Name(config.title.clone())),
            None => {
                let title = &config.title;
                let numbered = (2..).map(|number| format!("{title}-{number}"));
                // Fewer than the casts that there may be are taken.
                let mut names = [title.clone()].into_iter().chain(numbered).take(CASTS_MAX + 2);
                names.find(|name| is_free(name)).ok_or(CastRefused::TooMany)?
            }
        };
        if registry.len() >= CASTS_MAX && !registry.contains_key(&name) {
            return Err(CastRefused::TooMany);
        }
        registry.insert(name.clone(), Place::Adding(config.clone()));
        Ok(name)
    }

    fn open(&self, name: &str, config: CastConfig, now_ns: u64) -> Result<OnAir, CastRefused> {
        let socket = MulticastSocket::open(&config.socket())?;
        socket.check(config.group)?;
        // A schedule has no end.
        let is_looped = config.is_looped || config.broadcast.is_some();
        let config = CastConfig { is_looped, ..config };
        let stream = self.0.parts.library.stream(&config.title)?;
        let fec = fec_of(&stream, config.fec)?;
        let is_single = config.broadcast.is_none();
        let is_repeated = config.is_looped && is_single && config.then.is_empty();
        let passes = if is_repeated { passes_of(&stream) } else { 1 };
        let playing = self.playing(stream, passes, fec.is_some());
        let others = self.others(&config, fec.is_some())?;
        let broadcast = config.broadcast.map(|wanted| broadcast_of(&playing, wanted)).transpose()?;
        let channels = broadcast.as_ref().map_or(1, |broadcast| broadcast.schedule().channels().len());
        for channel in 1..channels {
            let to = config.port_above(channel, 0);
            socket.check(to).map_err(|error| CastRefused::Channel {
                number: channel + 1,
                channels,
                to,
                error,
            })?;
        }
        let added_unix_ns = unix_ns();
        let day = DayClock::new(added_unix_ns, reel_rt::now_ns());
        let window = broadcast.as_ref().map(|broadcast| {
            let slot = first_slot(day, broadcast.slot_ns(), now_ns);
            (broadcast, slot, day.slot_starts_ns(slot, broadcast.slot_ns()).saturating_sub(PUSH_LEAD_NS))
        });
        let (place, start_ns) = window.map_or((0, now_ns), |(_, slot, start_ns)| (slot, start_ns));
        let first = self.of_window(&playing, window.map(|(broadcast, slot, _)| (broadcast, slot)));
        let session = self.session(&config.title, &first, start_ns, now_ns)?;
        let playlist = Playlist::new(playing, others);
        let identity = self.identity(name, &playlist, broadcast.as_ref());
        let mut cast = OnAir::new(
            (name.to_owned(), config),
            (identity, day, added_unix_ns),
            playlist,
            (fec, broadcast),
            (socket, self.0.parts.http),
            (session, place),
        );
        cast.train_packets = self.0.parts.train_packets;
        Ok(cast)
    }

    fn identity(&self, name: &str, playlist: &Playlist, broadcast: Option<&Broadcast>) -> Identity {
        let streams: Vec<String> = playlist.streams().map(|pushed| pushed.stream.stamp()).collect();
        let schedule = broadcast.map(Broadcast::text).unwrap_or_default();
        Identity::new(self.0.parts.library.volume().status().volume.0, name, &streams, &schedule)
    }

    /// Passes of a stream. Casts that send the same have one demand, so that one of them can read
    /// for all.
    fn playing(&self, stream: Arc<Stream>, passes: u64, with_parity: bool) -> Arc<PlayableTitle> {
        let is_same = |pushed: &PushedStream| {
            let is_same_stream = Arc::ptr_eq(&pushed.stream, &stream);
            is_same_stream && pushed.times.passes() == passes && pushed.with_parity == with_parity
        };
        let others: Vec<_> = {
            let registry = lock(&self.0.registry);
            let casts = registry.values().filter_map(|place| match place {
                Place::Cast(cast) => Some(cast.playlist.all().cloned()),
                Place::Adding(_) => None,
            });
            casts.flatten().collect()
        };
        let same = others.into_iter().find(|playing| playing.pushed().is_some_and(is_same));
        let depth = self.0.parts.depth;
        same.unwrap_or_else(|| Arc::new(PlayableTitle::of_stream(stream, passes, with_parity, depth)))
    }

    /// The titles that follow the first one. Each is opened once.
    fn others(&self, config: &CastConfig, with_parity: bool) -> Result<Vec<Arc<PlayableTitle>>, CastRefused> {
        let mut opened: BTreeMap<&str, Arc<PlayableTitle>> = BTreeMap::new();
        let mut others = Vec::with_capacity(config.then.len());
        for id in &config.then {
            let playing = match opened.get(id.as_str()) {
                Some(playing) => Arc::clone(playing),
                None => self.playing(self.0.parts.library.stream(id)?, 1, with_parity),
            };
            playing.choices(Form::Stream).ok_or(CastRefused::TooLong)?;
            opened.insert(id, Arc::clone(&playing));
            others.push(playing);
        }
        Ok(others)
    }

    /// What is sent next: all of it, or the window of a schedule that begins with a slot.
    fn of_window(
        &self,
        playing: &Arc<PlayableTitle>,
        window: Option<(&Broadcast, u64)>,
    ) -> Arc<PlayableTitle> {
        let (Some((broadcast, first_slot)), Some(pushed)) = (window, playing.pushed()) else {
            return Arc::clone(playing);
        };
        let (stream, pieces) = (Arc::clone(&pushed.stream), broadcast.window(first_slot));
        Arc::new(PlayableTitle::of_slots(stream, &pieces, pushed.with_parity, self.0.parts.depth))
    }

    fn session(
        &self,
        title: &str,
        playing: &Arc<PlayableTitle>,
        start_ns: u64,
        now_ns: u64,
    ) -> Result<OpenedSession, CastRefused> {
        let offers = playing.choices(Form::Stream).ok_or(CastRefused::TooLong)?;
        let client = SessionClient::new(Client::Server, Class::PERIODIC).through(self.0.parts.front_end);
        let sessions = &self.0.parts.sessions;
        let session = sessions.open_pushed(title, Arc::clone(playing), offers, client, start_ns, now_ns)?;
        Ok(OpenedSession::new(sessions, session))
    }

    fn wake(&self) {
        if let Some(waker) = self.0.waker.get() {
            waker.wake();
        }
    }
}

/// The matrix of the FEC of a stream, if FEC is sent.
fn fec_of(stream: &Stream, wanted: CastFec) -> Result<Option<Geometry>, CastRefused> {
    let geometry = stream.map.geometry();
    let (columns, rows) = (geometry.row_symbols(), geometry.data_rows());
    let side = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let matrix = Geometry::new(side(columns), side(rows));
    match (wanted, matrix) {
        (CastFec::Off, _) => Ok(None),
        (CastFec::Strict, Ok(matrix)) if !matrix.conforms() => Err(CastRefused::NotStrict { columns, rows }),
        (_, matrix) => matrix.map(Some).map_err(CastRefused::Matrix),
    }
}

/// The first slot that can be read in time if reading begins at a moment of the clock of the
/// server.
fn first_slot(day: DayClock, slot_ns: u64, start_ns: u64) -> u64 {
    day.slot_from(start_ns.saturating_add(PUSH_LEAD_NS), slot_ns)
}

/// The time of day, in nanoseconds since 1970.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The schedule of a stream.
fn broadcast_of(playing: &PlayableTitle, wanted: BroadcastConfig) -> Result<Broadcast, CastRefused> {
    let pushed = playing.pushed().ok_or(CastRefused::TooLong)?;
    Broadcast::of_stream(&pushed.stream, pushed.with_parity, wanted)
        .map_err(|reason| CastRefused::Schedule(reason.to_string()))
}

/// How many passes of a loop are reserved together.
fn passes_of(stream: &Stream) -> u64 {
    let ticks = u128::from(stream.index.duration_ticks().max(1));
    let wanted = u128::from(CAST_RESERVED_NS) * 27 / 1000 / ticks + 1;
    u64::try_from(wanted).unwrap_or(u64::MAX).min(CAST_PASSES_MAX)
}
