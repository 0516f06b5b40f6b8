//! What a run says of casts.

use reel_cast::FeedCounts;
use serde::Serialize;
use std::fmt;

/// What casts sent, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CastsReport {
    /// Sessions that were begun: passes, or windows of a schedule.
    pub begun: u64,
    /// Times that there was no room for one.
    pub refused: u64,
    /// Media packets that were sent.
    pub packets: u64,
    /// FEC packets that were sent.
    pub fec_packets: u64,
    /// Packets that left more than 20 ms after they were due.
    pub late_packets: u64,
    /// How late the latest packet left.
    pub late_most_ns: u64,
}

impl CastsReport {
    /// Takes over what all casts have sent.
    pub(crate) fn sum(&mut self, casts: impl Iterator<Item = FeedCounts>) {
        let before = *self;
        *self = CastsReport { begun: before.begun, refused: before.refused, ..CastsReport::default() };
        for counts in casts {
            self.packets += counts.packets;
            self.fec_packets += counts.fec_packets;
            self.late_packets += counts.late_packets;
            self.late_most_ns = self.late_most_ns.max(counts.late_most_ns);
        }
    }
}

impl fmt::Display for CastsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CastsReport { begun, refused, packets, fec_packets, late_packets, late_most_ns } = self;
        let late_ms = *late_most_ns as f64 / 1e6;
        write!(
            f,
            "{begun} begun, {refused} refused, {packets} packets and {fec_packets} of FEC, {late_packets} late (at most {late_ms:.1} ms)"
        )
    }
}
