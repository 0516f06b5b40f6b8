//! Joins, from any thread: outlets are added, listed and removed.

use crate::destination::{Carrier, Destination, GroupOptions, Targets};
use crate::framing::Framing;
use crate::limits::{
    CONNECT_NS, DATAGRAM_SEND_BUFFER_BYTES, JOIN_ANSWER_NS, JOIN_LEAD_NS, LEASE_S_MAX, OUTLETS_OF_ALL_MAX,
    SEND_BUFFER_BYTES,
};
use crate::listed::Outlets;
use crate::outlet::{OutletReport, OutletState, SharedOutlet};
use crate::packet_times::packet_times;
use crate::part::Part;
use crate::refused::JoinRefused;
use reel_admit::{Client, Session, Sessions};
use reel_cache::{SessionKey, Units};
use reel_play::{Playable, PlayableTitle, uplink_client};
use reel_pour::limits::POUR_WORKAHEAD_BYTES_MAX;
use reel_pour::{PourTerms, PourWriter, Pours};
use reel_qos::Kind;
use reel_rt::lock;
use reel_serve::Waker;
use reel_udp::{Family, MulticastOptions, MulticastSocket};
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// All joins of a server. Clones are the same joins.
#[derive(Clone)]
pub struct Joins(Arc<Inner>);

struct Inner {
    targets: Targets,
    sessions: Arc<Sessions<PlayableTitle>>,
    units: Units,
    pours: Pours,
    cast_to: CastTo,
    listed: Mutex<HashMap<SessionKey, Outlets>>,
    wanted: Mutex<VecDeque<Wanted>>,
    waker: OnceLock<Waker>,
    is_stopping: AtomicBool,
    open: Arc<AtomicUsize>,
    counters: JoinCounters,
}

/// The name of the cast that sends to an address, if there is one.
type CastTo = Box<dyn Fn(SocketAddr) -> Option<String> + Send + Sync>;

/// What is counted for metrics.
#[derive(Debug, Default)]
pub(crate) struct JoinCounters {
    pub(crate) added: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) complete: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) late_bytes: AtomicU64,
    /// Trains of datagrams that a socket had no room for, and that were sent later.
    pub(crate) waited: AtomicU64,
}

/// An outlet counts among those that may be open until this is dropped.
pub(crate) struct OutletPlace(Arc<AtomicUsize>);

impl Drop for OutletPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A destination that was opened.
pub(crate) enum Opened {
    File(Part),
    Tcp(OwnedFd),
    Datagrams(DatagramSocket),
    Live(PourWriter),
}

/// A socket for datagrams to one address.
pub(crate) struct DatagramSocket {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) to: SocketAddr,
    pub(crate) framing: Framing,
}

/// Where an outlet begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// At this byte of the title as one file; without one at the first of all, or where the session
    /// is if it plays into another outlet.
    Byte(Option<u64>),
    /// Where the outlet with this number ends, whose place it takes.
    Outlet(u64),
}

impl From {
    fn replaced(self) -> Option<u64> {
        match self {
            From::Byte(_) => None,
            From::Outlet(number) => Some(number),
        }
    }
}

/// What the thread of joins is to begin.
pub(crate) struct Wanted {
    pub(crate) session: Arc<Session<PlayableTitle>>,
    pub(crate) from: From,
    pub(crate) outlet: Arc<SharedOutlet>,
    pub(crate) to: Opened,
    pub(crate) place: OutletPlace,
    pub(crate) answer: SyncSender<Result<(), JoinRefused>>,
}

impl Joins {
    /// No joins yet, of these sessions of titles in these units, into these targets. `cast_to`
    /// names the cast that sends to an address: no outlet does so beside it.
    pub fn new(
        targets: Targets,
        sessions: Arc<Sessions<PlayableTitle>>,
        units: Units,
        pours: Pours,
        cast_to: impl Fn(SocketAddr) -> Option<String> + Send + Sync + 'static,
    ) -> Joins {
        Joins(Arc::new(Inner {
            targets,
            sessions,
            units,
            pours,
            cast_to: Box::new(cast_to),
            listed: Mutex::default(),
            wanted: Mutex::default(),
            waker: OnceLock::new(),
            is_stopping: AtomicBool::new(false),
            open: Arc::default(),
            counters: JoinCounters::default(),
        }))
    }

