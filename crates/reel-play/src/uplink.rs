//! The network towards the clients as a scheduled resource: what may be sent now, by all threads.
//!
//! ```text
//!   thread: ask ----> [ classes by share, deliveries by due time ] ----> granted(thread)
//!           urgent -> at once
//! ```
//! Deliveries ask before they send. Together they are granted what the link carries, so no queue
//! builds up behind it, in which admitted viewers would wait behind downloads. If the rate is not
//! known, or the link carries less than that, the rate is learnt from the connections. The reasons
//! are in docs/design/network.md.

mod flow;
mod gate;
mod learner;
mod schedule;

use crate::limits::{LINK_LOOK_MAX_NS, LINK_LOOK_MIN_NS, LINK_PAYLOAD_PERMILLE};
pub use flow::{FlowMeter, FlowSample};
pub use gate::{MaySend, SendTerms, UplinkGate, UplinkSender};
use learner::Learner;
use reel_admit::client_network;
use reel_qos::limits::ROUND_NS;
use schedule::{Ask, Flow, LinkSchedule};
pub(crate) use schedule::{LaneShare, Ticket};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A link to clients that all serving threads share.
#[derive(Debug)]
pub struct Uplink {
    /// Whether it learns what the link carries.
    learns: bool,
    /// Media bytes that it carries in a second, if its rate is known.
    known_bytes_per_s: Option<u64>,
    /// Whether what it carries is known or learnt. If not, deliveries need no grants.
    is_limited: AtomicBool,
    /// Real bytes of each byte that is sent.
    scale: u64,
    state: Mutex<State>,
}

/// How fast a link is, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UplinkRate {
    /// So many bits per second at most. If the link carries less, that is learnt.
    Known(u64),
    /// It is learnt when viewers would be late.
    Learnt,
    /// Nothing is scheduled.
    Unlimited,
}

/// What is known of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkView {
    /// Media bytes that deliveries may send in a second now; `None` if they are not limited.
    pub bytes_per_s: Option<u64>,
    /// Media bytes that it carried in a second when it was full last, if less than was known
    /// before.
    pub learnt_bytes_per_s: Option<u64>,
    /// Media bytes that can be reserved in a round; `None` if they are not counted.
    pub round_bytes: Option<u64>,
}

#[derive(Debug)]
struct State {
    schedule: LinkSchedule,
    learner: Learner,
    /// What was granted to deliveries of each thread, and not collected yet.
    granted: Vec<Vec<Grant>>,
}

/// Bytes that a delivery may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) delivery: u64,
    pub(crate) share: LaneShare,
    pub(crate) bytes: u64,
}

/// One thread's access to an uplink.
#[derive(Debug)]
pub struct UplinkPort {
    uplink: Arc<Uplink>,
    thread: usize,
}

/// The client whose turn on the uplink is taken by what is sent to an address. `None` for this
/// machine: what stays on it uses no link.
pub fn uplink_client(address: IpAddr) -> Option<IpAddr> {
    (!address.to_canonical().is_loopback()).then(|| client_network(address))
}

impl Uplink {
    /// A link of this rate. Headers of packets take a part of it.
    pub fn of(rate: UplinkRate) -> Arc<Self> {
        Self::scaled(rate, 1)
    }

    /// The same link in a simulation, in which each byte that is sent stands for `scale` real ones.
    pub fn scaled(rate: UplinkRate, scale: u64) -> Arc<Self> {
        let scale = scale.max(1);
        let known_bytes_per_s = match rate {
            UplinkRate::Known(bps) => {
                let bytes_per_s =
                    u128::from(bps) * u128::from(LINK_PAYLOAD_PERMILLE) / 8000 / u128::from(scale);
                Some(u64::try_from(bytes_per_s).unwrap_or(u64::MAX))
            }
            UplinkRate::Learnt | UplinkRate::Unlimited => None,
        };
        let schedule = LinkSchedule::scaled(known_bytes_per_s.unwrap_or(u64::MAX), scale);
        Arc::new(Self {
            learns: rate != UplinkRate::Unlimited,
            known_bytes_per_s,
            is_limited: AtomicBool::new(known_bytes_per_s.is_some()),
            scale,
            state: Mutex::new(State { schedule, learner: Learner::default(), granted: Vec::new() }),
        })
    }

    /// Access for one more thread.
    pub fn port(self: &Arc<Self>) -> UplinkPort {
        let mut state = self.state();
        state.granted.push(Vec::new());
        UplinkPort { uplink: Arc::clone(self), thread: state.granted.len() - 1 }
    }

