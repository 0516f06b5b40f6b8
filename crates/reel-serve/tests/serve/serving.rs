//! The threads of a front end: connections are distributed, titles opened or refused, and all ends
//! when the server stops.

use crate::film::{Film, MEMBERS};
use crate::lines::{LINE_BYTES_MAX, Lines, WITHOUT_ROOM};
use reel_admit::{Sessions, SessionsConfig};
use reel_cache::Units;
use reel_library::Library;
use reel_play::{PlayCounters, PlayableTitle, Uplink, UplinkRate};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, ClassTable, ClientShare, DiskPrice, MemberCapacity, UNLIMITED};
use reel_ring::{DriverChoice, RingConfig};
use reel_rt::Workers;
use reel_serve::limits::{DRAIN_TIME_MAX_NS, OPENING_TIME_MAX_NS};
use reel_serve::{
    FrontEnd, Listening, OpenConnections, OpenIndex, Opener, Parts, PlaceShares, ServeThreads, ThreadsConfig,
    Titles,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

/// A front end with two threads.
pub(crate) struct Serving {
    pub(crate) front_end: ServeThreads,
    openers: Vec<JoinHandle<()>>,
    address: SocketAddr,
    open: Arc<OpenConnections>,
    pub(crate) play: Arc<PlayCounters>,
    pub(crate) sessions: Arc<Sessions<PlayableTitle>>,
}

const CONNECTIONS_MAX: usize = 6;

/// Room for everything but what the network does not carry.
pub(crate) fn capacities(network_bytes: u64) -> Capacities {
    let price = DiskPrice {
        read_request_ns: 1,
        read_mib_ns: 1,
        write_request_ns: 1,
        write_mib_ns: 1,
        independent_limits: false,
    };
    Capacities {
        members: vec![MemberCapacity { price, round_ns: ROUND_NS }; MEMBERS],
        network_bytes,
        core_ns: ROUND_NS,
        core_mib_ns: Vec::new(),
        local_front_ends: Vec::new(),
        arena_bytes: UNLIMITED,
    }
}

const SEND_BUFFER_BYTES: usize = 16 << 10;

impl Serving {
    pub(crate) fn start(film: &Film) -> Serving {
        let open = |library: &Library, id: &str| library.open(id);
        Serving::opening_by(film, OPENING_TIME_MAX_NS, Box::new(open))
    }

    /// A front end whose titles are opened by this function, within this time.
    pub(crate) fn opening_by(film: &Film, time_max_ns: u64, open: Box<OpenIndex>) -> Serving {
        let volume = film.library.volume();
        let (arena, disks) = (volume.arena().clone(), volume.disks().clone());
        let units = Units::new(arena, disks.clone(), volume.health().clone(), 8);
        let titles = Arc::new(Titles::opened_by(Arc::clone(&film.library), units.depth(), open));
        let sessions = Arc::new(Sessions::new(SessionsConfig {
            sessions_max: 16,
            idle_max_ns: 60_000_000_000,
            capacities: Some(capacities(UNLIMITED)),
            classes: ClassTable::default(),
            start_wait_s: 0,
            client_share: ClientShare::ALL,
        }));
        let play = Arc::new(PlayCounters::new(&[("lines", 2)]));
        let (openers, mut opener_threads) = Workers::start("open", 2, 16).expect("threads");
        let (writers, writer_threads) = Workers::start("write", 1, 16).expect("threads");
        opener_threads.extend(writer_threads);
        let opener = Opener::new(titles, Arc::clone(&sessions), disks, Arc::clone(&play));
        let opener = opener.giving_up_after(time_max_ns);
        let uplink = Uplink::of(UplinkRate::Learnt);
        let parts = Parts {
            units,
            sessions: Arc::clone(&sessions),
            play: Arc::clone(&play),
            uplink,
            opener,
            openers,
            writers,
            drain_time_ns: DRAIN_TIME_MAX_NS,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        // Connections inherit it. A film does not fit, so sending stops and continues.
        rustix::net::sockopt::set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES).expect("set");
        let address = listener.local_addr().expect("bound");
        let open = OpenConnections::new(2, CONNECTIONS_MAX, PlaceShares::default());
        let config = ThreadsConfig {
            names: vec!["lines-0".to_owned(), "lines-1".to_owned()],
            pin: false,
            real_time_priority: 0,
            ring: RingConfig { entries: 64, driver: DriverChoice::Auto },
            front_end: 0,
            uses_uplink: false,
        };
        let listening = Listening { listeners: vec![Arc::new(listener.into())], open: Arc::clone(&open) };
        let front_end = ServeThreads::start(config, &parts, listening, |_| |_: &mut _| Lines::default())
            .expect("started");
        Serving { front_end, openers: opener_threads, address, open, play, sessions }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("it listens")
    }

    /// Requests the film and compares what comes.
    pub(crate) fn play(&self, film: &Film) {
        let answer = self.request(&film.id);
        let begin = String::from_utf8_lossy(&answer[..answer.len().min(200)]);
        let (got, meant) = (answer.len(), film.file.len());
        assert!(answer == film.file, "{got} bytes instead of {meant}: {begin}");
    }

    pub(crate) fn request(&self, title: &str) -> Vec<u8> {
        let (mut stream, mut answer) = (self.connect(), Vec::new());
        stream.write_all(format!("{title}\n").as_bytes()).expect("sent");
        stream.read_to_end(&mut answer).expect("answered");
        answer
    }

    /// What is answered to a line; the connection may end with a reset.
    pub(crate) fn request_of(&self, line: &str) -> Vec<u8> {
        let (mut stream, mut answer) = (self.connect(), Vec::new());
        stream.write_all(format!("{line}\n").as_bytes()).expect("sent");
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// Requests the film, and takes a little of it: the rest does not fit into the buffers between.
    pub(crate) fn begin(&self, film: &Film) -> (TcpStream, Vec<u8>) {
        let mut stream = self.connect();
        stream.write_all(format!("{}\n", film.id).as_bytes()).expect("sent");
        let mut answer = vec![0; 1];
        stream.read_exact(&mut answer).expect("it has begun");
        (stream, answer)
    }

    /// Waits until so many connections are open on each thread.
    pub(crate) fn until_open(&self, wanted: [usize; 2]) {
        while self.open.by_thread().ne(wanted) {
            thread::yield_now();
        }
    }

    pub(crate) fn stop(self) {
        assert!(self.front_end.is_whole());
        self.front_end.stop();
        Box::new(self.front_end).join().expect("no thread failed");
        for opener in self.openers {
            opener.join().expect("it ends when nothing holds it");
        }
        assert_eq!(self.open.by_thread().sum::<usize>(), 0);
    }
}

#[test]
fn titles_are_sent_or_refused_on_all_threads() {
    let film = Film::new();
    let serving = Serving::start(&film);
    let waiting: Vec<TcpStream> = (0..2).map(|_| serving.connect()).collect();
    serving.until_open([1, 1]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| serving.play(&film));
        }
    });
    let refused = String::from_utf8(serving.request("nothing")).expect("text");
    assert!(refused.starts_with("refused: there is no title nothing"), "{refused}");
    // A name that is too long is answered with the end.
    let mut too_long = serving.connect();
    too_long.write_all(&[b'x'; LINE_BYTES_MAX]).expect("sent");
    assert_eq!(too_long.read_to_end(&mut Vec::new()).expect("the end"), 0);
    drop(too_long);
    drop(waiting);
    serving.until_open([0, 0]);
    assert_eq!(serving.play.front_ends[0].sent_bytes.load(Ordering::Relaxed), 4 * film.file.len() as u64);
    serving.stop();
}

