//! What a fleet measured.

use super::histogram::Percentiles;
use serde::{Deserialize, Serialize};

/// A whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// From the first arrival to the end.
    pub(crate) took_s: f64,
    /// Ended by a signal or by its owner, before its time.
    pub(crate) interrupted: bool,
    pub(crate) viewers: Viewers,
    /// Only when the viewers were paced.
    pub(crate) paced: Option<PacedReads>,
    pub(crate) downloads: Option<Reads>,
    pub(crate) browsers: Option<Reads>,
    /// How late the fleet itself was: without this a late byte cannot be told from a late client.
    pub(crate) client: ClientDelay,
    /// The state every second.
    pub(crate) samples: Vec<Sample>,
}

/// All viewers together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Viewers {
    /// Viewers that came before the end.
    pub(crate) came: u64,
    /// Times somebody asked for a title.
    pub(crate) sessions: u64,
    /// Sessions that were let in.
    pub(crate) admitted: u64,
    /// Sessions in which a picture was shown.
    pub(crate) started: u64,
    pub(crate) refused: u64,
    pub(crate) refusals: Vec<Reason>,
    /// Sessions that ended because the server did not answer as it should.
    pub(crate) failed: u64,
    pub(crate) failures: Vec<Reason>,
    /// Requests that were made a second time.
    pub(crate) retries: u64,
    /// From opening the title to the first picture.
    pub(crate) startup_ms: Percentiles,
    /// From a seek to the picture, where the bytes were not there yet.
    pub(crate) seek_ms: Percentiles,
    pub(crate) stalls: u64,
    pub(crate) stalled_s: f64,
    pub(crate) longest_stall_s: f64,
    /// Sessions that stalled at least once.
    pub(crate) stalled_sessions: u64,
    pub(crate) played_s: f64,
    pub(crate) segments: u64,
    /// Segments of which a byte was late.
    pub(crate) late_segments: u64,
    /// Media bytes.
    pub(crate) bytes: u64,
    /// Media bytes that came after their media time was due, or had not come by then when their viewer left or sought elsewhere.
    pub(crate) late_bytes: u64,
    /// How late the latest byte was.
    pub(crate) latest_s: f64,
    /// When, after the start of the run, the first byte was late.
    pub(crate) first_late_s: Option<f64>,
    /// Changes of rendition.
    pub(crate) switches: u64,
    pub(crate) pauses: u64,
    pub(crate) seeks: u64,
    pub(crate) mbit_per_s: f64,
}

/// Something that happened for one reason, so often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reason {
    pub(crate) reason: String,
    pub(crate) count: u64,
    /// The least and the most that a refusing server said it would have granted.
    pub(crate) grantable_bps: Option<(u64, u64)>,
}

/// Paced readers: Prism's measure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PacedReads {
    pub(crate) reads: u64,
    /// Reads whose last byte came after it was due, or had not come at the end though it was due.
    pub(crate) late_reads: u64,
    /// Those that had not come at the end.
    pub(crate) unread: u64,
    pub(crate) late_reads_percent: f64,
    pub(crate) bytes: u64,
    pub(crate) late_bytes: u64,
    pub(crate) late_bytes_percent: f64,
    /// How late the latest read was.
    pub(crate) latest_s: f64,
    pub(crate) response_ms: Percentiles,
}

/// Downloads or browsers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reads {
    pub(crate) clients: u64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) mbit_per_s: f64,
    pub(crate) failed: u64,
    pub(crate) failures: Vec<Reason>,
    /// To the first byte of the body.
    pub(crate) first_byte_ms: Percentiles,
    /// To the last byte.
    pub(crate) response_ms: Percentiles,
}

/// What a 1 ms ticker on every thread of the fleet saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ClientDelay {
    pub(crate) threads: usize,
    /// How late the ticks came, beyond the millisecond that the timer rounds up by.
    pub(crate) tick_late_ms: Percentiles,
}

/// The fleet at one moment; counts are from the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) at_s: f64,
    pub(crate) starting: u64,
    pub(crate) playing: u64,
    pub(crate) stalled: u64,
    pub(crate) paused: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) late_bytes: u64,
    /// Everything the viewers received.
    pub(crate) bytes: u64,
    pub(crate) download_bytes: u64,
    pub(crate) browser_requests: u64,
}

impl Outcome {
    /// Late bytes of players or paced readers. A paced read that never came has at least one.
    pub(crate) fn late_bytes(&self) -> u64 {
        self.viewers.late_bytes + self.paced.as_ref().map_or(0, |paced| paced.late_bytes + paced.unread)
    }
}
