//! Outlets: destinations that the server plays a session into.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A destination that a session is to be played into.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOutlet {
    /// The destination: `file:NAME` for a new file of the directory that the server's configuration
    /// names (`join.directory`), `tcp:ADDRESS:PORT` for what listens there, or `udp:ADDRESS:PORT`
    /// or `rtp:ADDRESS:PORT` for datagrams to a host or a group, if the session plays a transport
    /// stream (`join.to`); of such a session also `live:NAME` for a poured stream (`join.live`).
    pub to: String,
    /// The first byte of the title as one file that it gets. Without it, the first of all; or, if
    /// the session is played into another outlet already, the next one of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_byte: Option<u64>,
    /// Seconds, from 1 to 3600: if the session's outlets are not listed for so long, they end. So
    /// nothing is played on for a program that was killed. Without it, they end with the session.
    /// The last one that is given is that of all outlets of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<u32>,
}

/// A destination that takes the place of another one.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherDestination {
    /// The destination, as that of a new outlet. It begins with the byte after the last one that
    /// the outlet has until then.
    pub to: String,
}

/// An outlet of a session.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Outlet {
    /// Its number in its session, from 0 on.
    pub number: u64,
    /// Its destination.
    pub to: String,
    /// How far it has come.
    pub state: OutletStage,
    /// Why it has ended, if that was before everything came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The first byte of the title as one file that it gets.
    pub from_byte: u64,
    /// Bytes that its destination has taken.
    pub bytes: u64,
    /// Bytes among those that it has taken after they were due.
    pub late_bytes: u64,
    /// Bytes that it sends without a pause (N): a mean of its last runs; 0 before the first one has
    /// ended.
    pub run_bytes: u64,
    /// How long it pauses then (d): a mean of its last pauses. What others need of the disks, the
    /// network and the processors, and what the destination needs, is all in it.
    pub pause_ms: f64,
}

/// How far an outlet has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutletStage {
    /// The session is played into it.
    Joined,
    /// Everything came, and is where it should be.
    Complete,
    /// It has ended before.
    Ended,
}

/// The outlets of a session.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct OutletList {
    /// In the order in which they came. Those that have ended leave the list when others take their
    /// places.
    pub outlets: Vec<Outlet>,
}
