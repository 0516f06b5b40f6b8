//! The sessions of simulated clients.

use crate::capacity::PROGRAMS;
use crate::scenario::Scenario;
use crate::title::Title;
use reel_admit::limits::{CLIENT_SHARE_PERMILLE, START_WAIT_S};
use reel_admit::{Choices, Client, OpenRefused, Session, SessionClient, Sessions, SessionsConfig, Sharing};
use reel_cache::{SessionKey, Units};
use reel_play::limits::POURED_ROUNDS;
use reel_play::{Form, NewSession, Playable, open_session};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Capacities, Class, ClassTable, ClientShare, ResourceUsage};
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
            client_share: ClientShare::permille(CLIENT_SHARE_PERMILLE),
        });
        ClientSessions { sessions: Arc::new(sessions.reading(units)), next_key: 0 }
    }

    /// Opens a title for a client that plays it in this form, or says why not.
    pub(crate) fn open(
        &mut self,
        client: u32,
        (title, form): (&Arc<Title>, Form),
        now_ns: u64,
    ) -> Result<ClientSession, String> {
        let key = self.next_key()?;
        let (title_id, classes) = (format!("title {}", title.number), ClassTable::default());
        let new = NewSession {
            key,
            title_id: &title_id,
            title: Arc::clone(title),
            form,
            client: SessionClient::new(address(client), Class::PERIODIC),
        };
        open_session(&self.sessions, &classes, new, now_ns).map_err(|refused| refused.to_string())
    }

    /// Opens a title that is sent by the clock from `start_ns` on, or says why not.
    pub(crate) fn open_pushed(
        &mut self,
        title: &Arc<Title>,
        start_ns: u64,
        now_ns: u64,
    ) -> Result<ClientSession, String> {
        let key = self.next_key()?;
        let offers = title.choices(Form::Stream).ok_or("it is too long")?;
        let (id, client) =
            (format!("title {}", title.number), SessionClient::new(Client::Server, Class::PERIODIC));
        let titled = (id.as_str(), Arc::clone(title));
        let opened = self.sessions.open_pushed_as(key, titled, offers, client, start_ns, now_ns);
        opened.map_err(|refused| refused.to_string())
    }

    /// Opens a poured stream for a client, as [`reel_play::PlayableTitle::of_poured`] has it, or
    /// says why not. It begins now.
    pub(crate) fn open_poured(
        &mut self,
        (name, title): (&str, &Arc<Title>),
        client: u32,
        now_ns: u64,
    ) -> Result<ClientSession, String> {
        let key = self.next_key()?;
        let offers = title.choices(Form::Stream).ok_or("it is no stream")?;
        let titled = (name, Arc::clone(title));
        let client = SessionClient::new(address(client), Class::PERIODIC);
        let opened = self.sessions.open_pushed_as(key, titled, offers, client, now_ns, now_ns);
        let session = opened.map_err(|refused| refused.to_string())?;
        self.continue_poured(&session, now_ns).inspect_err(|_| self.close(&session))?;
        Ok(session)
    }

    /// Opens the session of a program that pours, as [`reel_play::PlayableTitle::writer_choices`]
    /// has it, or says why not. It begins now.
    pub(crate) fn open_writer(
        &mut self,
        (name, title): (&str, &Arc<Title>),
        user: u32,
        now_ns: u64,
    ) -> Result<ClientSession, OpenRefused> {
        let key = self.next_key().map_err(OpenRefused::NoRandom)?;
        let offers = title.writer_choices().unwrap_or_else(Choices::none);
        let client = SessionClient::new(Client::User(user), Class::PERIODIC).through(PROGRAMS);
        let titled = (name, Arc::clone(title));
        let session = self.sessions.open_pushed_as(key, titled, offers, client, now_ns, now_ns)?;
        let span_ns = 0..POURED_ROUNDS as u64 * ROUND_NS;
        self.sessions.push(&session, span_ns, now_ns).inspect_err(|_| self.close(&session))?;
        Ok(session)
    }

    /// A session of a poured stream continues for [`POURED_ROUNDS`] from now on.
    pub(crate) fn continue_poured(&self, session: &ClientSession, now_ns: u64) -> Result<(), String> {
        let span_ns = 0..POURED_ROUNDS as u64 * ROUND_NS;
        self.sessions.push(session, span_ns, now_ns).map(drop).map_err(|refused| refused.to_string())
    }

    fn next_key(&mut self) -> Result<SessionKey, String> {
        self.next_key += 1;
        format!("{:032x}", self.next_key).parse().map_err(|()| "no key".to_owned())
    }

    /// All sessions, for the engine.
    pub(crate) fn for_engine(&self) -> &Arc<Sessions<Title>> {
        &self.sessions
    }

    /// The session is used now. Returns whether it is still open.
    pub(crate) fn touch(&self, session: &ClientSession, now_ns: u64) -> bool {
        self.sessions.touch(&session.key(), now_ns).is_some()
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

/// The address of a client.
pub(crate) fn address(client: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + client))
}
