//! The threads of a front end: connections are distributed, titles opened or refused, and all ends
//! when the server stops.

use crate::film::Film;
use crate::lines::{LINE_BYTES_MAX, Lines};
use reel_admit::{Sessions, SessionsConfig};
use reel_cache::Units;
use reel_play::{PlayCounters, Uplink};
use reel_qos::ClassTable;
use reel_ring::{DriverChoice, RingConfig};
use reel_rt::Workers;
use reel_serve::{FrontEnd, Listening, OpenConnections, Opener, Parts, ServeThreads, ThreadsConfig, Titles};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

/// A front end with two threads.
struct Serving {
    front_end: ServeThreads,
    openers: Vec<JoinHandle<()>>,
    address: SocketAddr,
    open: Arc<OpenConnections>,
    play: Arc<PlayCounters>,
}

const CONNECTIONS_MAX: usize = 6;

impl Serving {
    fn start(film: &Film) -> Serving {
        let volume = film.library.volume();
        let (arena, disks) = (volume.arena().clone(), volume.disks().clone());
        let units = Units::new(arena, disks.clone(), volume.health().clone(), 8);
        let titles = Arc::new(Titles::new(Arc::clone(&film.library), units.depth()));
        let sessions = Arc::new(Sessions::new(SessionsConfig {
            sessions_max: 16,
            idle_max_ns: 60_000_000_000,
            capacities: None,
            classes: ClassTable::default(),
            start_wait_s: 0,
        }));
        let play = Arc::new(PlayCounters::new(&[("lines", 2)]));
        let (openers, opener_threads) = Workers::start("open", 2, 16).expect("threads");
        let opener = Opener::new(titles, Arc::clone(&sessions), disks, Arc::clone(&play));
        let uplink = Uplink::of_unknown_rate();
        let parts = Parts { units, sessions, play: Arc::clone(&play), uplink, opener, openers };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let open = OpenConnections::new(2, CONNECTIONS_MAX);
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
        Serving { front_end, openers: opener_threads, address, open, play }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("it listens")
    }

    fn request(&self, title: &str) -> Vec<u8> {
        let (mut stream, mut answer) = (self.connect(), Vec::new());
        stream.write_all(format!("{title}\n").as_bytes()).expect("sent");
        stream.read_to_end(&mut answer).expect("answered");
        answer
    }

    /// Waits until so many connections are open on each thread.
    fn until_open(&self, wanted: [usize; 2]) {
        while self.open.by_thread().ne(wanted) {
            thread::yield_now();
        }
    }

    fn stop(self) {
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
            scope.spawn(|| assert!(serving.request(&film.id) == film.file));
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
fn connections_beyond_the_limit_are_closed() {
    let film = Film::new();
    let serving = Serving::start(&film);
    let held: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| serving.connect()).collect();
    serving.until_open([3, 3]);
    assert_eq!(serving.connect().read_to_end(&mut Vec::new()).expect("the end"), 0);
    assert_eq!(serving.open.accepted(), CONNECTIONS_MAX as u64 + 1);
    drop(held);
    serving.until_open([0, 0]);
    assert!(serving.request(&film.id) == film.file);
    serving.stop();
}

#[test]
fn a_response_under_way_is_finished_when_the_server_stops() {
    let film = Film::new();
    let serving = Serving::start(&film);
    let silent = serving.connect();
    let mut stream = serving.connect();
    stream.write_all(format!("{}\n", film.id).as_bytes()).expect("sent");
    let mut answer = vec![0; 1];
    stream.read_exact(&mut answer).expect("it has begun");
    let stopping = thread::spawn(move || serving.stop());
    // The client that says nothing is disconnected.
    assert_eq!((&silent).read_to_end(&mut Vec::new()).expect("the end"), 0);
    stream.read_to_end(&mut answer).expect("all of it");
    assert!(answer == film.file);
    stopping.join().expect("stopped");
}
