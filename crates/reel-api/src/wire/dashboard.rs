//! The dashboard and the capacity.

use super::{ResourceCode, ResourceId};
use crate::admission::{LateView, SessionView, SharingReport};
use crate::classes::ClassKind;
use crate::jobs::JobStatus;
use crate::library_service::{ActivityCode, MemberStateCode, VolumeState};
use schemars::JsonSchema;
use serde::Serialize;

/// The state of admission, of the disks, and of all that uses them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Dashboard {
    /// Seconds on the server's clock, from an unknown beginning.
    pub now_s: u64,
    /// The length of a round.
    pub round_ns: u64,
    /// The volume.
    pub volume: DashboardVolume,
    /// The disks, in the volume's order.
    pub members: Vec<Member>,
    /// What is reserved of everything that can be used up; empty if admission is off.
    pub resources: Vec<ResourceUse>,
    /// The classes of traffic.
    pub classes: Vec<ClassUse>,
    /// How many sessions are open.
    pub sessions_total: usize,
    /// How many of them hold a reservation.
    pub sessions_reserved: usize,
    /// The first of them: those with a reservation first, the oldest first.
    pub sessions: Vec<SessionView>,
    /// The sessions that share what one of them reads.
    pub sharing: SharingReport,
    /// For whom data was late, the newest first; at most the last 32.
    pub late: Vec<LateView>,
    /// The casts.
    pub casts: DashboardCasts,
    /// Refusals since the server started.
    pub refusals: Vec<RefusalCount>,
    /// Jobs, newest first.
    pub jobs: Vec<JobStatus>,
}

/// The casts, in short.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct DashboardCasts {
    /// How many are on the air.
    pub on_air: usize,
    /// How many wait until their loop can be promised again.
    pub waiting: usize,
    /// What those on the air are sent, in bits per second with FEC, without headers.
    pub rate_bps: u64,
    /// Packets of all that are listed that left more than 20 ms after they were due.
    pub late_packets: u64,
    /// Packets of all that are listed that were not sent.
    pub lost_packets: u64,
}

/// The volume, in short.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DashboardVolume {
    /// How much of it works.
    pub state: VolumeState,
    /// Titles can be added and removed.
    pub writable: bool,
    /// Why they cannot.
    pub read_only: Option<String>,
}

/// A disk.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Member {
    /// Its number in the volume.
    pub member: usize,
    /// Where it is.
    pub path: String,
    /// How it is.
    pub state: MemberStateCode,
    /// It is read and written.
    pub in_use: bool,
    /// Whether it answers.
    pub activity: ActivityCode,
    /// Its state in a sentence.
    pub text: String,
    /// How its requests are scheduled: `rounds` keeps reservations.
    pub policy: &'static str,
    /// Rounds begun.
    pub rounds: u64,
    /// Device time left in this round beyond what is reserved; below 0 some of it will be late.
    pub slack_ms: f64,
    /// The least slack of the last rounds.
    pub least_slack_ms: f64,
    /// Requests given to the device after their deadline was out of reach.
    pub late: u64,
    /// The last of those; null if there was none.
    pub last_late: Option<LateRequest>,
    /// Requests that wait for the device.
    pub queued: u64,
    /// Requests in the device.
    pub in_device: u64,
    /// Requests that failed.
    pub errors: u64,
    /// What its reads are found to cost while it works.
    pub price: Price,
    /// What they cost when it was measured.
    pub measured_price: Price,
    /// What each class has of it.
    pub classes: Vec<MemberClass>,
}

/// A request that was late.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LateRequest {
    /// The name of its class.
    pub class: String,
    /// Seconds since then.
    pub ago_s: u64,
}

/// The device time that reads cost.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Price {
    /// Of a request.
    pub read_request_us: f64,
    /// Of a MiB.
    pub read_mib_us: f64,
    /// Requests and bytes are limited independently: the longer of both times decides, not their
    /// sum.
    pub independent_limits: bool,
}

/// What a class has of a disk.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemberClass {
    /// The name of the class.
    pub class: String,
    /// Requests that wait for the device.
    pub queued: u64,
    /// Device time that the class may claim in a round under scarcity.
    pub quota_ms: f64,
    /// Device time that it was given in the last whole round.
    pub used_ms: f64,
    /// Device time that it was given since the start.
    pub total_ms: f64,
    /// Bytes read and written since the start.
    pub bytes: u64,
}

/// How much of a resource is reserved.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResourceUse {
    /// Of what.
    #[serde(flatten)]
    pub of: ResourceId,
    /// What the numbers count.
    pub unit: ResourceUnit,
    /// Reserved in this round.
    pub used: u64,
    /// What can be reserved in a round; null: not known, and nothing is refused for its sake.
    pub capacity: Option<u64>,
    /// The most that is reserved in this or any later round.
    pub peak_used: u64,
}

/// What an amount of a resource counts.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceUnit {
    /// Nanoseconds in a round.
    Ns,
    /// Bytes in a round; of memory, bytes held.
    Bytes,
}

/// A class of traffic, and what it got since the start.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClassUse {
    /// Its name.
    pub name: String,
    /// How it is served.
    pub kind: ClassKind,
    /// Its share of every device under scarcity, in thousandths.
    pub share_permille: u32,
    /// Its share of the network, in thousandths.
    pub network_permille: u32,
    /// Media bytes taken by clients.
    pub sent_bytes: u64,
    /// Units that were read after their deadline.
    pub deadline_misses: u64,
}

/// How often sessions were refused because there was too little of one resource.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RefusalCount {
    /// What there was too little of; of all disks together.
    pub resource: ResourceCode,
    /// How often.
    pub count: u64,
}

/// How many viewers of a stream there can be.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Capacity {
    /// The rate of the stream.
    pub rate_bps: u64,
    /// How many there can be if no other session is open.
    pub viewers: u64,
    /// What stops one more of those; null if only the number of reservations does.
    pub stopped_by: Option<ResourceId>,
    /// How many there can be beside the open sessions; null if admission is off.
    pub more_now: Option<u64>,
}
