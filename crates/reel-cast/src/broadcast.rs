//! A title sent by a schedule: which matrices each channel sends in each slot. Pure.

use crate::limits::{CAST_CHANNELS_MAX, CAST_RESERVED_NS};
use crate::numbering::Numbers;
use reel_broadcast::{
    BroadcastError, ClientRule, Cut, Plan, Repeat, Schedule, Scheme, Stream as Subject, Table,
};
use reel_library::Stream;
use reel_media::transport::{JoinPoint, SYMBOL_PACKETS, StreamIndex};
use reel_play::limits::PUSH_LEAD_NS;
use reel_play::{SlotPiece, pushed_packet_bytes};
use reel_rtp::NtpTime;
use reel_rtp::limits::{SDP_SLOT_NS_MAX, SDP_SLOT_NS_MIN};
use reel_rtp::sdp::SlotSchedule;
use std::ops::{Range, RangeInclusive};

/// How long slots are that receivers follow.
const SLOT_NS: RangeInclusive<u64> = SDP_SLOT_NS_MIN..=SDP_SLOT_NS_MAX;

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
    /// The most that all channels send together, in bits per second. Of a stored stream, it is what
    /// the network carries in the busiest slot, with headers and FEC; otherwise the mean rate of
    /// the media.
    Bandwidth(u64),
}

/// The schedule of a stored stream.
#[derive(Clone, Debug)]
pub struct Broadcast {
    plan: Plan,
    peak_bps: u64,
    slot_ns: u64,
    /// The matrices of each segment. Two that follow each other share one.
    segments: Vec<Range<u64>>,
    matrix_symbols: u64,
    packets: u64,
}

/// Why a stream is not broadcast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBroadcast {
    /// There is no such schedule, or the stream cannot be cut so.
    #[error(transparent)]
    Schedule(#[from] BroadcastError),
    /// It has too many channels.
    #[error(
        "the schedule needs {0} channels, and a cast has at most {CAST_CHANNELS_MAX}; allow a longer wait or another scheme"
    )]
    Channels(usize),
    /// Its slots are shorter or longer than receivers follow, in nanoseconds.
    #[error("slots of {:.3} s cannot be followed: they last 0.1 s to 6 h; ask for another wait", *.0 as f64 / 1e9)]
    Slots(u64),
}

/// The plan of a stored stream.
#[derive(Clone, Debug)]
pub struct StoredPlan {
    /// The plan.
    pub plan: Plan,
    /// What the network carries at most, in bits per second with headers and FEC; `None` if the
    /// stream cannot be cut so.
    pub peak_bps: Option<u64>,
    /// Why it cannot be cut so.
    pub fault: Option<BroadcastError>,
}

/// Plans a stored stream. A bandwidth bounds what the network carries, in its busiest slot.
///
/// # Errors
/// There is no schedule for this bound.
pub fn plan_stored(
    stream: &Stream,
    with_fec: bool,
    config: BroadcastConfig,
) -> Result<StoredPlan, BroadcastError> {
    let sent = Sent::new(stream, with_fec);
    let plan = sent.plan(config)?;
    let (peak_bps, fault) = match sent.cut(plan.schedule.segments()) {
        Ok(cut) => (Some(sent.peak_bps(&plan.schedule, &cut)), None),
        Err(fault) => (None, Some(fault)),
    };
    Ok(StoredPlan { plan, peak_bps, fault })
}

/// A stream as it is sent by a schedule.
pub(crate) struct Sent<'a> {
    index: &'a StreamIndex,
    times_ns: Vec<u64>,
    joins: Vec<JoinPoint>,
    matrix_symbols: u64,
    /// Bytes on the network of a packet, with its part of a FEC packet.
    packet_bytes: u64,
}

/// The segments of a stream.
struct CutStream {
    slot_ns: u64,
    /// The matrices of each segment. Two that follow each other share one.
    segments: Vec<Range<u64>>,
}