    /// Whether any destination is allowed.
    pub fn are_possible(&self) -> bool {
        self.0.targets.are_any()
    }

    /// Whether a client may have sessions played into destinations.
    ///
    /// # Errors
    /// [`JoinRefused::OfOthers`].
    pub fn allow(&self, client: Client) -> Result<(), JoinRefused> {
        if self.0.targets.clients.has(client) { Ok(()) } else { Err(JoinRefused::OfOthers(client)) }
    }

    /// Has the session of a key played into a destination: from this byte of its title as one file
    /// on, or from where it is if it plays into another one. May wait for a disk and for the thread
    /// of joins.
    ///
    /// # Errors
    /// [`JoinRefused`].
    pub fn add(
        &self,
        key: &SessionKey,
        to: &str,
        from_byte: Option<u64>,
        now_ns: u64,
    ) -> Result<OutletReport, JoinRefused> {
        self.begin_counted(key, to, From::Byte(from_byte), now_ns)
    }

    /// Has the session of a key played into another destination in place of an outlet. What that
    /// has is complete then, and the new one begins with the next byte, under the same number. May
    /// wait as [`Joins::add`], and until what the outlet has under way has ended.
    ///
    /// # Errors
    /// [`JoinRefused`]. Then the outlet is as it was.
    pub fn replace(
        &self,
        key: &SessionKey,
        number: u64,
        to: &str,
        now_ns: u64,
    ) -> Result<OutletReport, JoinRefused> {
        self.begin_counted(key, to, From::Outlet(number), now_ns)
    }

    fn begin_counted(
        &self,
        key: &SessionKey,
        to: &str,
        from: From,
        now_ns: u64,
    ) -> Result<OutletReport, JoinRefused> {
        let added = self.begin(key, to, from, now_ns);
        let counters = self.counters();
        if added.is_ok() { &counters.added } else { &counters.refused }.fetch_add(1, Ordering::Relaxed);
        added
    }

    /// The outlets of a session, in the order in which they came; `None` if there is no such
    /// session.
    pub fn list(&self, key: &SessionKey, now_ns: u64) -> Option<Vec<OutletReport>> {
        self.0.sessions.find(key, now_ns)?;
        let mut listed = lock(&self.0.listed);
        let Some(of_session) = listed.get_mut(key) else { return Some(Vec::new()) };
        of_session.renew(now_ns);
        Some(of_session.outlets.values().map(|outlet| outlet.report()).collect())
    }

    /// The outlets of a session end if they are not listed for so long: a client that was killed
    /// ends nothing. For at most [`LEASE_S_MAX`](crate::limits::LEASE_S_MAX).
    pub fn lease(&self, key: &SessionKey, lease_s: u32, now_ns: u64) {
        if let Some(of_session) = lock(&self.0.listed).get_mut(key) {
            of_session.lease(u64::from(lease_s.min(LEASE_S_MAX)) * 1_000_000_000, now_ns);
        }
    }

    /// Whether the client of a session has not asked for its outlets in time.
    pub(crate) fn are_forsaken(&self, key: &SessionKey, now_ns: u64) -> bool {
        lock(&self.0.listed).get(key).is_some_and(|of_session| of_session.is_forsaken(now_ns))
    }

    /// Ends an outlet, or removes one that has ended from the list; `false` if there is none.
    pub fn remove(&self, key: &SessionKey, number: u64) -> bool {
        let mut listed = lock(&self.0.listed);
        let removed = listed.get_mut(key).and_then(|of_session| of_session.outlets.remove(&number));
        drop(listed);
        if let Some(outlet) = &removed {
            outlet.remove();
            self.wake();
        }
        removed.is_some()
    }

