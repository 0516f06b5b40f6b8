//! Which request goes to the device next. Pure: no clock, no I/O, no threads.

mod classic;
mod device;
mod ids;
mod meter;
mod policy;
mod rounds;

pub use classic::{Drr, Ordered, OrderedBy};
pub use device::DepthBound;
pub use policy::{Policy, UnknownPolicy};
pub use rounds::Rounds;

use crate::request::Requester;
use reel_qos::{Class, ClassTable, DiskPrice};

/// What a scheduler knows of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Names the request. Unique among those queued or in the device.
    pub id: u64,
    /// The class that it is served in.
    pub class: Class,
    /// The requester.
    pub requester: Requester,
    /// When it is due.
    pub deadline_ns: u64,
    /// Where on the member.
    pub offset: u64,
    /// How much.
    pub bytes: usize,
    /// Whether it writes.
    pub write: bool,
}

impl Queued {
    /// Where the disk is when it is done.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes as u64)
    }
}

/// A policy for one member. Its driver calls `pop` until that returns nothing, again after every
/// `push` and `done`, and at the time of `kept_until_ns`.
///
/// Time comes from the driver and may do anything: a clock that goes back or jumps ahead loses no
/// request.
pub trait Scheduler: Send {
    /// A new request.
    fn push(&mut self, request: Queued, now_ns: u64);

    /// The next request for the device, if the device may have one more.
    fn pop(&mut self, now_ns: u64) -> Option<Queued>;

    /// When to call `pop` again although nothing has happened since it returned nothing: the device
    /// is kept idle for an expected request until then. `None`: not before something happens.
    fn kept_until_ns(&self) -> Option<u64> {
        None
    }

    /// The device has finished a request that `pop` gave.
    fn done(&mut self, id: u64, now_ns: u64);

    /// A waiting request has this class and deadline from here on. Nothing happens if it is in the
    /// device, or if it was more urgent before.
    fn promote(&mut self, id: u64, class: Class, deadline_ns: u64);

    /// A request is not needed any more: `true` if it was waiting, and is removed. Requests in the
    /// device stay there.
    fn withdraw(&mut self, id: u64) -> bool;

    /// The classes and their shares from here on.
    fn set_classes(&mut self, classes: &ClassTable);

    /// What requests cost from here on.
    fn set_price(&mut self, price: DiskPrice);

    /// What they are found to cost from here on, by a device that is what it was.
    fn correct_price(&mut self, price: DiskPrice) {
        self.set_price(price);
    }

    /// Its state, for display.
    fn view(&self, now_ns: u64) -> SchedulerView;

    /// Waiting requests, without those in the device.
    fn len(&self) -> usize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a scheduler shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerView {
    /// The policy's name.
    pub policy: &'static str,
    /// Main periods begun.
    pub rounds: u64,
    /// Device time left in this round after all reserved work of this round and of the rounds known
    /// after it; a whole round if there is none. Negative: some of the work will be late. Only
    /// [`Rounds`] computes it; 0 elsewhere.
    pub slack_ns: i64,
    /// The least slack of the last rounds.
    pub least_slack_ns: i64,
    /// Requests given to the device after their deadline was out of reach.
    pub late: u64,
    /// The last of those.
    pub last_late: Option<LastLate>,
    /// By class, in the order of the class table.
    pub classes: Vec<ClassView>,
}

/// A request that was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastLate {
    /// When it was given to the device, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The class that it was served in.
    pub class: Class,
}

/// What a scheduler shows of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassView {
    /// Requests waiting.
    pub queued: u64,
    /// Device time it may claim in a round under scarcity.
    pub quota_ns: u64,
    /// Device time it was given in the last whole round.
    pub used_ns: u64,
    /// Device time it was given since the start.
    pub total_ns: u64,
}

/// Whether `to` is a more urgent class than `from`, that is, of a more urgent kind. Classes of one
/// kind differ in share, not in urgency.
fn more_urgent(classes: &ClassTable, to: Class, from: Class) -> bool {
    classes.kind(to) < classes.kind(from)
}
