//! What casts send when, and what they cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Some slots of a cast with a schedule, and a client that joins at the next one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CastSlots {
    /// The length of a slot, in seconds.
    pub slot_s: f64,
    /// How many segments the title is cut into.
    pub segments: u32,
    /// How many slots have passed since slot 0 began, with a fraction; below 0 before that, and
    /// null while nothing is sent.
    pub now_slot: Option<f64>,
    /// The first of these slots.
    pub first_slot: u64,
    /// The channels in order.
    pub channels: Vec<CastChannel>,
    /// What a client receives that joins when the next slot begins.
    pub client: CastClient,
}

/// What a channel sends.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CastChannel {
    /// Its group and port.
    pub group: String,
    /// The segment of each slot, from 1; null if nothing is sent.
    pub segments: Vec<Option<u32>>,
}

/// A client that follows the schedule.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CastClient {
    /// The slot with which it begins to receive. It begins to play with the slot after that.
    pub arrival_slot: u64,
    /// The slot after the last one in which it receives.
    pub until_slot: u64,
    /// What it receives and plays in these slots.
    pub segments: Vec<CastSegment>,
}

/// A segment, as a client receives it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CastSegment {
    /// The segment, from 1.
    pub segment: u32,
    /// The channel that it is received from, from 0.
    pub channel: u32,
    /// The slot in which it is received.
    pub received_slot: u64,
    /// The slot in which it is played.
    pub played_slot: u64,
}

/// What it costs to send a title.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CastPlans {
    /// The title's id.
    pub title: String,
    /// Its length, in seconds.
    pub duration_s: f64,
    /// The mean rate of one group, in bits per second, without headers and FEC.
    pub rate_bps: u64,
    /// What FEC adds, in thousandths of the rate.
    pub fec_permille: u32,
    /// What is to be known of the rate.
    pub notes: Vec<String>,
    /// Each scheme; none if neither a wait nor a bandwidth was given.
    pub plans: Vec<CastPlan>,
}

/// What one scheme costs.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CastPlan {
    /// The scheme.
    pub scheme: String,
    /// How many segments the title is cut into.
    pub segments: u32,
    /// How many groups there are.
    pub channels: usize,
    /// What all groups are sent on average, in bits per second, without headers and FEC.
    pub bandwidth_bps: u64,
    /// What the network carries at most, in bits per second with headers and FEC, when each group
    /// is sent its largest segment; null if that is not known.
    pub peak_bps: Option<u64>,
    /// The length of a slot, in seconds.
    pub slot_s: f64,
    /// The longest wait of a client, in seconds.
    pub wait_s: f64,
    /// The longest wait if the same groups carried as many segments as they can, in seconds.
    pub best_wait_s: f64,
    /// Groups that a client receives at a time, at most.
    pub client_channels: u32,
    /// Bytes that a client keeps, at most.
    pub buffer_bytes: u64,
    /// Why the title cannot be cast like this; null if it can.
    pub problem: Option<String>,
}
