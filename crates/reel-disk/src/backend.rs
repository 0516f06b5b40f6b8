//! The members of a volume, as everything above sees them.

use crate::activity::MemberActivity;
use crate::error::DiskError;
use crate::measured_price::MeasuredPrice;
use crate::member::MemberFile;
use crate::request::{DiskRequest, RequestId};
use crate::scheduler::SchedulerView;
use crate::stats::MemberStats;
use reel_qos::{Class, ClassTable, DiskPrice};
use std::sync::Arc;

/// The members of a volume; cheap to clone, usable from any thread. Real ones are made by
/// [`start_disks`](crate::start_disks).
pub type Disks = Arc<dyn DiskBackend>;

/// What answers the requests to the members of a volume: the threads that drive real members, or a
/// simulation. Every request is answered exactly once, by its `reply`, possibly before it is
/// submitted completely.
pub trait DiskBackend: Send + Sync {
    /// Takes requests. The schedulers see those of one call together.
    fn submit_all(&self, requests: &mut dyn Iterator<Item = DiskRequest>);

    /// Takes one request.
    fn submit(&self, request: DiskRequest) {
        self.submit_all(&mut std::iter::once(request));
    }

    /// A request to this member is more urgent from now on. Nothing happens if it is answered or in
    /// the device.
    fn promote(&self, member: usize, request: RequestId, class: Class, deadline_ns: u64);

    /// A request to this member is not needed any more. If it has not gone to the device yet, it is
    /// answered with [`DiskError::Withdrawn`]; otherwise as if this had not been called.
    fn withdraw(&self, _member: usize, _request: RequestId) {}

    /// Members, present or not.
    fn members(&self) -> usize;

    /// Whether there is a member of this number.
    fn is_present(&self, member: usize) -> bool;

    /// Whether a member answers, or may have to wake first.
    fn activity(&self, _member: usize) -> MemberActivity {
        MemberActivity::Active
    }

    /// What every member did so far.
    fn stats(&self) -> Vec<MemberStats>;

    /// The state of every scheduler; a short while old at most.
    fn views(&self) -> Vec<SchedulerView>;

    /// The classes and their shares.
    fn classes(&self) -> Arc<ClassTable>;

    /// Changes the classes and their shares from here on.
    fn set_classes(&self, classes: Arc<ClassTable>);

    /// What requests to a member cost, as its scheduler counts now: the price it was given,
    /// corrected by what the device does.
    fn price(&self, member: usize) -> DiskPrice;

    /// What a member was given as its price, uncorrected.
    fn measured_price(&self, member: usize) -> MeasuredPrice {
        self.price(member).into()
    }

    /// Gives a member another price.
    fn set_price(&self, member: usize, price: MeasuredPrice);

    /// Whether some member has a moving head, by the price of its reads. Then the distance between
    /// reads matters.
    fn is_rotational(&self) -> bool {
        (0..self.members()).any(|member| self.price(member).is_rotational())
    }

    /// Opens another file or device in place of a member, which may be missing. Requests under way
    /// at the old one are answered.
    ///
    /// # Errors
    /// There is no such member in this volume, or the threads have ended.
    fn replace(&self, member: usize, file: MemberFile) -> Result<(), DiskError>;

    /// Processor time that driving the members has taken, in nanoseconds; a second old at most. A
    /// simulation takes none.
    fn cpu_ns(&self) -> u64 {
        0
    }

    /// Whether everything that drives the members still runs.
    fn is_whole(&self) -> bool {
        true
    }

    /// Finishes and answers everything under way, and ends. Later requests are answered with
    /// [`DiskError::Stopped`].
    ///
    /// # Errors
    /// A thread has ended with an error before.
    fn stop(&self) -> Result<(), DiskError>;
}
