//! What stands behind [`crate::Disks`]: the threads that drive real members, or a simulation.

use crate::error::DiskError;
use crate::member::MemberFile;
use crate::request::{DiskRequest, Reply};
use crate::scheduler::SchedulerView;
use crate::stats::MemberStats;
use reel_qos::{Class, ClassTable, DiskPrice};
use std::sync::Arc;

/// The members of a volume. Every request is answered exactly once, by its `reply`, possibly before `submit` returns.
pub trait DiskBackend: Send + Sync {
    /// Takes requests; those of one call are seen together by the schedulers.
    fn submit(&self, requests: &mut dyn Iterator<Item = DiskRequest>);

    /// The request to this member that was submitted with this token and reply is now wanted by somebody more urgent.
    /// Nothing happens if it is over or in the device.
    fn promote(&self, member: usize, token: u64, reply: &Arc<dyn Reply>, class: Class, deadline_ns: u64);

    /// Nobody waits for the request to this member that was submitted with this token and reply. One that has not gone to the device yet is answered with
    /// [`DiskError::Withdrawn`]; others are answered as if nothing had been said.
    fn withdraw(&self, _member: usize, _token: u64, _reply: &Arc<dyn Reply>) {}

    /// Members, present or not.
    fn members(&self) -> usize;

    /// Whether there is a member of this number.
    fn is_present(&self, member: usize) -> bool;

    /// What every member did so far.
    fn stats(&self) -> Vec<MemberStats>;

    /// What every scheduler shows of itself; a short while old at most.
    fn views(&self) -> Vec<SchedulerView>;

    /// The classes and their shares.
    fn classes(&self) -> Arc<ClassTable>;

    /// Changes the classes and their shares from here on.
    fn set_classes(&self, classes: Arc<ClassTable>);

    /// What requests to a member cost, as its scheduler counts now: the price it was given, corrected by what the device does.
    fn price(&self, member: usize) -> DiskPrice;

    /// Gives a member another price.
    fn set_price(&self, member: usize, price: DiskPrice);

    /// Opens another file or device in the place of a member.
    fn replace(&self, member: usize, file: MemberFile) -> Result<(), DiskError>;

    /// Processor time that driving the members has taken, in nanoseconds; a second old at most. A simulation takes none.
    fn cpu_ns(&self) -> u64 {
        0
    }

    /// Whether everything that drives the members still runs.
    fn is_whole(&self) -> bool {
        true
    }

    /// Finishes and answers everything under way, and ends.
    fn stop(&self) -> Result<(), DiskError>;
}
