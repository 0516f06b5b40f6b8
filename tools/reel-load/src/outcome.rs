//! What a fleet measured.

use reel_testkit::Percentiles;
use serde::{Deserialize, Serialize};

/// A whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// From the first arrival to the end.
    pub took_s: f64,
    /// Ended early by a signal or by the program.
    pub interrupted: bool,
    /// All viewers together.
    pub viewers: Viewers,
    /// Only when the viewers were paced.
    pub paced: Option<PacedReads>,
    /// The downloads, if there were any.
    pub downloads: Option<Reads>,
    /// The interactive clients, if there were any.
    pub browsers: Option<Reads>,
    /// How late the fleet itself was. Without this a late byte cannot be told from a late client.
    pub client: ClientDelay,
    /// The state every second.
    pub samples: Vec<Sample>,
}

/// All viewers together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Viewers {
    /// Viewers that came before the end.
    pub came: u64,
    /// Times that a viewer asked for a title.
    pub sessions: u64,
    /// Sessions that were admitted.
    pub admitted: u64,
    /// Sessions in which a picture was shown.
    pub started: u64,
    /// Sessions that the server refused.
    pub refused: u64,
    /// The reasons of refusals.
    pub refusals: Vec<Reason>,
    /// Sessions that ended because the server did not answer as it should.
    pub failed: u64,
    /// The reasons of failures.
    pub failures: Vec<Reason>,
    /// Requests that were made a second time.
    pub retries: u64,
    /// From opening the title to the first picture.
    pub startup_ms: Percentiles,
    /// From a seek to the picture, where the bytes were not there yet.
    pub seek_ms: Percentiles,
    /// Times that the picture stopped because bytes were missing.
    pub stalls: u64,
    /// How long pictures stood still, all together.
    pub stalled_s: f64,
    /// The longest stall.
    pub longest_stall_s: f64,
    /// Sessions that stalled at least once.
    pub stalled_sessions: u64,
    /// Media that was shown.
    pub played_s: f64,
    /// Segments that were received.
    pub segments: u64,
    /// Segments of which a byte was late.
    pub late_segments: u64,
    /// Media bytes.
    pub bytes: u64,
    /// Media bytes that arrived after their media time, or that had not arrived by then when the
    /// viewer left or sought elsewhere.
    pub late_bytes: u64,
    /// How late the latest byte was.
    pub latest_s: f64,
    /// When, after the start of the run, the first byte was late.
    pub first_late_s: Option<f64>,
    /// Changes of rendition.
    pub switches: u64,
    /// Pauses by viewers.
    pub pauses: u64,
    /// Seeks by viewers.
    pub seeks: u64,
    /// What was received, over the whole run.
    pub mbit_per_s: f64,
}

/// How often something happened for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The reason, the same words for the same cause.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// The least and the most that a refusing server said it would have granted.
    pub grantable_bps: Option<(u64, u64)>,
}

/// Paced readers: Prism's measure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PacedReads {
    /// Reads that were due.
    pub reads: u64,
    /// Reads whose last byte came after it was due, or had not come at the end though it was due.
    pub late_reads: u64,
    /// Those that had not come at the end.
    pub unread: u64,
    /// The same of a hundred.
    pub late_reads_percent: f64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Bytes that arrived late.
    pub late_bytes: u64,
    /// The same of a hundred.
    pub late_bytes_percent: f64,
    /// How late the latest read was.
    pub latest_s: f64,
    /// From the request to the last byte.
    pub response_ms: Percentiles,
}

/// Downloads or browsers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reads {
    /// How many clients.
    pub clients: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// What was received, over the whole run.
    pub mbit_per_s: f64,
    /// Requests or sessions that failed.
    pub failed: u64,
    /// The reasons of failures.
    pub failures: Vec<Reason>,
    /// To the first byte of the body.
    pub first_byte_ms: Percentiles,
    /// To the last byte.
    pub response_ms: Percentiles,
}

/// What a 1 ms ticker on every thread of the fleet saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClientDelay {
    /// Threads of the fleet.
    pub threads: usize,
    /// How late the ticks came, beyond the millisecond that the timer rounds up by.
    pub tick_late_ms: Percentiles,
}

/// The fleet at one moment; counts are from the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The time since the start.
    pub at_s: f64,
    /// Viewers that wait for their first picture.
    pub starting: u64,
    /// Viewers whose picture moves.
    pub playing: u64,
    /// Viewers whose picture stands still because bytes are missing.
    pub stalled: u64,
    /// Viewers that pause.
    pub paused: u64,
    /// Sessions that the server refused.
    pub refused: u64,
    /// Requests or sessions that failed.
    pub failed: u64,
    /// Bytes that arrived late.
    pub late_bytes: u64,
    /// Everything the viewers received.
    pub bytes: u64,
    /// Everything that downloads received.
    pub download_bytes: u64,
    /// Requests of interactive clients that were answered.
    pub browser_requests: u64,
}

impl Outcome {
    /// Late bytes of players or paced readers. A paced read that never arrived counts as one at
    /// least.
    pub fn late_bytes(&self) -> u64 {
        self.viewers.late_bytes + self.paced.as_ref().map_or(0, |paced| paced.late_bytes + paced.unread)
    }
}
