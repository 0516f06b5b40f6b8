//! A title sent by a schedule: which matrices each channel sends in each slot. Pure.

use crate::limits::{CAST_CHANNELS_MAX, CAST_RESERVED_NS};
use crate::numbering::Numbers;
use reel_broadcast::{BroadcastError, Cut, Plan, Repeat, Schedule, Scheme, Stream as Subject};
use reel_media::transport::{SYMBOL_PACKETS, StreamIndex};
use reel_play::SlotPiece;
use reel_play::limits::PUSH_LEAD_NS;
use reel_rtp::NtpTime;
use reel_rtp::limits::{SDP_SLOT_NS_MAX, SDP_SLOT_NS_MIN};
use reel_rtp::sdp::SlotSchedule;
use std::ops::Range;

/// How a title is sent to more than one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroadcastConfig {
    /// The scheme.
    pub scheme: Scheme,
    /// What decides on the number of segments.
    pub bound: BroadcastBound,
}

/// What decides on the number of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroadcastBound {
    /// The longest wait of a client, in nanoseconds.
    Wait(u64),
    /// The most that all channels send together, in bits per second, without headers and FEC.
    Bandwidth(u64),
}

/// The schedule of a stored stream.
#[derive(Clone, Debug)]
pub(crate) struct Broadcast {
    plan: Plan,
    slot_ns: u64,
    /// The matrices of each segment. Two that follow each other share one.
    segments: Vec<Range<u64>>,
    matrix_symbols: u64,
    packets: u64,
}

/// Why a stream is not broadcast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoBroadcast {
    #[error(transparent)]
    Schedule(#[from] BroadcastError),
    #[error(
        "the schedule needs {0} channels, and a cast has at most {CAST_CHANNELS_MAX}; allow a longer wait or another scheme"
    )]
    Channels(usize),
    #[error("slots of {:.3} s cannot be followed: they last 0.1 s to 6 h; ask for another wait", *.0 as f64 / 1e9)]
    Slots(u64),
}

