//! What the API asks of the ledger and of the disks that keep its reservations.

use crate::wire::ResourceCode;
use reel_disk::{MemberStats, SchedulerView};
use reel_qos::limits::CLASSES_MAX;
use reel_qos::{ClassTable, DiskPrice, Resource, ResourceUsage};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// Admission in a running server. No call blocks on a disk.
pub trait AdmissionService: Send + Sync + 'static {
    /// The state of everything now.
    fn report(&self) -> AdmissionReport;

    /// The classes and their shares.
    fn classes(&self) -> Arc<ClassTable>;

    /// Changes the classes and their shares from here on.
    fn set_classes(&self, classes: ClassTable);

    /// How many viewers of a stream of this rate there can be.
    fn capacity(&self, rate_bps: u64) -> CapacityReport;
}

/// The state of everything.
#[derive(Clone, Debug)]
pub struct AdmissionReport {
    /// CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// The members, in the volume's order.
    pub members: Vec<MemberView>,
    /// How much of every resource is reserved; empty if admission is off.
    pub usage: Vec<ResourceUsage>,
    /// The classes and their shares.
    pub classes: Arc<ClassTable>,
    /// What each class got, in the order of the class table.
    pub counts: [ClassCounts; CLASSES_MAX],
    /// All sessions, oldest first.
    pub sessions: Vec<SessionView>,
    /// How many of them share what others read.
    pub sharing: SharingReport,
    /// For whom data was late, the newest first.
    pub late: Vec<LateView>,
    /// Refusals since the start, by what there was too little of; those of all members together.
    pub refusals: Vec<(ResourceCode, u64)>,
}

/// The state of one member.
#[derive(Clone, Debug)]
pub struct MemberView {
    /// What it did.
    pub stats: MemberStats,
    /// The state of its scheduler.
    pub view: SchedulerView,
    /// What its requests are found to cost.
    pub price: DiskPrice,
    /// What they cost when it was measured.
    pub measured_price: DiskPrice,
}

/// What a class got since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Media bytes taken by clients.
    pub sent_bytes: u64,
    /// Units that were read after their deadline.
    pub deadline_misses: u64,
}

/// A session, without its key, which is a secret of its client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SessionRow")]
pub struct SessionView {
    /// The first characters of the key, which tell two sessions from each other.
    pub key_hint: String,
    /// The title's id.
    pub title: String,
    /// The address of its client, or the user of its program as `user 1000`.
    pub client: String,
    /// The name of its class.
    pub class: String,
    /// The average rate of what is or was reserved for it.
    pub rate_bps: u64,
    /// Whether its bytes are reserved.
    pub state: SessionState,
    /// It holds a reservation now.
    pub reserved: bool,
    /// The media time that is shown; of a client that is paused or gone, at most the end of what it
    /// asked for.
    pub position_s: u64,
    /// Media bytes sent to it.
    pub sent_bytes: u64,
    /// Seconds since it was opened.
    pub age_s: u64,
}

/// Data that was late for a session. The session may have ended since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LateViewer")]
pub struct LateView {
    /// The first characters of the session's key.
    pub key_hint: String,
    /// The title's id.
    pub title: String,
    /// The address of its client, or the user of its program as `user 1000`.
    pub client: String,
    /// The name of the class in which the data was wanted.
    pub class: String,
    /// How many units were late, within a few seconds of each other.
    pub units: u64,
    /// How late the latest of them was.
    pub late_ms: u64,
    /// Seconds since then.
    pub ago_s: u64,
}

/// Whether the bytes of a session are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    /// They are.
    Playing,
    /// They are, from a later second on: it waits for its start.
    Waiting,
    /// The client has jumped to a position for which there was no room: it is sent what no other
    /// session needs until there is.
    Displaced,
    /// The client is silent: what was reserved is free, and its next request is admitted again.
    Paused,
    /// The client was sent everything to the end: nothing is reserved any more.
    Delivered,
    /// They never were: its class has no deadlines, or admission is off.
    Unpromised,
}

/// Sessions that play the same title closely enough that one of them reads for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Sharing")]
pub struct SharingReport {
    /// Groups of such sessions.
    pub groups: usize,
    /// Sessions in them that find in memory what others have read.
    pub followers: usize,
    /// Media memory that is reserved for those.
    pub kept_bytes: u64,
}

/// How many viewers there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityReport {
    /// If no other session is open.
    pub viewers: u64,
    /// What stops one more of those; `None` if only the number of reservations does.
    pub stopped_by: Option<Resource>,
    /// Beside the open sessions; `None` if admission is off, so that no session is refused.
    pub more_now: Option<u64>,
}
