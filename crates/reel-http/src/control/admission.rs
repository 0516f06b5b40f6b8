//! What the API asks of the ledger and of the disks that keep its promises.

use reel_disk::{MemberStats, SchedulerView};
use reel_qos::limits::CLASSES_MAX;
use reel_qos::{ClassTable, DiskPrice, Resource, ResourceUsage};
use reel_stream::Sharing;
use std::net::IpAddr;
use std::sync::Arc;

/// The keeper of promises. No call blocks on a disk.
pub trait AdmissionService: Send + Sync + 'static {
    /// How everything stands now.
    fn report(&self) -> AdmissionReport;

    /// The classes and their shares.
    fn classes(&self) -> Arc<ClassTable>;

    /// Changes the classes and their shares from here on.
    fn set_classes(&self, classes: ClassTable);

    /// How many viewers of a stream of this rate there can be.
    fn capacity(&self, rate_bps: u64) -> CapacityReport;
}

/// How everything stands.
#[derive(Clone, Debug)]
pub struct AdmissionReport {
    /// CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// The members, in the volume's order.
    pub members: Vec<MemberView>,
    /// How much of every resource is promised; empty if nothing is.
    pub usage: Vec<ResourceUsage>,
    /// The classes and their shares.
    pub classes: Arc<ClassTable>,
    /// What each class got, in the order of the class table.
    pub counts: [ClassCounts; CLASSES_MAX],
    /// All sessions, oldest first.
    pub sessions: Vec<SessionView>,
    /// How many of them share what others read.
    pub sharing: Sharing,
    /// Refusals since the start, by what there was too little of.
    pub refusals: Vec<(&'static str, u64)>,
}

/// How one member stands.
#[derive(Clone, Debug)]
pub struct MemberView {
    /// What it did.
    pub stats: MemberStats,
    /// What its scheduler shows.
    pub view: SchedulerView,
    /// What its requests cost.
    pub price: DiskPrice,
}

/// What a class got since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Media bytes taken by clients.
    pub sent_bytes: u64,
    /// Units that came after their deadline.
    pub deadline_misses: u64,
}

/// A session, for people: without its key, which is a secret of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// The first digits of its key, to tell two apart.
    pub key_hint: String,
    /// The title's id.
    pub title: String,
    /// Where its client is.
    pub client: IpAddr,
    /// The name of its class.
    pub class: String,
    /// The average rate of what is or was reserved for it.
    pub rate_bps: u64,
    /// `playing`: its bytes are promised; `paused`: its promise waits for its next request; `unpromised`.
    pub state: &'static str,
    /// Whether something is reserved for it now.
    pub reserved: bool,
    /// The media time that is shown; of a client that is paused or gone, at most the end of what it asked for.
    pub position_s: u64,
    /// Media bytes sent to it.
    pub sent_bytes: u64,
    /// Seconds since it was opened.
    pub age_s: u64,
}

/// How many viewers there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityReport {
    /// With nobody else there.
    pub viewers: u64,
    /// What stops one more of those; `None` if only the number of reservations does.
    pub stopped_by: Option<Resource>,
    /// Beside those who are there now; `None` if nothing is promised, and hence nobody refused.
    pub more_now: Option<u64>,
}