    /// Outlets that are open.
    pub(crate) fn open_outlets(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    pub(crate) fn counters(&self) -> &JoinCounters {
        &self.0.counters
    }

    /// What programs pour, and sessions.
    pub(crate) fn pours(&self) -> &Pours {
        &self.0.pours
    }

    /// The thread that plays.
    pub(crate) fn played_by(&self, waker: Waker) {
        // A second thread would have other joins.
        let _ = self.0.waker.set(waker);
        self.wake();
    }

    pub(crate) fn take_wanted(&self) -> Option<Wanted> {
        lock(&self.0.wanted).pop_front()
    }

    /// The server stops: nothing is added any more.
    pub(crate) fn stops(&self) {
        self.0.is_stopping.store(true, Ordering::Relaxed);
    }

    /// The thread begins again after a panic, and its outlets are gone.
    pub(crate) fn were_lost(&self) {
        let why = "the server has ended it because of a defect, which is in its log";
        for of_session in lock(&self.0.listed).values() {
            of_session.outlets.values().for_each(|outlet| outlet.ends(OutletState::Ended(why.to_owned())));
        }
    }

    /// Forgets the outlets of sessions that have ended.
    pub(crate) fn forget_ended_sessions(&self, now_ns: u64) {
        let keys: Vec<SessionKey> = lock(&self.0.listed).keys().copied().collect();
        // The sessions have a lock of their own.
        let gone: Vec<_> =
            keys.into_iter().filter(|key| self.0.sessions.find(key, now_ns).is_none()).collect();
        let mut listed = lock(&self.0.listed);
        gone.iter().for_each(|key| _ = listed.remove(key));
    }

    fn begin(
        &self,
        key: &SessionKey,
        to: &str,
        from: From,
        now_ns: u64,
    ) -> Result<OutletReport, JoinRefused> {
        let destination = Destination::parse(to)?;
        // Before anything is opened.
        self.may_join(&destination)?;
        let session = self.0.sessions.touch(key, now_ns).ok_or(JoinRefused::NoSuchSession)?;
        if destination.takes_packets() && session.playing().is_poured() {
            return Err(JoinRefused::PouredByPackets(to.to_owned()));
        }
        if destination.takes_packets() && session.playing().transport().is_none() {
            let (to, title) = (to.to_owned(), session.title_id().to_owned());
            return Err(JoinRefused::NoTransportStream { to, title });
        }
        self.check_casts(&destination)?;
        let place = self.place()?;
        let outlet = self.list_outlet(&session, (to, &destination), from, now_ns)?;
        // A cast that begins from now on finds the outlet. One may have begun before.
        let opened = self.check_casts(&destination);
        let opened = opened.and_then(|()| self.open_destination(&destination, (&session, now_ns)));
        let begun = opened.and_then(|to| {
            let (answer, answered) = sync_channel(1);
            let wanted = Wanted { session, from, outlet: Arc::clone(&outlet), to, place, answer };
            lock(&self.0.wanted).push_back(wanted);
            self.wake();
            let answer = answered.recv_timeout(Duration::from_nanos(JOIN_ANSWER_NS));
            answer.unwrap_or(Err(JoinRefused::NoAnswer))
        });
        self.has_begun(key, from, &outlet, begun.is_ok());
        begun.map(|()| outlet.report())
    }

    fn may_join(&self, destination: &Destination) -> Result<(), JoinRefused> {
        match destination {
            Destination::File(_) => self.0.targets.directory().map(drop),
            Destination::Live(_) => self.0.targets.check_live(),
            Destination::To(carrier, address) => self.0.targets.check(*carrier, *address),
        }
    }

    fn open_destination(
        &self,
        destination: &Destination,
        (session, now_ns): (&Session<PlayableTitle>, u64),
    ) -> Result<Opened, JoinRefused> {
        if let Some(to) = destination.datagrams_to() {
            let is_rtp = matches!(destination, Destination::To(Carrier::Rtp, _));
            return datagram_socket(to, is_rtp, &self.0.targets.groups).map(Opened::Datagrams);
        }
        match destination {
            Destination::File(name) => self.0.targets.directory()?.begin(name).map(Opened::File),
            Destination::Live(name) => {
                let terms = live_terms(session.playing());
                let terms = terms.ok_or_else(|| JoinRefused::NoFile(session.title_id().to_owned()))?;
                Ok(Opened::Live(self.0.pours.begin(name, terms, now_ns)?))
            }
            Destination::To(_, to) => {
                let socket = TcpStream::connect_timeout(to, Duration::from_nanos(CONNECT_NS));
                let no_connection = |error| JoinRefused::NoConnection { to: *to, error };
                let socket = socket.map_err(no_connection)?;
                if uplink_client(to.ip()).is_none() {
                    let bounded = set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
                    bounded.map_err(|error| no_connection(error.into()))?;
                }
                Ok(Opened::Tcp(socket.into()))
            }
        }
    }

    /// A place among all outlets that may be open.
    fn place(&self) -> Result<OutletPlace, JoinRefused> {
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(JoinRefused::Stopping);
        }
        let before = self.0.open.fetch_add(1, Ordering::Relaxed);
        let place = OutletPlace(Arc::clone(&self.0.open));
        if before < OUTLETS_OF_ALL_MAX { Ok(place) } else { Err(JoinRefused::TooMany) }
    }

