//! An example of a front end: clients that request segments and files by a call, and keep what they
//! are sent in memory. It has no socket, no protocol and no scheduling of its own.

use crate::cinema::{ArrivalSender, Cinema};
use reel_admit::{Choices, Session, Sessions, TrackSpan};
use reel_cache::{Arrival, Body, MediaKind, Units};
use reel_play::limits::TRAIN_BYTES_MAX;
use reel_play::{
    DeliveryId, DeliveryPolicy, Engine, Event, Form, MediaRequest, NetworkPath, NewDelivery, PlainFile,
    PlayCounters, Playable, Readiness, Segment, Uplink, open_session,
};
use reel_qos::{Class, ClassTable};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

pub(crate) const SEGMENT_NS: u64 = 4_000_000_000;

/// The clients are on other machines.
pub(crate) const UPLINK: NetworkPath = NetworkPath::Uplink { train_bytes: TRAIN_BYTES_MAX };

/// A title of one track, cut into segments of equal length.
pub(crate) struct Clip {
    pub(crate) file: PlainFile,
    pub(crate) segment_bytes: u64,
    pub(crate) choices: Option<Choices>,
}

impl Playable for Clip {
    fn choices(&self, _: Form) -> Option<Choices> {
        self.choices.clone()
    }

    fn segment(&self, track: usize, number: usize) -> Option<Segment> {
        let from = (number.checked_sub(1)? as u64) * self.segment_bytes;
        let (total, until) = (self.file.body.bytes(), from + self.segment_bytes);
        let from_ns = from / self.segment_bytes * SEGMENT_NS;
        (track == 0 && from < total).then(|| Segment {
            choice: Some(0),
            span: TrackSpan { kind: MediaKind::Video, from_ns, until_ns: from_ns + SEGMENT_NS },
            body: self.file.body.slice(from..until.min(total)),
            track_ns: total.div_ceil(self.segment_bytes) * SEGMENT_NS,
        })
    }

    fn file(&self) -> Option<&PlainFile> {
        Some(&self.file)
    }
}

impl Clip {
    pub(crate) fn of(cinema: &Cinema, object: usize, segment_bytes: u64) -> Arc<Clip> {
        Self::offering(cinema, object, segment_bytes, Choices::none())
    }

    /// A title whose sessions are promised what these choices need.
    pub(crate) fn offering(
        cinema: &Cinema,
        object: usize,
        segment_bytes: u64,
        choices: Choices,
    ) -> Arc<Clip> {
        let times = Arc::from([(0, 0), (segment_bytes, SEGMENT_NS)]);
        let file = PlainFile { body: cinema.whole(object), times };
        Arc::new(Clip { file, segment_bytes, choices: Some(choices) })
    }
}

/// The front end: one thread's engine, and what its clients have.
pub(crate) struct FrontEnd {
    pub(crate) engine: Engine<Clip>,
    arrivals: Receiver<Arrival>,
    clients: HashMap<u64, Client>,
    pub(crate) now_ns: u64,
}

#[derive(Default)]
struct Client {
    delivery: DeliveryId,
    has: Vec<u8>,
    is_done: bool,
}

impl FrontEnd {
    pub(crate) fn new(units: &Units, sessions: &Arc<Sessions<Clip>>) -> FrontEnd {
        let (sender, arrivals) = channel();
        let counters = Arc::new(PlayCounters::new(&[]));
        let engine =
            Engine::new(units.clone(), Arc::new(ArrivalSender(sender)), Arc::clone(sessions), counters);
        FrontEnd { engine, arrivals, clients: HashMap::new(), now_ns: 1_000_500_000_000 }
    }

    pub(crate) fn open(&self, title: &Arc<Clip>) -> Arc<Session<Clip>> {
        let client = (IpAddr::V4(Ipv4Addr::LOCALHOST), Class::PERIODIC);
        let (sessions, classes) = (self.engine.sessions(), ClassTable::default());
        open_session(sessions, &classes, ("clip", Arc::clone(title)), Form::Ladder, client, self.now_ns)
            .expect("there is room")
    }