    /// What is known of it.
    pub fn view(&self) -> UplinkView {
        let state = self.state();
        // A learnt rate beyond the known one is none.
        let less = |bytes: &u64| self.known_bytes_per_s.is_none_or(|known| *bytes < known);
        let counted = state.learner.counted_bytes_per_s().filter(less);
        let per_round = |bytes_per_s: u64| {
            // Fits: a round is a second or less.
            (u128::from(bytes_per_s) * u128::from(self.scale) * u128::from(ROUND_NS) / 1_000_000_000) as u64
        };
        UplinkView {
            bytes_per_s: self.limit(&state),
            learnt_bytes_per_s: state.learner.full_bytes_per_s().filter(less),
            round_bytes: counted.or(self.known_bytes_per_s).map(per_round),
        }
    }

    /// Whether a thread panicked while it changed the order of deliveries.
    pub fn is_poisoned(&self) -> bool {
        self.state.is_poisoned()
    }

    /// How many deliveries, and other senders, wait for their turn.
    pub fn waiting(&self) -> usize {
        self.state().schedule.waiting()
    }

    /// Follows what was learnt, also while nothing is sent. To be called every round.
    pub fn tick(&self, now_ns: u64) {
        self.pass(&mut self.state(), now_ns);
    }

    fn pass(&self, state: &mut State, now_ns: u64) {
        let is_wanted = state.schedule.waiting() > 0;
        if state.learner.pass(is_wanted, now_ns) {
            let limit = self.limit(state);
            state.schedule.set_rate(limit.unwrap_or(u64::MAX));
            self.is_limited.store(limit.is_some(), Ordering::Relaxed);
        }
    }

    /// What deliveries may send in a second.
    fn limit(&self, state: &State) -> Option<u64> {
        self.known_bytes_per_s.into_iter().chain(state.learner.bytes_per_s()).min()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves at most one grant uncollected.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UplinkPort {
    /// Whether deliveries need grants.
    pub(crate) fn is_limited(&self) -> bool {
        self.uplink.is_limited.load(Ordering::Relaxed)
    }

    /// Takes what a connection to a client shows. `is_in_danger`: promised bytes that are due soon
    /// wait in its socket.
    pub(crate) fn observe(&self, client: IpAddr, sample: FlowSample, is_in_danger: bool, now_ns: u64) {
        if !self.uplink.learns {
            return;
        }
        let mut state = self.uplink.state();
        state.learner.observe(client, sample, is_in_danger, now_ns);
        self.uplink.pass(&mut state, now_ns);
    }

    /// Bytes that are due, granted at once; at most one grant's worth of `bytes`.
    pub(crate) fn take_urgent(&self, share: LaneShare, bytes: u64, now_ns: u64) -> u64 {
        self.uplink.state().schedule.take_urgent(share, bytes, now_ns)
    }

    /// Asks for `bytes` of a delivery; [`UplinkPort::granted`] gives them later.
    pub(crate) fn ask(
        &self,
        delivery: u64,
        client: IpAddr,
        share: LaneShare,
        bytes: u64,
        due_ns: u64,
    ) -> Ticket {
        let flow = Flow { thread: self.thread, delivery };
        self.uplink.state().schedule.ask(Ask { flow, share, bytes, due_ns, client })
    }

    /// The delivery no longer waits. Nothing changes if it was granted its bytes.
    pub(crate) fn forget(&self, ticket: Ticket) {
        self.uplink.state().schedule.forget(ticket);
    }

    /// Bytes that were granted and are not sent.
    pub(crate) fn give_back(&self, share: LaneShare, bytes: u64) {
        self.uplink.state().schedule.give_back(share, bytes);
    }

    /// What was granted to this thread's deliveries since the last call, and when to look again if
    /// one of them still waits.
    pub(crate) fn granted(&self, now_ns: u64) -> (Vec<Grant>, u64) {
        let mut state = self.uplink.state();
        let State { schedule, granted, .. } = &mut *state;
        while let Some((Ask { flow, share, .. }, bytes)) = schedule.grant(now_ns) {
            granted[flow.thread].push(Grant { delivery: flow.delivery, share, bytes });
        }
        let due_ns = schedule.next_ns().unwrap_or(0);
        let look_ns = due_ns.clamp(now_ns + LINK_LOOK_MIN_NS, now_ns + LINK_LOOK_MAX_NS);
        (std::mem::take(&mut granted[self.thread]), look_ns)
    }
}
