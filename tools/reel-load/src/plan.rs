//! What a fleet is to do.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// A whole run. The same plan and seed make the same choices of titles, arrivals and actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Playlists, a library's root (`http://host:port/`), or plain files when the viewers are
    /// paced.
    pub urls: Vec<String>,
    /// Number of players, or of paced readers.
    pub viewers: usize,
    /// What the viewers do.
    pub viewing: Viewing,
    /// The class that sessions are opened in (`?class=NAME`, understood by Reel).
    pub class: Option<String>,
    /// Clients that fetch whole files as fast as possible (the aperiodic kind).
    pub downloads: Reading,
    /// Clients that ask for little and think between (the interactive kind).
    pub browsers: Reading,
    /// The most that one client takes, in bits per second.
    pub rate_limit_bps: Option<u64>,
    /// Own addresses that clients come from in turn; empty: on loopback each from another,
    /// elsewhere as the kernel likes.
    pub from: Vec<IpAddr>,
    /// When clients come.
    pub arrivals: Arrivals,
    /// When the run ends; without it, when every viewer has seen one title.
    pub duration: Option<Duration>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Threads of the fleet.
    pub threads: usize,
}

/// The two kinds of viewers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Viewing {
    /// HLS players.
    Hls(Hls),
    /// Readers of plain files at a constant rate with a deadline for every block (Prism section 5:
    /// periodic streams).
    Paced(Paced),
}

/// How players play.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hls {
    /// Which rendition they take.
    pub rendition: Rendition,
    /// Media that must lie ready before they start or continue; at least one segment always.
    pub startup: Duration,
    /// Media they fetch ahead of the picture.
    pub buffer: Duration,
    /// Mean time between two actions (pause, seek, another title); `None` is a viewer without a
    /// remote control.
    pub vcr: Option<Duration>,
    /// Titles are chosen by Zipf's law with this exponent, in the order given; `None`: one after
    /// another.
    pub zipf: Option<f64>,
    /// A refused viewer asks again when the server said it might; otherwise it leaves.
    pub retry: bool,
}

/// Which rendition of a title a player takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Rendition {
    /// The one with the highest rate.
    Highest,
    /// The one with the lowest rate.
    Lowest,
    /// What the measured throughput allows, segment by segment.
    Adaptive,
}

/// Constant-rate readers. Block k is due `startup + k * block_bytes / rate` after the reader's
/// start, late or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paced {
    /// Bits per second.
    pub rate_bps: u64,
    /// Bytes of one read.
    pub block_bytes: u64,
    /// From the first request to the first deadline; default: the time of one block.
    pub startup: Option<Duration>,
    /// A block is asked for this long before it is due; default: the time of two blocks.
    pub ahead: Option<Duration>,
}

/// Clients that are not viewers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// How many of them.
    pub clients: usize,
    /// What they read; empty: what belongs to the plan's own URLs.
    pub urls: Vec<String>,
    /// Read ranges of so many bytes at random places instead of whole files.
    pub range_bytes: Option<u64>,
    /// Mean time between two requests.
    pub think: Duration,
}

/// When clients come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// All have come after about this long.
    pub over: Duration,
    /// How they are spread over it.
    pub shape: ArrivalShape,
}

/// How arrivals are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum ArrivalShape {
    /// Equal times.
    Uniform,
    /// Exponentially distributed times.
    Poisson,
}

impl Plan {
    /// Players of `urls` without anything beside them.
    pub fn players(urls: Vec<String>, viewers: usize) -> Self {
        Self {
            urls,
            viewers,
            viewing: Viewing::Hls(Hls::default()),
            class: None,
            downloads: Reading::default(),
            browsers: Reading::default(),
            rate_limit_bps: None,
            from: Vec::new(),
            arrivals: Arrivals { over: Duration::ZERO, shape: ArrivalShape::Uniform },
            duration: None,
            seed: 1,
            threads: 2,
        }
    }
}

impl Default for Hls {
    fn default() -> Self {
        Self {
            rendition: Rendition::Highest,
            startup: Duration::ZERO,
            buffer: Duration::from_secs(30),
            vcr: None,
            zipf: None,
            retry: false,
        }
    }
}
