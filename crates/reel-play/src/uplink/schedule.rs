use crate::limits::{
    LINK_BURST_NS, LINK_DEBT_NS_MAX, LINK_GRANT_BYTES_MAX, LINK_GRANT_BYTES_MIN, LINK_GRANT_NS, TURNS_KEPT,
};
use reel_qos::limits::CLASSES_MAX;
use reel_qos::{Class, DEADLINE_NONE_NS};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

const SECOND_NS: u128 = 1_000_000_000;

/// The order in which deliveries send through one link, as a pure state machine.
///
/// The link has *credit*: the time that passed, minus the time that the granted bytes take on the
/// link. While there is credit, bytes are granted to the class that is furthest behind its share
/// (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996). Within a class, what is due first
/// goes first, then what arrived first. Deliveries without a due time take turns by client, in the
/// same way: a client with many deliveries gets no more than one with a single delivery. A class in
/// which nothing waits saves nothing up and owes nothing: what it leaves idle is lent to the
/// others, until its next delivery asks.
#[derive(Debug)]
pub(super) struct LinkSchedule {
    bytes_per_s: u64,
    /// Real bytes of each byte.
    scale: u64,
    /// Time on the link that may be granted now. Negative after a grant, and after urgent bytes.
    credit_ns: i64,
    /// The time up to which credit was added.
    credited_ns: u64,
    lanes: [Lane; CLASSES_MAX],
    /// The virtual time at which the last grant began.
    virtual_time: u128,
    arrivals: u64,
}

/// The deliveries of one class.
#[derive(Debug, Default)]
struct Lane {
    /// The virtual time at which its next grant begins. Each byte moves it by 1000 / share.
    next: u128,
    waiting: BTreeMap<Position, Ask>,
    /// The turn of each client: the bytes up to which its deliveries have asked.
    turns: HashMap<IpAddr, u64>,
    /// The turn of clients that ask for the first time.
    turn: u64,
}

/// The position of a delivery among those of its class that wait: by due time, turn and arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    due_ns: u64,
    turn: u64,
    arrival: u64,
}

/// A delivery of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) thread: usize,
    pub(super) delivery: u64,
}

/// The class of a delivery on the link, with its share of the link in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneShare {
    pub(crate) class: Class,
    pub(crate) permille: u32,
}

/// What a delivery asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) flow: Flow,
    pub(super) share: LaneShare,
    /// What it has to send.
    pub(super) bytes: u64,
    /// When that is due; [`DEADLINE_NONE_NS`] if it is due at no fixed time.
    pub(super) due_ns: u64,
    /// Whose turn it is, if it is due at no fixed time.
    pub(super) client: IpAddr,
}

/// The position of a delivery among those that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    class: Class,
    position: Position,
}

impl Ticket {
    /// The class that the delivery waits in.
    pub(super) fn class(&self) -> Class {
        self.class
    }
}

impl LinkSchedule {
    /// A link that carries so many bytes of deliveries in a second.
    #[cfg(test)]
    pub(super) fn new(bytes_per_s: u64) -> Self {
        Self::scaled(bytes_per_s, 1)
    }

    /// The same in a simulation, in which each byte stands for `scale` real ones.
    pub(super) fn scaled(bytes_per_s: u64, scale: u64) -> Self {
        Self {
            bytes_per_s: bytes_per_s.max(1),
            scale: scale.max(1),
            credit_ns: 0,
            credited_ns: 0,
            lanes: std::array::from_fn(|_| Lane::default()),
            virtual_time: 0,
            arrivals: 0,
        }
    }

    /// From now on the link carries so many bytes of deliveries in a second.
    pub(super) fn set_rate(&mut self, bytes_per_s: u64) {
        self.bytes_per_s = bytes_per_s.max(1);
    }

    /// Grants bytes at once, before all that wait, because they are due. The others are granted
    /// less afterwards, for at most [`LINK_DEBT_NS_MAX`].
    pub(super) fn take_urgent(&mut self, share: LaneShare, bytes: u64, now_ns: u64) -> u64 {
        self.pass(now_ns);
        let bytes = bytes.min(self.grant_bytes());
        let least_ns = self.credit_ns.min(-LINK_DEBT_NS_MAX);
        self.charge(share, bytes);
        self.credit_ns = self.credit_ns.max(least_ns);
        bytes
    }

    /// Asks for bytes; [`LinkSchedule::grant`] gives them when it is the turn of this delivery.
    pub(super) fn ask(&mut self, ask: Ask) -> Ticket {
        let granted_bytes = ask.bytes.min(self.grant_bytes());
        let lane = &mut self.lanes[ask.share.class.index()];
        if lane.waiting.is_empty() {
            lane.next = lane.next.max(self.virtual_time);
        }
        self.arrivals += 1;
        let turn = if ask.due_ns == DEADLINE_NONE_NS { lane.take_turn(ask.client, granted_bytes) } else { 0 };
        let position = Position { due_ns: ask.due_ns, turn, arrival: self.arrivals };
        lane.waiting.insert(position, ask);
        Ticket { class: ask.share.class, position }
    }

