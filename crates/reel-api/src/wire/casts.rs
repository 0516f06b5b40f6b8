//! Casts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A title that is to be sent to a group.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCast {
    /// The title's id. It must have the form `ts`.
    pub title: String,
    /// The ids of titles that follow it in the same group without a gap, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<String>,
    /// The group and the port of the media, for example `239.1.1.1:5000`. The port is even; RTCP is
    /// sent to the next one, FEC to the one after that.
    #[schemars(with = "String")]
    pub group: SocketAddr,
    /// The name of the cast, a part of its addresses. Without it, the title's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it begins again at its end.
    #[serde(default, rename = "loop")]
    pub is_looped: bool,
    /// Whether FEC is sent.
    #[serde(default)]
    pub fec: CastFec,
    /// How many networks its packets may cross, 1 to 255.
    #[serde(default = "ttl")]
    pub ttl: u8,
    /// The mark of its packets (RFC 2474), 0 to 63.
    #[serde(default)]
    pub dscp: u8,
    /// The network interface; without it, that of the routing table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Whether it is announced to receivers that look for casts (SAP).
    #[serde(default = "is_announced", rename = "announce", skip_serializing_if = "is_true")]
    pub is_announced: bool,
    /// The scheme of a broadcast to several groups, one address after another: `rfs`, `fast`,
    /// `staggered`, `skyscraper` or `skyscraper-12`. Needs `wait_s` or `bandwidth_bps`. Without it,
    /// or with `linear`, the titles are sent to one group, as their clocks say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The longest wait of a client of a broadcast, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
    /// The most that the network carries for all groups of a broadcast, in bits per second, with
    /// headers and FEC, in its busiest slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<u64>,
}

fn is_announced() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn ttl() -> u8 {
    1
}

/// Whether a cast is protected by FEC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CastFec {
    /// By the parity of the volume, whatever its matrix.
    #[default]
    Any,
    /// By the parity of the volume, and refused unless SMPTE ST 2022-1 allows its matrix.
    Strict,
    /// No FEC is sent.
    Off,
}

/// A cast.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Cast {
    /// Its name.
    pub name: String,
    /// The id of the title that is sent now.
    pub title: String,
    /// Its name.
    pub title_name: String,
    /// What receivers show: the name of the title, with that of the cast where it alone would not
    /// tell the cast from others.
    pub label: String,
    /// The ids of the titles that follow each other; missing if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub playlist: Vec<String>,
    /// The place in that list of the title that is sent now, from 0.
    #[serde(default)]
    pub playlist_place: usize,
    /// The group and the port of the media.
    pub group: String,
    /// The only sender that receivers of the group join for; missing if it is not source-specific.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where other machines get its description (SDP); missing if the server does not listen at the
    /// address from which it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether it begins again at its end.
    #[serde(rename = "loop")]
    pub is_looped: bool,
    /// The matrix of its FEC; missing if no FEC is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fec: Option<CastMatrix>,
    /// Its schedule; missing if it is sent to one group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<CastSchedule>,
    /// How far it has come.
    pub state: CastStage,
    /// Why it waits or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The media time that is sent now, in seconds; 0 of a schedule, which sends several.
    pub position_s: f64,
    /// The length of one pass, in seconds.
    pub duration_s: f64,
    /// The mean rate of its media, in bits per second, without headers and FEC.
    pub rate_bps: u64,
    /// Media packets sent.
    pub packets: u64,
    /// FEC packets sent.
    pub fec_packets: u64,
    /// Packets that left more than 20 ms after they were due.
    pub late_packets: u64,
    /// Packets that were not sent.
    pub lost_packets: u64,
    /// Why the network does not take its packets now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The address of its description for receivers (SDP).
    pub sdp: String,
}

impl Cast {
    /// What all groups are sent on average, in bits per second with FEC, without headers.
    pub fn sent_bps(&self) -> u64 {
        let media_bps = self.schedule.as_ref().map_or(self.rate_bps, |schedule| schedule.bandwidth_bps);
        media_bps + self.fec.map_or(0, |fec| media_bps / u64::from(fec.rows.max(1)))
    }
}

/// The matrix of a cast's FEC.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CastMatrix {
    /// L.
    pub columns: u8,
    /// D: the packets that one FEC packet protects.
    pub rows: u8,
    /// Whether SMPTE ST 2022-1 allows it, so that every receiver repairs with it.
    pub is_strict: bool,
}

/// The schedule of a broadcast.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct CastSchedule {
    /// The scheme.
    pub scheme: String,
    /// How many groups there are, one address after another.
    pub channels: usize,
    /// How many segments the title is cut into.
    pub segments: u32,
    /// The length of a slot, in seconds.
    pub slot_s: f64,
    /// The longest wait of a client that plays one slot behind, in seconds.
    pub wait_s: f64,
    /// What all groups are sent on average, in bits per second, without headers and FEC.
    pub bandwidth_bps: u64,
    /// What the network carries at most, in bits per second with headers and FEC.
    pub peak_bps: u64,
}

/// How far a cast has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CastStage {
    /// Its first packets are being read.
    Starting,
    /// It is sent.
    OnAir,
    /// Its loop could not be promised again in time, and is asked for each second.
    Waiting,
    /// It has ended.
    Ended,
}

/// All casts.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct CastList {
    /// By name, those that have ended included.
    pub casts: Vec<Cast>,
}
