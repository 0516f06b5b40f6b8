//! Joins, from any thread: outlets are added, listed and removed.

use crate::destination::{Carrier, Destination, GroupOptions, Targets};
use crate::framing::Framing;
use crate::limits::{
    CONNECT_NS, DATAGRAM_SEND_BUFFER_BYTES, JOIN_ANSWER_NS, JOIN_LEAD_NS, OUTLETS_MAX, OUTLETS_OF_ALL_MAX,
    SEND_BUFFER_BYTES,
};
use crate::outlet::{OutletReport, OutletState, SharedOutlet};
use crate::packet_times::packet_times;
use crate::part::Part;
use crate::refused::JoinRefused;
use reel_admit::{Session, Sessions};
use reel_cache::{SessionKey, Units};
use reel_play::{Playable, PlayableTitle, uplink_client};
use reel_pour::limits::POUR_WORKAHEAD_BYTES_MAX;
use reel_pour::{PourTerms, PourWriter, Pours};
use reel_qos::Kind;
use reel_rt::lock;
use reel_serve::Waker;
use reel_udp::{Family, MulticastOptions, MulticastSocket};
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr, TcpStream};
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

/// The outlets of one session.
#[derive(Default)]
struct Outlets {
    next: u64,
    outlets: BTreeMap<u64, Arc<SharedOutlet>>,
}

impl Outlets {
    /// Whether one that is open goes to another machine.
    fn is_any_on_link(&self) -> bool {
        self.outlets.values().any(|outlet| outlet.uplink_client.is_some() && !outlet.has_ended())
    }

    /// Whether one that is open sends datagrams there.
    fn is_any_to(&self, to: SocketAddr) -> bool {
        self.outlets.values().any(|outlet| outlet.datagrams_to == Some(to) && !outlet.has_ended())
    }
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

/// What the thread of joins is to begin.
pub(crate) struct Wanted {
    pub(crate) session: Arc<Session<PlayableTitle>>,
    pub(crate) from_byte: Option<u64>,
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
    pub fn allow(&self, client: IpAddr) -> Result<(), JoinRefused> {
        let client = client.into();
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
        let added = self.begin(key, to, from_byte, now_ns);
        let counters = self.counters();
        if added.is_ok() { &counters.added } else { &counters.refused }.fetch_add(1, Ordering::Relaxed);
        added
    }

    /// The outlets of a session, in the order in which they came; `None` if there is no such
    /// session.
    pub fn list(&self, key: &SessionKey, now_ns: u64) -> Option<Vec<OutletReport>> {
        self.0.sessions.find(key, now_ns)?;
        let listed = lock(&self.0.listed);
        let outlets = listed.get(key).into_iter().flat_map(|of_session| of_session.outlets.values());
        Some(outlets.map(|outlet| outlet.report()).collect())
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
        from_byte: Option<u64>,
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
        let place = self.place()?;
        let outlet = self.list_outlet(&session, (to, &destination), now_ns)?;
        let begun = self.open_destination(&destination, (&session, now_ns)).and_then(|to| {
            let (answer, answered) = sync_channel(1);
            let wanted = Wanted { session, from_byte, outlet: Arc::clone(&outlet), to, place, answer };
            lock(&self.0.wanted).push_back(wanted);
            self.wake();
            let answer = answered.recv_timeout(Duration::from_nanos(JOIN_ANSWER_NS));
            answer.unwrap_or(Err(JoinRefused::NoAnswer))
        });
        if let Err(refused) = begun {
            self.remove(key, outlet.number);
            return Err(refused);
        }
        Ok(outlet.report())
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

    /// Lists a new outlet. The oldest one that has ended leaves the list for it if need be.
    fn list_outlet(
        &self,
        session: &Session<PlayableTitle>,
        (to, destination): (&str, &Destination),
        now_ns: u64,
    ) -> Result<Arc<SharedOutlet>, JoinRefused> {
        self.forget_ended_sessions(now_ns);
        let has_deadlines = self.0.units.disks().classes().kind(session.class()) == Kind::Periodic;
        let datagrams_to = destination.datagrams_to();
        if let Some(to) = datagrams_to
            && let Some(cast) = (self.0.cast_to)(to)
        {
            return Err(JoinRefused::OfCast { to, cast });
        }
        let mut listed = lock(&self.0.listed);
        if let Some(to) = datagrams_to
            && listed.values().any(|of_session| of_session.is_any_to(to))
        {
            return Err(JoinRefused::SentTo(to));
        }
        let of_session = listed.entry(session.key()).or_default();
        if has_deadlines && destination.uplink_client().is_some() && of_session.is_any_on_link() {
            return Err(JoinRefused::OneOnLink);
        }
        if of_session.outlets.len() >= OUTLETS_MAX {
            let ended = of_session.outlets.values().find(|outlet| outlet.has_ended());
            let ended = ended.map(|outlet| outlet.number).ok_or(JoinRefused::TooManyOfSession)?;
            of_session.outlets.remove(&ended);
        }
        let outlet = Arc::new(SharedOutlet::new(of_session.next, to.to_owned(), destination));
        of_session.next += 1;
        of_session.outlets.insert(outlet.number, Arc::clone(&outlet));
        Ok(outlet)
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
