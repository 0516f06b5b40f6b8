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

/// A session on a poured stream that is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenPouredSession {
    /// The name of its class; without one, that of streams with deadlines.
    #[serde(default)]
    pub class: Option<String>,
}

/// A session on a poured stream. It is joined to destinations: it has outlets as any session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PouredSession {
    /// The session's secret: a client that knows it may join and end the session.
    pub key: String,
    /// `live/` and the name of the stream.
    pub title: String,
    /// The name of its class.
    pub class: String,
    /// Where its outlets are.
    pub outlets: String,
    /// Seconds without a request or an outlet after which the session ends.
    pub expires_in_s: u64,
}

/// All poured streams.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct PourList {
    /// By name.
    pub pours: Vec<Pour>,
}