impl<'a> Sent<'a> {
    pub(crate) fn new(stream: &'a Stream, with_fec: bool) -> Sent<'a> {
        let geometry = stream.map.geometry();
        let packet_bytes = pushed_packet_bytes(geometry, with_fec);
        Sent::of_packets(&stream.index, geometry.matrix_symbols(), packet_bytes)
    }

    fn of_packets(index: &'a StreamIndex, matrix_symbols: u64, packet_bytes: u64) -> Sent<'a> {
        let (times_ns, joins) = index.key_frames().into_iter().unzip();
        Sent { index, times_ns, joins, matrix_symbols, packet_bytes }
    }

    fn plan(&self, config: BroadcastConfig) -> Result<Plan, BroadcastError> {
        let subject = Subject::new(self.index.duration_ns(), self.index.mean_bps())?;
        match config.bound {
            BroadcastBound::Wait(wait_ns) => Plan::for_receivers(config.scheme, subject, wait_ns),
            BroadcastBound::Bandwidth(bps) => self.plan_for_bandwidth(config.scheme, subject, bps),
        }
    }

    /// The plan with the most channels that takes at most `bps` in every slot.
    fn plan_for_bandwidth(&self, scheme: Scheme, subject: Subject, bps: u64) -> Result<Plan, BroadcastError> {
        if scheme == Scheme::Linear {
            return Err(BroadcastError::LinearWait);
        }
        // Each channel takes the mean rate at least.
        let most = (bps / subject.rate_bps).min(CAST_CHANNELS_MAX as u64) as u32;
        let mut needed_bps = subject.rate_bps;
        for channels in (1..=most.max(1)).rev() {
            let segments = Schedule::segments_of(scheme, channels)?;
            let Ok(cut) = self.cut(segments) else { continue };
            if !SLOT_NS.contains(&cut.slot_ns) {
                continue;
            }
            needed_bps = self.peak_bps(&Schedule::new(scheme, segments)?, &cut);
            if needed_bps <= bps {
                return Plan::new(scheme, subject, segments);
            }
        }
        Err(BroadcastError::Bandwidth { scheme: scheme.to_string(), bps, needed_bps })
    }

    fn cut(&self, segments: u32) -> Result<CutStream, BroadcastError> {
        let index = self.index;
        let cut = Cut::new(&self.times_ns, index.duration_ns(), segments)?;
        // A segment begins with the tables before its key frame.
        let first_packet = |segment: u32| match (segment, cut.first_key_frame(segment)) {
            (1, _) => 0,
            (_, Some(number)) => self.joins[number].tables,
            (_, None) => index.packets,
        };
        let matrix_packets = self.matrix_symbols * SYMBOL_PACKETS as u64;
        let matrices = index.packets.div_ceil(matrix_packets);
        let first_matrix = |segment: u32| first_packet(segment) / matrix_packets;
        // Up to the matrix in which the next one begins, as clients compute it.
        let segment = |segment: u32| first_matrix(segment)..(first_matrix(segment + 1) + 1).min(matrices);
        let segments = (1..=cut.segments()).map(segment).collect();
        Ok(CutStream { slot_ns: cut.slot_ns(), segments })
    }

    /// What the network carries at most: each channel sends its largest segment, in the time of one
    /// matrix more. All channels of a staggered schedule send all segments in each slot.
    fn peak_bps(&self, schedule: &Schedule, cut: &CutStream) -> u64 {
        let matrices = |segment: u32| {
            let matrices = cut.segments.get((segment as usize).checked_sub(1)?)?;
            Some(matrices.end - matrices.start + 1)
        };
        let sent: u64 = match schedule.client_rule() {
            ClientRule::OneChannel => (1..=schedule.segments()).filter_map(matrices).sum(),
            _ => {
                let most = |table: &Table| table.repeats().filter_map(|it| matrices(it.segment)).max();
                schedule.channels().iter().filter_map(most).sum()
            }
        };
        let bits = u128::from(sent * self.matrix_symbols) * u128::from(self.packet_bytes) * 8;
        let bps = (bits * 1_000_000_000).div_ceil(u128::from(cut.slot_ns.max(1)));
        u64::try_from(bps).unwrap_or(u64::MAX)
    }
}

impl Broadcast {
    /// Plans a stream.
    pub(crate) fn new(sent: &Sent<'_>, config: BroadcastConfig) -> Result<Broadcast, NoBroadcast> {
        let plan = sent.plan(config)?;
        channels_in_range(plan.schedule.channels().len())?;
        if !SLOT_NS.contains(&plan.slot_ns()) {
            return Err(NoBroadcast::Slots(plan.slot_ns()));
        }
        let cut = sent.cut(plan.schedule.segments())?;
        let peak_bps = sent.peak_bps(&plan.schedule, &cut);
        let CutStream { slot_ns, segments } = cut;
        let (matrix_symbols, packets) = (sent.matrix_symbols, sent.index.packets);
        Ok(Broadcast { plan, peak_bps, slot_ns, segments, matrix_symbols, packets })
    }

    /// Plans a stored stream.
    ///
    /// # Errors
    /// It cannot be sent by such a schedule.
    pub fn of_stream(
        stream: &Stream,
        with_fec: bool,
        config: BroadcastConfig,
    ) -> Result<Broadcast, NoBroadcast> {
        Broadcast::new(&Sent::new(stream, with_fec), config)
    }

    /// What the network carries at most, in bits per second with headers and FEC.
    pub(crate) fn peak_bps(&self) -> u64 {
        self.peak_bps
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The tables of its channels.
    pub fn schedule(&self) -> &Schedule {
        &self.plan.schedule
    }

    /// The length of a slot, in nanoseconds.
    pub fn slot_ns(&self) -> u64 {
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
    pub fn window_slots(&self) -> u64 {
        CAST_RESERVED_NS.div_ceil(self.slot_ns.max(1)).max(2)
    }

    /// What the channels send in the slots of the window that begins with `first`, in the order of
    /// their times, which count from the start of its session.
    pub fn window(&self, first: u64) -> Vec<SlotPiece> {
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
    use crate::numbering::{Clock, sent_with};
    use reel_broadcast::limits::JOIN_NS;
    use reel_media::transport::{TICKS_PER_S, TimePoint};
    use reel_rtp::fec::Geometry as FecGeometry;

    const MATRIX: u64 = 80;
    /// Payload, headers of IPv6, UDP and RTP, and a fourth of a FEC packet.
    const PACKET_BYTES: u64 = 1376 + 1392 / 4;

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
        Broadcast::new(&Sent::of_packets(&index(), MATRIX, PACKET_BYTES), config).expect("planned")
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

    /// All packets of a window at their times: in no second the network carries more than was asked
    /// for.
    #[test]
    fn the_network_never_carries_more_than_the_bandwidth() {
        let matrix = FecGeometry::new(20, 4).expect("a matrix");
        let index = uneven();
        for scheme in [
            Scheme::RecursiveFrequencySplitting,
            Scheme::Fast,
            Scheme::Staggered,
            Scheme::Skyscraper { width: 5 },
        ] {
            for bps in [8_000_000, 17_500_000, 40_000_000, 90_000_000] {
                let config = BroadcastConfig { scheme, bound: BroadcastBound::Bandwidth(bps) };
                let sent = Sent::of_packets(&index, MATRIX, PACKET_BYTES);
                let Ok(broadcast) = Broadcast::new(&sent, config) else {
                    assert!(bps < 17_500_000, "{scheme}: {bps}");
                    continue;
                };
                assert!(broadcast.peak_bps() <= bps);
                let bytes = bytes_of_seconds(&broadcast, matrix);
                let busiest = bytes.iter().max().copied().expect("some") * 8;
                // A packet and a FEC packet of each channel more or less in a second.
                let channels = broadcast.schedule().channels().len() as u64;
                assert!(busiest <= bps + 8 * channels * (1376 + 1392), "{scheme}: {busiest} of {bps}");
                // More bandwidth than key frames that are a second apart can use is left.
                assert!(broadcast.peak_bps() * 2 > bps || bps > 17_500_000, "{scheme}: {bps}");
            }
        }
    }

    /// The bytes on the network in each second of the first slots.
    fn bytes_of_seconds(broadcast: &Broadcast, matrix: FecGeometry) -> Vec<u64> {
        let mut bytes = vec![0; 200];
        for piece in broadcast.window(0) {
            let symbols = (piece.matrices.end - piece.matrices.start) * MATRIX;
            let clock = Clock::Slot { duration_ns: piece.duration_ns, symbols: symbols + MATRIX };
            let mut carries = |symbol: u64, packet_bytes: u64| {
                let second = (piece.from_ns + clock.due_ns(symbol)) / 1_000_000_000;
                if let Some(bytes) = bytes.get_mut(second as usize) {
                    *bytes += packet_bytes;
                }
            };
            (0..symbols).for_each(|symbol| carries(symbol, 1376));
            (0..symbols / 4).for_each(|column| carries(sent_with(matrix, column), 1392));
        }
        bytes
    }

    /// As [`index`], but with three times as much in the second minute.
    fn uneven() -> StreamIndex {
        let point = |packet, seconds: u64| TimePoint { packet, ticks: seconds * TICKS_PER_S, jump: false };
        let packet = |second: u64| second.min(60) * 1000 + second.saturating_sub(60) * 3000;
        let joins = (0..120).map(|second| JoinPoint { packet: packet(second) + 5, tables: packet(second) });
        StreamIndex {
            packets: packet(120),
            programme: 1,
            times: vec![point(0, 0), point(packet(60), 60), point(packet(120), 120)],
            joins: joins.collect(),
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
        let (index, scheme) = (index(), Scheme::Staggered);
        let sent = Sent::of_packets(&index, MATRIX, PACKET_BYTES);
        let config = BroadcastConfig { scheme, bound: BroadcastBound::Wait(2_000_000_000 + JOIN_NS) };
        assert_eq!(Broadcast::new(&sent, config).unwrap_err(), NoBroadcast::Channels(120));
        // Slots of 50 ms.
        let bound = BroadcastBound::Wait(100_000_000 + JOIN_NS);
        let config = BroadcastConfig { scheme: Scheme::Fast, bound };
        let refused = Broadcast::new(&sent, config).unwrap_err();
        assert_eq!(refused, NoBroadcast::Slots(50_000_000));
        assert!(refused.to_string().contains("0.1 s to 6 h"), "{refused}");
    }
}