    /// The delivery no longer waits. `false` if its bytes were granted already.
    pub(super) fn forget(&mut self, ticket: Ticket) -> bool {
        self.lanes[ticket.class.index()].waiting.remove(&ticket.position).is_some()
    }

    /// The next grant: what was asked for, and how many bytes of it may be sent. `None` if nothing
    /// waits, or the link is busy with what was granted before.
    pub(super) fn grant(&mut self, now_ns: u64) -> Option<(Ask, u64)> {
        self.pass(now_ns);
        if self.credit_ns <= 0 {
            return None;
        }
        let grant_bytes = self.grant_bytes();
        let busy = self.lanes.iter_mut().filter(|lane| !lane.waiting.is_empty());
        let lane = busy.min_by_key(|lane| lane.next)?;
        let (position, ask) = lane.waiting.pop_first()?;
        self.virtual_time = lane.next;
        let bytes = ask.bytes.min(grant_bytes);
        lane.pass_turn(position.turn, bytes);
        self.charge(ask.share, bytes);
        Some((ask, bytes))
    }

    /// Bytes that were granted and are not sent.
    pub(super) fn give_back(&mut self, share: LaneShare, bytes: u64) {
        self.credit_ns = self.credit_ns.saturating_add(self.link_ns(bytes)).min(LINK_BURST_NS);
        let lane = &mut self.lanes[share.class.index()];
        lane.next = lane.next.saturating_sub(virtual_bytes(share, bytes));
    }

    /// When the link can carry something again; `None` if nothing waits for that.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let waits = self.lanes.iter().any(|lane| !lane.waiting.is_empty());
        waits.then(|| self.credited_ns.saturating_add_signed(1 - self.credit_ns.min(0)))
    }

    /// How many deliveries wait.
    pub(super) fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }

    /// The most that is granted at once: it keeps the link busy for about [`LINK_GRANT_NS`].
    fn grant_bytes(&self) -> u64 {
        let bytes = u128::from(self.bytes_per_s) * u128::from(LINK_GRANT_NS) / SECOND_NS;
        let [least, most] =
            [LINK_GRANT_BYTES_MIN, LINK_GRANT_BYTES_MAX].map(|real| (real / self.scale).max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX).clamp(least, most)
    }

    /// Adds the credit of the time that passed. A clock that goes back adds none.
    fn pass(&mut self, now_ns: u64) {
        let passed_ns = i64::try_from(now_ns.saturating_sub(self.credited_ns)).unwrap_or(i64::MAX);
        self.credited_ns = self.credited_ns.max(now_ns);
        self.credit_ns = self.credit_ns.saturating_add(passed_ns).min(LINK_BURST_NS);
    }

    fn charge(&mut self, share: LaneShare, bytes: u64) {
        self.credit_ns = self.credit_ns.saturating_sub(self.link_ns(bytes));
        let lane = &mut self.lanes[share.class.index()];
        lane.next = lane.next.max(self.virtual_time) + virtual_bytes(share, bytes);
    }

    /// The time that bytes take on the link.
    fn link_ns(&self, bytes: u64) -> i64 {
        let ns = u128::from(bytes) * SECOND_NS / u128::from(self.bytes_per_s);
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

impl Lane {
    /// The turn of the next delivery of a client, which will be granted so many bytes.
    fn take_turn(&mut self, client: IpAddr, bytes: u64) -> u64 {
        if self.turns.len() > TURNS_KEPT + 2 * self.waiting.len() {
            self.turns.retain(|_, turn| *turn > self.turn);
        }
        let next = self.turns.entry(client).or_default();
        let turn = self.turn.max(*next);
        *next = turn.saturating_add(bytes);
        turn
    }

    /// Bytes were granted to a delivery of this turn. The turn of newcomers passes on with what
    /// each of those that wait would have got of them. So newcomers without end cannot keep a
    /// client from its next turn.
    fn pass_turn(&mut self, turn: u64, bytes: u64) {
        let each_bytes = bytes / (self.waiting.len() as u64 + 1);
        self.turn = self.turn.max(turn).saturating_add(each_bytes.max(1));
    }
}

/// How far bytes move the virtual time of their class.
fn virtual_bytes(share: LaneShare, bytes: u64) -> u128 {
    u128::from(bytes) * 1000 / u128::from(share.permille.max(1))
}

#[cfg(test)]
#[path = "schedule_laws.rs"]
mod laws;