    /// The destination must be no cast's.
    fn check_casts(&self, destination: &Destination) -> Result<(), JoinRefused> {
        let cast = |to| (self.0.cast_to)(to).map(|cast| JoinRefused::OfCast { to, cast });
        destination.datagrams_to().and_then(cast).map_or(Ok(()), Err)
    }

    /// Finds an address among those that datagrams of an outlet are sent to. It keeps nothing of
    /// the joins.
    pub fn sent_to(
        &self,
    ) -> impl Fn(&dyn Fn(SocketAddr) -> bool) -> Option<SocketAddr> + Send + Sync + 'static {
        let joins = Arc::downgrade(&self.0);
        move |is_asked| {
            let joins = joins.upgrade()?;
            lock(&joins.listed).values().find_map(|of_session| of_session.sends_where(is_asked))
        }
    }

    /// Lists a new outlet, or notes one that is to take the place of another.
    fn list_outlet(
        &self,
        session: &Session<PlayableTitle>,
        (to, destination): (&str, &Destination),
        from: From,
        now_ns: u64,
    ) -> Result<Arc<SharedOutlet>, JoinRefused> {
        self.forget_ended_sessions(now_ns);
        let has_deadlines = self.0.units.disks().classes().kind(session.class()) == Kind::Periodic;
        let replaced = from.replaced().map(|number| (session.key(), number));
        let datagrams_to = destination.datagrams_to();
        let mut listed = lock(&self.0.listed);
        if let Some(to) = datagrams_to {
            let is_sent_to = |(key, of_session): (&SessionKey, &Outlets)| {
                let but = replaced.and_then(|(of, number)| (of == *key).then_some(number));
                of_session.is_any_to(to, but)
            };
            if listed.iter().any(is_sent_to) {
                return Err(JoinRefused::SentTo(to));
            }
        }
        let of_session = listed.entry(session.key()).or_default();
        match from {
            From::Byte(_) => of_session.add((to, destination), has_deadlines),
            From::Outlet(number) => of_session.replace(number, (to, destination), has_deadlines),
        }
    }

    /// An outlet is played into, or not.
    fn has_begun(&self, key: &SessionKey, from: From, outlet: &SharedOutlet, is_played: bool) {
        match from {
            From::Byte(_) if is_played => {}
            From::Byte(_) => _ = self.remove(key, outlet.number),
            From::Outlet(number) => {
                if let Some(of_session) = lock(&self.0.listed).get_mut(key) {
                    of_session.replaced(number, is_played);
                }
                self.wake();
            }
        }
    }

    /// Wakes the thread that plays.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.0.waker.get() {
            waker.wake();
        }
    }
}

/// A socket for datagrams to this address.
fn datagram_socket(
    to: SocketAddr,
    is_rtp: bool,
    groups: &GroupOptions,
) -> Result<DatagramSocket, JoinRefused> {
    let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
    let options = MulticastOptions {
        interface: groups.interface.clone().filter(|_| to.ip().is_multicast()),
        ttl: groups.ttl,
        allows_unicast: true,
        send_buffer_bytes: DATAGRAM_SEND_BUFFER_BYTES,
        ..MulticastOptions::new(family)
    };
    let socket = MulticastSocket::open(&options)?;
    socket.check(to)?;
    let framing = if is_rtp { Framing::rtp().map_err(JoinRefused::Random)? } else { Framing::plain() };
    Ok(DatagramSocket { socket: socket.socket(), to, framing })
}

/// What a poured stream of a title declares that is played as a transport stream; `None` for
/// others. Its viewers have as much ahead as a branch has.
fn live_terms(playing: &PlayableTitle) -> Option<PourTerms> {
    let bytes = playing.file()?.body.bytes();
    let bytes_per_s = packet_times(playing)?.most_bytes_per_s(bytes);
    Some(PourTerms {
        bytes_per_s,
        workahead_bytes: bytes_per_s.min(POUR_WORKAHEAD_BYTES_MAX),
        delay_ns: JOIN_LEAD_NS,
        content_type: "video/mp2t".to_owned(),
    })
}