    /// A client requests media of its session; the engine decides how it is delivered.
    pub(crate) fn request(&mut self, client: u64, session: &Arc<Session<Clip>>, media: &MediaRequest) {
        let title = session.playing();
        let (body, file_offset) = match media {
            MediaRequest::Segment { track, number, .. } => {
                (title.segment(*track, *number).expect("the clip has it").body, 0)
            }
            MediaRequest::File(range) => (title.file.body.slice(range.clone()), range.start),
            MediaRequest::Preparation => (Body::default(), 0),
        };
        let policy = self.engine.policy(session, media, self.now_ns).expect("it is admitted");
        let (session, preamble_bytes) = (Some(Arc::clone(session)), 0);
        let (in_runs, path) = (true, UPLINK);
        let tag = client;
        let new = NewDelivery { tag, session, policy, body, preamble_bytes, file_offset, in_runs, path };
        let delivery = self.engine.open(new, self.now_ns);
        self.clients.insert(client, Client { delivery, ..Client::default() });
    }

    /// The same front end, whose clients are behind a link.
    pub(crate) fn behind(self, uplink: &Arc<Uplink>) -> FrontEnd {
        FrontEnd { engine: self.engine.through(Some(uplink.port())), ..self }
    }

    /// A client downloads a title, without a session.
    pub(crate) fn download(&mut self, client: u64, title: &Clip) -> DeliveryId {
        let new = NewDelivery {
            tag: client,
            session: None,
            policy: DeliveryPolicy::without_deadline(Class::APERIODIC),
            body: title.file.body.clone(),
            preamble_bytes: 0,
            file_offset: 0,
            in_runs: true,
            path: UPLINK,
        };
        let delivery = self.engine.open(new, self.now_ns);
        self.clients.insert(client, Client { delivery, ..Client::default() });
        delivery
    }

    /// Sends until nothing more can be sent to a client now; `false` when all was sent.
    pub(crate) fn pump(&mut self, client: u64) -> bool {
        let Some(state) = self.clients.get_mut(&client) else { return false };
        while self.engine.fill(state.delivery, self.now_ns) == Some(Readiness::Ready) {
            for chunk in self.engine.chunks(state.delivery) {
                state.has.extend_from_slice(&chunk);
                self.engine.taken(state.delivery, chunk.len() as u64, self.now_ns);
            }
        }
        if self.engine.fill(state.delivery, self.now_ns) == Some(Readiness::Done) {
            let report = self.engine.close(state.delivery).expect("it is under way");
            assert!(report.is_complete && report.media_bytes == state.has.len() as u64);
            state.is_done = true;
        }
        !state.is_done
    }

    /// Takes what has arrived, and continues with the clients that can continue.
    pub(crate) fn turn(&mut self) {
        if let Ok(arrival) = self.arrivals.recv_timeout(Duration::from_millis(5)) {
            self.engine.arrived(arrival, self.now_ns);
        }
        for arrival in self.arrivals.try_iter() {
            self.engine.arrived(arrival, self.now_ns);
        }
        self.proceed();
    }

    /// Continues with the clients that can continue.
    pub(crate) fn proceed(&mut self) {
        self.engine.turn(self.now_ns);
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Ready(client) | Event::Unit(client, _) => {
                    self.pump(client);
                }
                Event::Lost(client, error) => panic!("client {client}: {error}"),
            }
        }
    }

    pub(crate) fn delivery(&self, client: u64) -> DeliveryId {
        self.clients[&client].delivery
    }

    /// Bytes that a client has.
    pub(crate) fn bytes_of(&self, client: u64) -> usize {
        self.clients[&client].has.len()
    }

    pub(crate) fn is_done(&self, client: u64) -> bool {
        self.clients[&client].is_done
    }

    /// What a client has, when all of it was sent.
    pub(crate) fn play(&mut self, client: u64) -> Vec<u8> {
        self.pump(client);
        for _ in 0..10_000 {
            if self.is_done(client) {
                return std::mem::take(&mut self.clients.get_mut(&client).expect("it is there").has);
            }
            self.turn();
        }
        panic!("nothing moves");
    }
}
