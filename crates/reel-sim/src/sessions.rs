//! The sessions of simulated clients.

use crate::scenario::Scenario;
use crate::title::Title;
use reel_admit::limits::START_WAIT_S;
use reel_admit::{Session, Sessions, SessionsConfig, Sharing};
use reel_cache::{SessionKey, Units};
use reel_play::{Form, open_session_as};
use reel_qos::{Capacities, Class, ClassTable, ResourceUsage};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// All sessions.
pub(crate) struct ClientSessions {
    sessions: Arc<Sessions<Title>>,
    next_key: u64,
}

/// A viewer's session.
pub(crate) type ClientSession = Arc<Session<Title>>;

impl ClientSessions {
    /// Without admission nothing is reserved and no session is refused.
    pub(crate) fn new(scenario: &Scenario, capacities: Capacities, units: &Units) -> ClientSessions {
        let sessions = Sessions::new(SessionsConfig {
            sessions_max: 1 << 20,
            idle_max_ns: 600_000_000_000,
            capacities: scenario.admission.then_some(capacities),
            classes: ClassTable::default(),
            start_wait_s: START_WAIT_S,
        });
        ClientSessions { sessions: Arc::new(sessions.reading(units)), next_key: 0 }
    }

    /// Opens a title for a client, or says why not.
    pub(crate) fn open(
        &mut self,
        client: u32,
        title: &Arc<Title>,
        now_ns: u64,
    ) -> Result<ClientSession, String> {
        self.next_key += 1;
        let key: SessionKey = format!("{:032x}", self.next_key).parse().map_err(|()| "no key".to_owned())?;
        let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + client));
        let (name, classes) = (format!("title {}", title.number), ClassTable::default());
        let (title, who) = ((name.as_str(), Arc::clone(title)), (address, Class::PERIODIC));
        open_session_as(key, &self.sessions, &classes, title, Form::Ladder, who, now_ns)
            .map_err(|refused| refused.to_string())
    }

    /// All sessions, for the engine.
    pub(crate) fn for_engine(&self) -> &Arc<Sessions<Title>> {
        &self.sessions
    }

    /// The session is used now.
    pub(crate) fn touch(&self, session: &ClientSession, now_ns: u64) {
        self.sessions.touch(&session.key(), now_ns);
    }

    /// The viewer closes its session.
    pub(crate) fn close(&self, session: &ClientSession) {
        self.sessions.close(&session.key());
    }

    /// To be called every second.
    pub(crate) fn tick(&self, now_ns: u64) {
        self.sessions.tick(now_ns);
    }

    pub(crate) fn usage(&self, now_ns: u64) -> Vec<ResourceUsage> {
        self.sessions.admission().usage(now_ns)
    }

    /// The number of sessions that share the reads of others.
    pub(crate) fn sharing(&self) -> Sharing {
        self.sessions.admission().sharing()
    }

    /// Whether the ledger is the sum of its reservations, and every session that needs disks has
    /// them.
    pub(crate) fn adds_up(&self) -> bool {
        self.sessions.admission().adds_up()
    }
}
