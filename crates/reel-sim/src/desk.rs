//! What viewers are promised and on what terms their segments are read: the sessions of `reel-stream`, asked as `reel-http` asks them.

use crate::limits::{INTERACTIVE_DEADLINE_NS, SEGMENT_NS};
use crate::scale::OBJECT_SCALE;
use crate::scenario::Scenario;
use crate::shelf::{Shelf, Title};
use reel_qos::{AdmitError, Capacities, Class, ClassTable, Demand, ResourceUsage};
use reel_stream::limits::SEND_LEAD_NS;
use reel_stream::{
    Ask, Body, Due, Part, Plan, Ramp, Session, SessionKey, Sessions, SessionsConfig, Strand, Stretch, demand,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// All sessions, and the demand of every title.
pub(crate) struct Desk {
    sessions: Sessions<Title>,
    offers: Vec<Arc<[Arc<Demand>]>>,
    next_key: u64,
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
}

impl Desk {
    /// Without admission nothing is promised and nobody refused.
    pub(crate) fn new(scenario: &Scenario, capacities: Capacities, shelf: &Shelf) -> Result<Desk, String> {
        let offers = shelf.titles().iter().map(|title| Some(Arc::from([Arc::new(demand_of(title)?)])));
        let offers: Option<Vec<Arc<[Arc<Demand>]>>> = offers.collect();
        let sessions = Sessions::new(SessionsConfig {
            sessions_max: 1 << 20,
            idle_max_ns: 600_000_000_000,
            capacities: scenario.admission.then_some(capacities),
            classes: ClassTable::default(),
        });
        let offers = offers.ok_or("a title is longer than anybody can promise")?;
        Ok(Desk { sessions, offers, next_key: 0 })
    }

    /// Opens a title for a client, or says why not.
    pub(crate) fn open(&mut self, client: u32, title: &Arc<Title>, now_ns: u64) -> Result<Seat, String> {
        self.next_key += 1;
        let key: SessionKey = format!("{:032x}", self.next_key).parse().map_err(|()| "no key".to_owned())?;
        let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + client));
        let offers = Arc::clone(&self.offers[title.number]);
        let name = title.map.name();
        let who = (address, Class::PERIODIC);
        let opened = self.sessions.open_as(key, name, Arc::clone(title), offers, who, now_ns);
        opened.map_err(|refused| refused.to_string())
    }

    /// The terms of a segment; refused if the ledger does not follow where the viewer goes.
    pub(crate) fn ask(&self, seat: &Seat, segment: usize, now_ns: u64) -> Result<Terms, AdmitError> {
        let title = seat.playing();
        self.sessions.touch(&seat.key(), now_ns);
        let permit = self.sessions.ask(seat, Some(0), &ask_of(segment), now_ns)?;
        let range = title.segment(segment);
        let next = segment + 1;
        let plan = (next < title.segments()).then(|| Plan {
            body: body_of(title, next),
            class: seat.class(),
            start_ns: permit.due_ns,
            due_ns: self.sessions.due_ns(seat, ask_of(next).from_ns, now_ns),
            duration_ns: SEGMENT_NS,
        });
        let bytes = range.end - range.start;
        let ramp = Ramp { due_ns: permit.due_ns, duration_ns: SEGMENT_NS, bytes };
        let due = if permit.begins { Due::After(INTERACTIVE_DEADLINE_NS) } else { Due::Ramp(ramp) };
        Ok(Terms { class: permit.class, due, due_ns: permit.due_ns, plan })
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

    /// Whether the ledger is the sum of its reservations.
    pub(crate) fn adds_up(&self) -> bool {
        self.sessions.adds_up()
    }
}

/// A segment as it is sent.
pub(crate) fn body_of(title: &Title, segment: usize) -> Body {
    Body::new([Part::Object(Arc::clone(&title.map), title.segment(segment))])
}

fn ask_of(segment: usize) -> Ask {
    let from_ns = segment as u64 * SEGMENT_NS;
    Ask { strand: Strand::Picture, from_ns, until_ns: from_ns + SEGMENT_NS }
}

/// The demand of a title as `reel-http` computes it, the bytes sent in real ones.
fn demand_of(title: &Title) -> Option<Demand> {
    let stretches = (0..title.segments()).map(|number| {
        let shown_ns = ask_of(number).from_ns;
        Stretch {
            map: &title.map,
            range: title.segment(number),
            from_ns: shown_ns.saturating_sub(SEGMENT_NS),
            due_ns: shown_ns.saturating_sub(SEND_LEAD_NS),
            duration_ns: SEGMENT_NS,
        }
    });
    let demand = demand(title.map.geometry().members(), stretches)?;
    let members = (0..demand.members()).map(|member| demand.reads(member).to_vec()).collect();
    let sent_bytes = demand.sent_bytes().iter().map(|bytes| bytes * OBJECT_SCALE).collect();
    Some(Demand::new(members, sent_bytes, demand.held_bytes()))
}