impl Broadcast {
    /// Plans a stream whose matrices have so many symbols.
    pub(crate) fn new(
        index: &StreamIndex,
        matrix_symbols: u64,
        config: BroadcastConfig,
    ) -> Result<Broadcast, NoBroadcast> {
        let duration_ns = index.duration_ns();
        let subject = Subject::new(duration_ns, index.mean_bps())?;
        let plan = match config.bound {
            BroadcastBound::Wait(wait_ns) => Plan::for_receivers(config.scheme, subject, wait_ns)?,
            BroadcastBound::Bandwidth(bps) => Plan::for_bandwidth(config.scheme, subject, bps)?,
        };
        channels_in_range(plan.schedule.channels().len())?;
        if !(SDP_SLOT_NS_MIN..=SDP_SLOT_NS_MAX).contains(&plan.slot_ns()) {
            return Err(NoBroadcast::Slots(plan.slot_ns()));
        }
        let key_frames = index.key_frames();
        let times: Vec<u64> = key_frames.iter().map(|(time_ns, _)| *time_ns).collect();
        let cut = Cut::new(&times, duration_ns, plan.schedule.segments())?;
        // A segment begins with the tables before its key frame.
        let first_packet = |segment: u32| match (segment, cut.first_key_frame(segment)) {
            (1, _) => 0,
            (_, Some(number)) => key_frames[number].1.tables,
            (_, None) => index.packets,
        };
        let matrix_packets = matrix_symbols * SYMBOL_PACKETS as u64;
        let matrices = index.packets.div_ceil(matrix_packets);
        let first_matrix = |segment: u32| first_packet(segment) / matrix_packets;
        // Up to the matrix in which the next one begins, as clients compute it.
        let segment = |segment: u32| first_matrix(segment)..(first_matrix(segment + 1) + 1).min(matrices);
        let segments = (1..=cut.segments()).map(segment).collect();
        let packets = index.packets;
        Ok(Broadcast { slot_ns: cut.slot_ns(), plan, segments, matrix_symbols, packets })
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The tables of its channels.
    pub(crate) fn schedule(&self) -> &Schedule {
        &self.plan.schedule
    }

    /// The length of a slot, in nanoseconds.
    pub(crate) fn slot_ns(&self) -> u64 {
        self.slot_ns
    }

    /// A text that changes with what is sent when.
    pub(crate) fn text(&self) -> String {
        let schedule = self.schedule();
        let (scheme, segments) = (schedule.scheme(), schedule.segments());
        format!("{scheme} {segments} {} {}", self.slot_ns, self.matrix_symbols)
    }

    /// The numbers of the packets of a channel at the beginning of a slot: after those of all slots
    /// since 1970. So a server that begins again continues them.
    pub(crate) fn numbers(&self, channel: usize, slot: u64, fec_rows: Option<u64>) -> Numbers {
        let Some(table) = self.schedule().channels().get(channel) else { return Numbers::default() };
        let of_segment = |repeat: Repeat| {
            let matrices = self
                .segments
                .get(repeat.segment as usize - 1)
                .map_or(0, |matrices| matrices.end - matrices.start);
            repeat.sendings_before(slot).wrapping_mul(matrices)
        };
        let matrices = table.repeats().map(of_segment).fold(0, u64::wrapping_add);
        let symbols = matrices.wrapping_mul(self.matrix_symbols);
        // Each matrix has whole columns.
        let fec_packets = fec_rows.map_or(0, |rows| matrices.wrapping_mul(self.matrix_symbols / rows.max(1)));
        Numbers::default().after(symbols, fec_packets)
    }

    /// What clients are told, of channels with these sources and time stamps, and of the first slot
    /// that is sent.
    pub(crate) fn described(
        &self,
        sources: Vec<u32>,
        time_stamps: Vec<u32>,
        first_slot: u64,
    ) -> SlotSchedule {
        SlotSchedule {
            scheme: self.schedule().scheme().to_string(),
            slot_ns: self.slot_ns,
            epoch: NtpTime::from_unix_ns(0),
            matrix_packets: self.matrix_symbols,
            packets: self.packets,
            sources,
            time_stamps,
            first_matrices: self.segments.iter().map(|matrices| matrices.start).collect(),
            first_slot,
        }
    }

    /// How long two matrices take in the slot of the shortest segment, in nanoseconds.
    pub(crate) fn longest_matrices_ns(&self) -> u64 {
        let fewest = self.segments.iter().map(|matrices| matrices.end - matrices.start).min();
        2 * self.slot_ns / (fewest.unwrap_or(0) + 1)
    }

    /// How many slots are reserved together.
    pub(crate) fn window_slots(&self) -> u64 {
        CAST_RESERVED_NS.div_ceil(self.slot_ns.max(1)).max(2)
    }

    /// What the channels send in the slots of the window that begins with `first`, in the order of
    /// their times, which count from the start of its session.
    pub(crate) fn window(&self, first: u64) -> Vec<SlotPiece> {
        let slots = first..first + self.window_slots();
        let of_slot = |slot: u64| {
            (0..self.schedule().channels().len()).filter_map(move |channel| {
                let segment = self.schedule().segment_at(channel, slot)?;
                let matrices = self.segments.get(segment as usize - 1)?.clone();
                let from_ns = PUSH_LEAD_NS + (slot - first) * self.slot_ns;
                let duration_ns = self.slot_ns;
                (!matrices.is_empty()).then_some(SlotPiece { channel, matrices, from_ns, duration_ns })
            })
        };
        slots.flat_map(of_slot).collect()
    }
}

/// Why a schedule with so many channels is not cast; `None` if it is.
pub fn channels_refused(channels: usize) -> Option<String> {
    channels_in_range(channels).err().map(|refused| refused.to_string())
}

fn channels_in_range(channels: usize) -> Result<(), NoBroadcast> {
    if channels > CAST_CHANNELS_MAX { Err(NoBroadcast::Channels(channels)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_broadcast::limits::JOIN_NS;
    use reel_media::transport::{JoinPoint, TICKS_PER_S, TimePoint};

    const MATRIX: u64 = 80;

    /// Two minutes with a key frame in each second, and tables some packets before it.
    fn index() -> StreamIndex {
        let point = |packet, seconds: u64| TimePoint { packet, ticks: seconds * TICKS_PER_S, jump: false };
        let joins = (0..120).map(|second| JoinPoint {
            packet: second * 2000 + 5,
            tables: second * 2000 + if second == 0 { 0 } else { 3 },
        });
        StreamIndex {
            packets: 240_000,
            programme: 1,
            times: vec![point(0, 0), point(240_000, 120)],
            joins: joins.collect(),
        }
    }

    fn broadcast(scheme: Scheme, wait_s: u64) -> Broadcast {
        let config =
            BroadcastConfig { scheme, bound: BroadcastBound::Wait(wait_s * 1_000_000_000 + JOIN_NS) };
        Broadcast::new(&index(), MATRIX, config).expect("planned")
    }

    #[test]
    fn segments_cover_the_stream_in_whole_matrices() {
        let broadcast = broadcast(Scheme::RecursiveFrequencySplitting, 20);
        let segments = &broadcast.segments;
        assert_eq!(segments.len(), 12);
        let described = broadcast.described(Vec::new(), Vec::new(), 0);
        for (number, matrices) in (1..).zip(segments) {
            assert_eq!(described.segment(number).as_ref(), Some(matrices));
        }
        let matrices = 240_000_u64.div_ceil(7 * MATRIX);
        assert_eq!((segments[0].start, segments[11].end), (0, matrices));
        for (number, pair) in segments.windows(2).enumerate() {
            assert_eq!(pair[0].end, pair[1].start + 1);
            // The tables of its key frame are in it, and what is before them is in the last one.
            let packet = (number as u64 + 1) * 10 * 2000 + 3;
            assert_eq!(pair[1].start, packet / (7 * MATRIX));
        }
    }

    /// The windows together are the schedule.
    #[test]
    fn each_window_continues_the_last() {
        for scheme in [Scheme::RecursiveFrequencySplitting, Scheme::Fast, Scheme::Skyscraper { width: 12 }] {
            let broadcast = broadcast(scheme, 20);
            let slots = broadcast.window_slots();
            for first in [0, slots, 5 * slots] {
                let window = broadcast.window(first);
                assert!(window.windows(2).all(|pair| pair[0].from_ns <= pair[1].from_ns));
                for piece in &window {
                    let slot = first + (piece.from_ns - PUSH_LEAD_NS) / broadcast.slot_ns();
                    let segment = broadcast.schedule().segment_at(piece.channel, slot).expect("one");
                    assert_eq!(piece.matrices, broadcast.segments[segment as usize - 1]);
                }
                let channels = broadcast.schedule().channels().len() as u64;
                assert!(window.len() as u64 <= slots * channels && window.len() as u64 > slots);
            }
        }
    }

    /// The numbers of a slot follow those of the slot before, in any channel and at any time.
    #[test]
    fn numbers_of_packets_continue_from_slot_to_slot() {
        for scheme in [
            Scheme::RecursiveFrequencySplitting,
            Scheme::Fast,
            Scheme::Skyscraper { width: 12 },
            Scheme::Staggered,
        ] {
            let broadcast = broadcast(scheme, 20);
            for channel in 0..broadcast.schedule().channels().len() {
                assert_eq!(broadcast.numbers(channel, 0, Some(4)), Numbers::default());
                for slot in (0..40).chain(190_000_000_000..190_000_000_040) {
                    let sent = broadcast.schedule().segment_at(channel, slot);
                    let sent = sent.map_or(0..0, |segment| broadcast.segments[segment as usize - 1].clone());
                    let symbols = (sent.end - sent.start) * MATRIX;
                    let after = broadcast.numbers(channel, slot, Some(4)).after(symbols, symbols / 4);
                    assert_eq!(broadcast.numbers(channel, slot + 1, Some(4)), after, "{scheme} {slot}");
                }
            }
        }
    }

    #[test]
    fn what_needs_too_many_channels_is_refused() {
        let config = BroadcastConfig {
            scheme: Scheme::Staggered,
            bound: BroadcastBound::Wait(2_000_000_000 + JOIN_NS),
        };
        assert_eq!(Broadcast::new(&index(), MATRIX, config).unwrap_err(), NoBroadcast::Channels(120));
        // Slots of 50 ms.
        let bound = BroadcastBound::Wait(100_000_000 + JOIN_NS);
        let config = BroadcastConfig { scheme: Scheme::Fast, bound };
        let refused = Broadcast::new(&index(), MATRIX, config).unwrap_err();
        assert_eq!(refused, NoBroadcast::Slots(50_000_000));
        assert!(refused.to_string().contains("0.1 s to 6 h"), "{refused}");
    }
}