#[test]
fn a_session_whose_bytes_are_refused_is_closed() {
    let film = Film::new();
    let serving = Serving::start(&film);
    let refused = String::from_utf8(serving.request(&format!("{WITHOUT_ROOM}{}", film.id))).expect("text");
    assert!(refused.starts_with("refused: ") && refused.contains("network"), "{refused}");
    assert_eq!(serving.sessions.len(), 0);
    serving.stop();
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let film = Film::new();
    let serving = Serving::start(&film);
    let held: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| serving.connect()).collect();
    serving.until_open([3, 3]);
    assert_eq!(serving.connect().read_to_end(&mut Vec::new()).expect("the end"), 0);
    assert_eq!(serving.open.accepted(), CONNECTIONS_MAX as u64 + 1);
    drop(held);
    serving.until_open([0, 0]);
    serving.play(&film);
    serving.stop();
}

#[test]
fn a_response_under_way_is_finished_when_the_server_stops() {
    let film = Film::new();
    let serving = Serving::start(&film);
    let silent = serving.connect();
    let (mut stream, mut answer) = serving.begin(&film);
    let stopping = thread::spawn(move || serving.stop());
    // The client that says nothing is disconnected.
    assert_eq!((&silent).read_to_end(&mut Vec::new()).expect("the end"), 0);
    stream.read_to_end(&mut answer).expect("all of it");
    assert!(answer == film.file);
    stopping.join().expect("stopped");
}
