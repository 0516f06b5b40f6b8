//! `[[casts]]`: titles that are sent to groups as long as the server runs.

use reel::server::casts::broadcast_of;
use reel_cast::limits::CAST_TTL;
use reel_cast::{CastConfig, CastFec};
use serde::Deserialize;
use std::net::SocketAddr;

/// One cast.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CastSection {
    /// The id of the title.
    title: String,
    /// The ids of titles that follow it.
    #[serde(default)]
    then: Vec<String>,
    /// The group and the port of the media.
    group: SocketAddr,
    /// Its name; that of the title if not set.
    name: Option<String>,
    /// Whether it begins again at its end.
    #[serde(default = "is_looped", rename = "loop")]
    is_looped: bool,
    /// Whether FEC is sent.
    #[serde(default)]
    fec: Fec,
    /// How many networks its packets may cross.
    #[serde(default = "ttl")]
    ttl: u8,
    /// The mark of its packets.
    #[serde(default)]
    dscp: u8,
    /// The network interface.
    interface: Option<String>,
    /// Whether it is announced.
    #[serde(default = "is_announced", rename = "announce")]
    is_announced: bool,
    /// The scheme of a broadcast to several groups.
    scheme: Option<String>,
    /// The longest wait of its clients, in seconds.
    wait_s: Option<u32>,
    /// The most that all its groups are sent, in bits per second.
    bandwidth_bps: Option<u64>,
}

/// Whether FEC is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fec {
    #[default]
    Any,
    Strict,
    Off,
}

/// A cast of the configuration is a programme, not an event.
fn is_looped() -> bool {
    true
}

fn is_announced() -> bool {
    true
}

fn ttl() -> u8 {
    CAST_TTL
}

impl CastSection {
    /// What the server is asked for.
    ///
    /// # Errors
    /// Its schedule is not possible; the text says why.
    pub(crate) fn cast(&self) -> Result<CastConfig, String> {
        let broadcast = broadcast_of(self.scheme.as_deref(), self.wait_s.map(f64::from), self.bandwidth_bps)?;
        let CastSection {
            title, then, group, name, is_looped, fec, ttl, dscp, interface, is_announced, ..
        } = self.clone();
        let fec = match fec {
            Fec::Any => CastFec::Any,
            Fec::Strict => CastFec::Strict,
            Fec::Off => CastFec::Off,
        };
        let ttl = ttl.max(1);
        Ok(CastConfig {
            name,
            title,
            then,
            group,
            is_looped,
            fec,
            ttl,
            dscp,
            interface,
            is_announced,
            is_permanent: true,
            broadcast,
        })
    }
}
