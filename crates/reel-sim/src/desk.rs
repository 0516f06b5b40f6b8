//! What viewers are promised and on what terms their segments are read: the sessions of `reel-stream`, asked as `reel-http` asks them.

use crate::limits::BEGIN_DEADLINE_NS;
use crate::scenario::Scenario;
use crate::title::Title;
use reel_admit::{Session, Sessions, SessionsConfig, Sharing};
use reel_cache::{Due, MediaKind, Plan, Ramp, SessionKey, Units};
use reel_qos::limits::ROUND_NS;
use reel_qos::{AdmitError, Capacities, Class, ClassTable, ResourceUsage};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// All sessions.
pub(crate) struct Desk {
    sessions: Sessions<Title>,
    next_key: u64,
    follows: bool,
}

/// A viewer's session.
pub(crate) type Seat = Arc<Session<Title>>;

/// How a segment is read, and what is read ahead for its viewer.
pub(crate) struct Terms {
    pub(crate) class: Class,
    pub(crate) due: Due,
    /// When its first bytes are due.
    pub(crate) due_ns: u64,
    pub(crate) plan: Option<Plan>,
    /// Others play the same.
    pub(crate) reads_on: bool,
}

impl Desk {
    /// Without admission nothing is promised and nobody refused.
    pub(crate) fn new(scenario: &Scenario, capacities: Capacities, units: &Units) -> Desk {
        let sessions = Sessions::new(SessionsConfig {
            sessions_max: 1 << 20,
            idle_max_ns: 600_000_000_000,
            capacities: scenario.admission.then_some(capacities),
            classes: ClassTable::default(),
        });
        Desk { sessions: sessions.reading(units), next_key: 0, follows: scenario.follows }
    }

    /// Opens a title for a client, or says why not.
    pub(crate) fn open(&mut self, client: u32, title: &Arc<Title>, now_ns: u64) -> Result<Seat, String> {
        self.next_key += 1;
        let key: SessionKey = format!("{:032x}", self.next_key).parse().map_err(|()| "no key".to_owned())?;
        let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + client));
        let (name, mut offers) = (format!("title {}", title.number), title.offers.clone());
        if !self.follows {
            offers.shared = Arc::from([]);
        }
        let who = (address, Class::PERIODIC);
        let opened = self.sessions.open_as(key, &name, Arc::clone(title), offers, who, now_ns);
        opened.map_err(|refused| refused.to_string())
    }

    /// The terms of a segment of the pictures in one of their renditions, or of the sound in one of its languages; refused if the ledger does not follow where the viewer goes.
    pub(crate) fn ask(
        &self,
        seat: &Seat,
        (strand, choice): (MediaKind, usize),
        segment: usize,
        now_ns: u64,
    ) -> Result<Terms, AdmitError> {
        // A player asks for what its title has.
        let track = seat.playing().track(strand, choice).unwrap_or(seat.playing().best());
        self.sessions.touch(&seat.key(), now_ns);
        let choice = (strand == MediaKind::Video).then_some(choice);
        let permit = self.sessions.ask(seat, choice, &track.ask(segment), now_ns)?;
        let track_ns = track.segment_ns * track.segments() as u64;
        let reads_on = self.sessions.plays(seat, strand, (&track.body(segment), 0), track_ns, now_ns);
        let next = segment + 1;
        let next_due_ns = self.sessions.due_ns(seat, track.ask(next).from_ns, now_ns);
        // What is due at once is asked for at once.
        let plan = (next < track.segments() && next_due_ns > now_ns + 2 * ROUND_NS).then(|| Plan {
            body: track.body(next),
            class: seat.class(),
            start_ns: permit.due_ns,
            due_ns: next_due_ns,
            duration_ns: track.segment_ns,
        });
        let range = track.segment(segment);
        let ramp =
            Ramp { due_ns: permit.due_ns, duration_ns: track.segment_ns, bytes: range.end - range.start };
        let due = if permit.begins { Due::After(BEGIN_DEADLINE_NS) } else { Due::Ramp(ramp) };
        Ok(Terms { class: permit.class, due, due_ns: permit.due_ns, plan, reads_on })
    }

    /// The viewer says goodbye.
    pub(crate) fn close(&self, seat: &Seat) {
        self.sessions.close(&seat.key());
    }

    /// To be called every second.
    pub(crate) fn tend(&self, now_ns: u64) {
        self.sessions.tend(now_ns);
    }

    pub(crate) fn usage(&self, now_ns: u64) -> Vec<ResourceUsage> {
        self.sessions.usage(now_ns)
    }

    pub(crate) fn set_capacities(&self, capacities: Capacities) {
        self.sessions.set_capacities(capacities);
    }

    pub(crate) fn set_classes(&self, classes: ClassTable) {
        self.sessions.set_classes(classes);
    }

    /// How many share what others read.
    pub(crate) fn sharing(&self) -> Sharing {
        self.sessions.sharing()
    }

    /// Whether the ledger is the sum of its reservations, and nobody is without disks.
    pub(crate) fn adds_up(&self) -> bool {
        self.sessions.adds_up()
    }
}
