//! The network towards the clients as a scheduled resource: what may be sent now, by all threads.
//!
//! ```text
//!   thread: ask ----> [ classes by share, deliveries by due time ] ----> granted(thread)
//!           urgent -> at once
//! ```
//! Deliveries ask before they send. Together they are granted what the link carries, so no queue
//! builds up behind it, in which admitted viewers would wait behind downloads. The reasons are in
//! docs/design/network.md.

mod schedule;

use crate::limits::{LINK_LOOK_MAX_NS, LINK_LOOK_MIN_NS, LINK_PAYLOAD_PERMILLE};
use schedule::{Ask, Flow, LinkSchedule};
pub(crate) use schedule::{LaneShare, Ticket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A link to clients that all serving threads share.
#[derive(Debug)]
pub struct Uplink {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    schedule: LinkSchedule,
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

impl Uplink {
    /// A link of so many bits per second. Headers of packets take a part of them.
    pub fn new(rate_bps: u64) -> Arc<Self> {
        let bytes_per_s = u128::from(rate_bps) * u128::from(LINK_PAYLOAD_PERMILLE) / 8000;
        let schedule = LinkSchedule::new(u64::try_from(bytes_per_s).unwrap_or(u64::MAX));
        Arc::new(Self { state: Mutex::new(State { schedule, granted: Vec::new() }) })
    }

    /// Access for one more thread.
    pub fn port(self: &Arc<Self>) -> UplinkPort {
        let mut state = self.state();
        state.granted.push(Vec::new());
        UplinkPort { uplink: Arc::clone(self), thread: state.granted.len() - 1 }
    }

    /// How many deliveries wait for their turn.
    pub fn waiting(&self) -> usize {
        self.state().schedule.waiting()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves at most one grant uncollected.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UplinkPort {
    /// Bytes that are due, granted at once; at most one grant's worth of `bytes`.
    pub(crate) fn take_urgent(&self, share: LaneShare, bytes: u64, now_ns: u64) -> u64 {
        self.uplink.state().schedule.take_urgent(share, bytes, now_ns)
    }

    /// Asks for `bytes` of a delivery; [`UplinkPort::granted`] gives them later.
    pub(crate) fn ask(&self, delivery: u64, share: LaneShare, bytes: u64, due_ns: u64) -> Ticket {
        let flow = Flow { thread: self.thread, delivery };
        self.uplink.state().schedule.ask(Ask { flow, share, bytes, due_ns })
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
        let State { schedule, granted } = &mut *state;
        while let Some((Ask { flow, share, .. }, bytes)) = schedule.grant(now_ns) {
            granted[flow.thread].push(Grant { delivery: flow.delivery, share, bytes });
        }
        let due_ns = schedule.next_ns().unwrap_or(0);
        let look_ns = due_ns.clamp(now_ns + LINK_LOOK_MIN_NS, now_ns + LINK_LOOK_MAX_NS);
        (std::mem::take(&mut granted[self.thread]), look_ns)
    }
}
