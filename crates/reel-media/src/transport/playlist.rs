//! HLS of a stored transport stream (RFC 8216): a playlist whose segments are ranges of one file.
//!
//! A segment begins with the tables of the programme and a picture that can be decoded alone. Its
//! time is that in which its packets are due. Where the clock of the stream jumps, there is a
//! discontinuity, since decoding times are no longer those of the segments before.

use super::{PACKET_BYTES, StreamIndex, TICKS_PER_S};
use std::fmt::Write;
use std::ops::Range;

/// Shortest segment: the time of fragments of the other form.
const SEGMENT_TICKS_MIN: u64 = 4 * TICKS_PER_S;

/// A segment ends after this time also where receivers cannot join: sound alone, or pictures that
/// are refreshed in parts.
const SEGMENT_TICKS_MAX: u64 = 60 * TICKS_PER_S;

/// Jumps that follow each other within this time are one: a damaged stream has many.
const JUMP_TICKS_MIN: u64 = TICKS_PER_S;

/// A segment of the playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StreamSegment {
    packets: Range<u64>,
    ticks: u64,
    is_discontinuous: bool,
}

/// Where a segment may begin.
#[derive(Clone, Copy)]
enum Cut {
    Join(u64),
    Jump(u64),
}

impl StreamIndex {
    /// The playlist of the stream as a file with this address.
    pub fn playlist(&self, address: &str) -> String {
        let segments = self.segments();
        let longest = segments.iter().map(|segment| segment.ticks.div_ceil(TICKS_PER_S)).max();
        let mut text = format!(
            "#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-TARGETDURATION:{}\n#EXT-X-MEDIA-SEQUENCE:1\n\
             #EXT-X-PLAYLIST-TYPE:VOD\n",
            longest.unwrap_or(0).max(1)
        );
        for StreamSegment { packets, ticks, is_discontinuous } in segments {
            if is_discontinuous {
                text += "#EXT-X-DISCONTINUITY\n";
            }
            // A tick is a 27 millionth of a second: nine decimals hold it.
            let (seconds, part) = (ticks / TICKS_PER_S, ticks % TICKS_PER_S * 1000 / 27);
            let [from, until] = [packets.start, packets.end].map(|packet| packet * PACKET_BYTES as u64);
            // Written to a string, which cannot fail.
            let _ = writeln!(
                text,
                "#EXTINF:{seconds}.{part:09},\n#EXT-X-BYTERANGE:{}@{from}\n{address}",
                until - from
            );
        }
        text += "#EXT-X-ENDLIST\n";
        text
    }

    /// The segments in order: all packets once, and none empty.
    fn segments(&self) -> Vec<StreamSegment> {
        let mut segments = Vec::new();
        let (mut start, mut is_discontinuous) = (0, false);
        for cut in self.cuts() {
            let until = cut.packet();
            while let Some(end) = self.end_of_longest(start, until) {
                segments.push(self.segment(&mut start, end, &mut is_discontinuous));
            }
            let is_jump = matches!(cut, Cut::Jump(_));
            let least_ticks = if is_jump { JUMP_TICKS_MIN } else { SEGMENT_TICKS_MIN };
            if until > start && self.ticks_at(until) - self.ticks_at(start) >= least_ticks {
                segments.push(self.segment(&mut start, until, &mut is_discontinuous));
            }
            is_discontinuous |= is_jump && start > 0;
        }
        while let Some(end) = self.end_of_longest(start, self.packets) {
            segments.push(self.segment(&mut start, end, &mut is_discontinuous));
        }
        if start < self.packets {
            segments.push(self.segment(&mut start, self.packets, &mut is_discontinuous));
        }
        segments
    }

    /// The segment from `start` on, where the next one begins then.
    fn segment(&self, start: &mut u64, end: u64, is_discontinuous: &mut bool) -> StreamSegment {
        let ticks = self.ticks_at(end) - self.ticks_at(*start);
        let packets = std::mem::replace(start, end)..end;
        StreamSegment { packets, ticks, is_discontinuous: std::mem::take(is_discontinuous) }
    }

    /// The end of a segment of the longest time, if what is left up to `until` is longer.
    fn end_of_longest(&self, start: u64, until: u64) -> Option<u64> {
        let from = self.ticks_at(start);
        let is_longer = self.ticks_at(until).saturating_sub(from) > SEGMENT_TICKS_MAX;
        let end = self.packet_at(from + SEGMENT_TICKS_MAX);
        (is_longer && start < end && end < until).then_some(end)
    }

    /// Where segments may begin, in order.
    fn cuts(&self) -> Vec<Cut> {
        let joins = self.joins.iter().map(|join| Cut::Join(join.tables));
        let jumps = self.times.iter().filter(|point| point.jump).map(|point| Cut::Jump(point.packet));
        let mut cuts: Vec<Cut> = joins.chain(jumps).collect();
        cuts.sort_by_key(Cut::packet);
        cuts
    }
}

impl Cut {
    fn packet(&self) -> u64 {
        match self {
            Cut::Join(packet) | Cut::Jump(packet) => *packet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::tests::any_index;
    use super::super::{JoinPoint, TimePoint};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn segments_are_the_whole_stream_in_order(index in any_index()) {
            let segments = index.segments();
            let mut at = 0;
            for segment in &segments {
                prop_assert!(segment.packets.start == at && segment.packets.end > at, "{segment:?}");
                at = segment.packets.end;
            }
            prop_assert_eq!(at, index.packets);
            prop_assert_eq!(segments.iter().map(|segment| segment.ticks).sum::<u64>(), index.duration_ticks());
            // Text is bounded by the duration, however damaged the stream is.
            prop_assert!(segments.len() as u64 <= index.duration_ticks() / JUMP_TICKS_MIN + 1);
        }
    }

    /// A stream of 100 packets a second, with places to join at these packets.
    fn index(packets: u64, joins: &[u64], jump: Option<u64>) -> StreamIndex {
        let point = |packet: u64, jump| TimePoint { packet, ticks: packet * TICKS_PER_S / 100, jump };
        let jump = jump.map(|packet| point(packet, true));
        let times = [point(0, false)].into_iter().chain(jump).chain([point(packets, false)]).collect();
        let joins = joins.iter().map(|at| JoinPoint { packet: *at, tables: at - 2 }).collect();
        StreamIndex { packets, programme: 1, times, joins }
    }

    #[test]
    fn segments_begin_with_tables_and_key_frames_and_name_jumps() {
        let expected = "#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-TARGETDURATION:6\n#EXT-X-MEDIA-SEQUENCE:1\n\
            #EXT-X-PLAYLIST-TYPE:VOD\n\
            #EXTINF:5.980000000,\n#EXT-X-BYTERANGE:112424@0\nx.ts\n\
            #EXTINF:2.020000000,\n#EXT-X-BYTERANGE:37976@112424\nx.ts\n\
            #EXT-X-DISCONTINUITY\n\
            #EXTINF:4.500000000,\n#EXT-X-BYTERANGE:84600@150400\nx.ts\n#EXT-X-ENDLIST\n";
        assert_eq!(index(1250, &[2, 300, 600, 900], Some(800)).playlist("x.ts"), expected);
    }

    #[test]
    fn streams_without_places_to_join_are_cut_by_time() {
        let lengths: Vec<u64> =
            index(15_000, &[], None).segments().iter().map(|segment| segment.ticks / TICKS_PER_S).collect();
        assert_eq!(lengths, [60, 60, 30]);
    }
}
