//! The link between the server and its viewers: its delay, its rate and its losses. It has no clock
//! of its own.
//!
//! The whole round trip is on the link to the viewer, so that a viewer sees each segment when it
//! would really have arrived. What a viewer sends arrives at once; to the server this makes no
//! difference.

use super::limits::SEGMENT_BYTES;
use super::segment::{Segment, flag};
use reel_testkit::Rng;

/// What is between the server and a viewer.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The round trip.
    pub round_trip_ns: u64,
    /// Rate of a viewer's line; `None`: as fast as the server sends.
    pub line_bps: Option<u64>,
    /// The probability that a segment, or a viewer's packet, is lost.
    pub loss: f64,
}

/// One viewer's line.
#[derive(Debug)]
pub(super) struct Line {
    link: Link,
    rng: Rng,
    /// When the line has carried everything it was given.
    free_ns: u64,
}

impl Line {
    pub(super) fn new(link: Link, seed: u64, viewer: usize) -> Self {
        Self { link, rng: Rng::new(seed).part(viewer as u64), free_ns: 0 }
    }

    /// Carries what left the server at `now_ns`: what arrives, and when.
    pub(super) fn carry(&mut self, now_ns: u64, segment: Segment, mut arrives: impl FnMut(u64, Segment)) {
        if self.link.loss <= 0.0 {
            let due_ns = self.due_ns(now_ns, segment.bytes);
            arrives(due_ns, segment);
            return;
        }
        // A super-segment goes over the line in segments, and each may be lost.
        let mut kept: Option<Segment> = None;
        let mut at = 0;
        loop {
            let bytes = SEGMENT_BYTES.min(segment.bytes - at);
            let last = at + bytes >= segment.bytes;
            if self.lost() {
                if let Some(kept) = kept.take() {
                    arrives(self.due_ns(now_ns, kept.bytes), kept);
                }
            } else {
                let kept = kept.get_or_insert_with(|| Segment {
                    sequence: segment.sequence.wrapping_add(at),
                    flags: segment.flags & !flag::FIN,
                    bytes: 0,
                    text: Vec::new(),
                    ..segment
                });
                let text = segment.text.iter().skip(at as usize).take(bytes as usize);
                kept.text.extend(text);
                kept.bytes += bytes;
                if last {
                    kept.flags = segment.flags;
                }
            }
            at += bytes;
            if last {
                break;
            }
        }
        if let Some(kept) = kept {
            arrives(self.due_ns(now_ns, kept.bytes), kept);
        }
    }

    /// Whether the next packet is lost.
    pub(super) fn lost(&mut self) -> bool {
        self.link.loss > 0.0 && self.rng.fraction() < self.link.loss
    }

    fn due_ns(&mut self, now_ns: u64, bytes: u32) -> u64 {
        let takes_ns = self.link.line_bps.map_or(0, |bps| u64::from(bytes) * 8_000_000_000 / bps.max(1));
        self.free_ns = self.free_ns.max(now_ns) + takes_ns;
        self.free_ns + self.link.round_trip_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(bytes: u32) -> Segment {
        let text = (0..bytes).map(|at| at as u8).collect();
        Segment { flags: flag::ACK | flag::FIN, sequence: u32::MAX - 100, acknowledged: 7, bytes, text }
    }

    #[test]
    fn a_line_delays_and_does_not_go_faster_than_it_can() {
        let link = Link { round_trip_ns: 20_000_000, line_bps: Some(8_000_000), loss: 0.0 };
        let mut line = Line::new(link, 1, 0);
        let mut due = Vec::new();
        line.carry(0, segment(1000), |at, _| due.push(at));
        line.carry(500_000, segment(1000), |at, _| due.push(at));
        line.carry(9_000_000, segment(1000), |at, _| due.push(at));
        assert_eq!(due, [21_000_000, 22_000_000, 30_000_000]);
    }

    #[test]
    fn what_is_not_lost_is_what_was_sent_in_its_place() {
        let link = Link { round_trip_ns: 0, line_bps: None, loss: 0.2 };
        let whole = segment(64_000);
        let mut carried = 0_u64;
        for viewer in 0..100 {
            let mut after = whole.sequence;
            Line::new(link, 3, viewer).carry(0, whole.clone(), |_, part| {
                let at = part.sequence.wrapping_sub(whole.sequence) as usize;
                assert!(part.sequence.wrapping_sub(after) as i32 >= 0, "in order");
                assert_eq!(part.text, whole.text[at..at + part.bytes as usize]);
                let end = at + part.bytes as usize == whole.text.len();
                assert_eq!(part.has(flag::FIN), end, "only the last one ends");
                after = part.sequence.wrapping_add(part.bytes);
                carried += u64::from(part.bytes);
            });
        }
        let share = carried as f64 / (100.0 * 64_000.0);
        assert!((0.75..0.85).contains(&share), "{share}");
    }
}
