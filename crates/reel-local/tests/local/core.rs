//! A core that serves streams, whose arrivals the test passes on.

use reel_admit::{Choices, Session, SessionClient, Sessions, SessionsConfig};
use reel_cache::{Arrival, SessionKey, Units};
use reel_fixture::ArrivalSender;
use reel_play::{Engine, Form, PlainFile, PlayCounters, Playable, Segment};
use reel_qos::{Class, ClassTable, ClientShare};
use reel_serve::streams::{Outlet, Streams};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// What a session would play. These streams have no session.
pub(crate) struct NoTitle;

impl Playable for NoTitle {
    fn choices(&self, _: Form) -> Option<Choices> {
        None
    }

    fn segment(&self, _: usize, _: usize) -> Option<Segment> {
        None
    }

    fn file(&self) -> Option<&PlainFile> {
        None
    }
}

pub(crate) struct Core<O> {
    pub(crate) engine: Engine<NoTitle>,
    pub(crate) arrivals: Receiver<Arrival>,
    pub(crate) streams: Streams<O>,
}

impl<O: Outlet> Core<O> {
    pub(crate) fn new(units: &Units) -> Self {
        let (sender, arrivals) = channel();
        let config = SessionsConfig {
            sessions_max: 1,
            idle_max_ns: u64::MAX,
            capacities: None,
            classes: ClassTable::default(),
            start_wait_s: 0,
            client_share: ClientShare::ALL,
        };
        let (sessions, counters) = (Arc::new(Sessions::new(config)), Arc::new(PlayCounters::new(&[])));
        let engine = Engine::new(units.clone(), Arc::new(ArrivalSender(sender)), sessions, counters);
        Core { engine, arrivals, streams: Streams::default() }
    }

    /// A session in this class, for which nothing is reserved.
    pub(crate) fn session(&self, class: Class, now_ns: u64) -> Arc<Session<NoTitle>> {
        let client = SessionClient::new(IpAddr::V4(Ipv4Addr::LOCALHOST), class);
        let (key, choices) = (SessionKey::random().unwrap(), Choices::none());
        self.engine.sessions().open_as(key, "film", Arc::new(NoTitle), choices, client, now_ns).unwrap()
    }
}
