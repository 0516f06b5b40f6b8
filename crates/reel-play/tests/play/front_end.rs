//! An example of a front end: clients that request segments and files by a call, and keep what they
//! are sent in memory. It has no socket, no protocol and no scheduling of its own.

use crate::clip::Clip;
use reel_admit::{Session, SessionClient, Sessions};
use reel_cache::{Arrival, Body, SessionKey, Units};
use reel_fixture::ArrivalSender;
use reel_play::limits::TRAIN_BYTES_MAX;
use reel_play::{
    DeliveryId, DeliveryPolicy, Engine, Event, Form, MediaRequest, NetworkPath, NewDelivery, NewSession,
    PlayCounters, Playable, Readiness, open_session,
};
use reel_qos::{Class, ClassTable};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The clients are on other machines.
pub(crate) const UPLINK: NetworkPath = NetworkPath::Uplink {
    train_bytes: TRAIN_BYTES_MAX,
    client: IpAddr::V4(Ipv4Addr::LOCALHOST),
    piece_bytes: 1,
};

/// The front end: one thread's engine, and what its clients have.
pub(crate) struct FrontEnd {
    pub(crate) engine: Engine<Clip>,
    pub(crate) arrivals: Receiver<Arrival>,
    pub(crate) counters: Arc<PlayCounters>,
    pub(crate) clients: HashMap<u64, Client>,
    pub(crate) now_ns: u64,
}

#[derive(Default)]
pub(crate) struct Client {
    pub(crate) delivery: DeliveryId,
    pub(crate) has: Vec<u8>,
    /// A client that takes no more has this many bytes, until it is `None`.
    pub(crate) stops_at: Option<usize>,
    pub(crate) is_done: bool,
}

impl FrontEnd {
    pub(crate) fn new(units: &Units, sessions: &Arc<Sessions<Clip>>) -> FrontEnd {
        let (sender, arrivals) = channel();
        let (inbox, counters) = (Arc::new(ArrivalSender(sender)), Arc::new(PlayCounters::new(&[])));
        let engine = Engine::new(units.clone(), inbox, Arc::clone(sessions), Arc::clone(&counters));
        FrontEnd { engine, arrivals, counters, clients: HashMap::new(), now_ns: 1_000_500_000_000 }
    }

    pub(crate) fn open(&self, title: &Arc<Clip>) -> Arc<Session<Clip>> {
        let (key, title) = (SessionKey::random().expect("a key"), Arc::clone(title));
        let client = SessionClient::new(IpAddr::V4(Ipv4Addr::LOCALHOST), Class::PERIODIC);
        let new = NewSession { key, title_id: "clip", title, form: Form::Ladder, client };
        open_session(self.engine.sessions(), &ClassTable::default(), new, self.now_ns).expect("there is room")
    }

    /// A client requests media of its session; the engine decides how it is delivered.
    pub(crate) fn request(&mut self, client: u64, session: &Arc<Session<Clip>>, media: &MediaRequest) {
        let title = session.playing();
        let (body, offset) = match media {
            MediaRequest::Segment { track, number, .. } => {
                (title.segment(*track, *number).expect("the clip has it").body, 0)
            }
            MediaRequest::File(range) | MediaRequest::Read { range, .. } => {
                (title.file.body.slice(range.clone()), range.start)
            }
            MediaRequest::Preparation => (Body::default(), 0),
            MediaRequest::Stream(_) | MediaRequest::Parity(_) | MediaRequest::Slots => {
                unreachable!("the clip has no stream")
            }
        };
        let policy = self.engine.policy(session, media, self.now_ns).expect("it is admitted");
        self.begin(client, body, offset, policy, Some(Arc::clone(session)));
    }

    /// A client gets these bytes, which begin at `file_offset` of a file.
    pub(crate) fn begin(
        &mut self,
        tag: u64,
        body: Body,
        file_offset: u64,
        policy: DeliveryPolicy,
        session: Option<Arc<Session<Clip>>>,
    ) {
        let (preamble_bytes, in_runs, path) = (0, true, UPLINK);
        let new = NewDelivery { tag, session, policy, body, preamble_bytes, file_offset, in_runs, path };
        let delivery = self.engine.open(new, self.now_ns);
        self.clients.insert(tag, Client { delivery, ..Client::default() });
    }

    /// Sends until nothing more can be sent to a client now; `false` when all was sent.
    pub(crate) fn pump(&mut self, client: u64) -> bool {
        let Some(state) = self.clients.get_mut(&client) else { return false };
        while self.engine.fill(state.delivery, self.now_ns) == Some(Readiness::Ready) {
            for chunk in self.engine.chunks(state.delivery) {
                let room_bytes = state.stops_at.map_or(usize::MAX, |stops_at| stops_at - state.has.len());
                if room_bytes == 0 {
                    return true;
                }
                let taken = &chunk[..chunk.len().min(room_bytes)];
                state.has.extend_from_slice(taken);
                self.engine.taken(state.delivery, taken.len() as u64, self.now_ns);
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
        let first = self.arrivals.recv_timeout(Duration::from_millis(5)).ok();
        for arrival in first.into_iter().chain(self.arrivals.try_iter()) {
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
}
