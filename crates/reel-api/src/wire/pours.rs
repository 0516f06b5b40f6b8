//! Poured streams: what programs write while it is played.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stream that a program pours.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Pour {
    /// Its name.
    pub name: String,
    /// Where it is played.
    pub address: String,
    /// Its media type.
    pub content_type: String,
    /// How fast it is played, in bits per second, as its program has declared.
    pub rate_bps: u64,
    /// How long after its time a byte is due at a viewer, in milliseconds.
    pub delay_ms: u64,
    /// Bytes that have come.
    pub bytes: u64,
    /// Its viewers, players and programs.
    pub viewers: u64,
}

/// All poured streams.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct PourList {
    /// By name.
    pub pours: Vec<Pour>,
}
