//! A branch whose datagrams leave at the pace of a transport stream, beside one that takes all.

use proptest::prelude::*;
use reel_join::limits::JOIN_LEAD_NS;
use reel_join::{Datagram, PACKET_BYTES, PAYLOAD_BYTES, Pace, PacketTimes, Tee};
use reel_ring::Chunk;
use reel_serve::streams::{Offer, Outlet};

const MS: u64 = 1_000_000;
const NEVER_NS: u64 = u64::MAX;

/// A stream of so many packets in a second, whose stretches have so many.
#[derive(Clone, Copy, Debug)]
struct Stream {
    packets: u64,
    per_second: u64,
    per_stretch: u64,
    chain_packets: u64,
}

impl Stream {
    fn media_ns(&self, packet: u64) -> u64 {
        packet * 1000 * MS / self.per_second
    }

    fn times(self) -> PacketTimes {
        let starts = (0..self.packets).step_by(self.per_stretch as usize);
        let stretches = starts.map(|packet| (packet * PACKET_BYTES, self.media_ns(packet))).collect();
        PacketTimes::new(move |packet| self.media_ns(packet), stretches)
    }

    fn byte_at(position: u64) -> u8 {
        (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }
}

/// The chain of a stream, whose pieces are of no whole packets.
struct Chain {
    stream: Stream,
    tee: Tee,
    offered: u64,
    released: u64,
    has_deadlines: bool,
}

impl Chain {
    fn new(stream: Stream, from: u64, has_deadlines: bool) -> Chain {
        let tee = Tee::of_packets(from, stream.times(), 0);
        Chain { stream, tee, offered: from, released: from, has_deadlines }
    }

    /// Offers what there is room for.
    fn offer_all(&mut self) {
        let end = self.stream.packets * PACKET_BYTES;
        loop {
            self.released += self.tee.done_bytes().expect("it never fails");
            let room = self.stream.chain_packets * PACKET_BYTES - (self.offered - self.released);
            let stretch_bytes = self.stream.per_stretch * PACKET_BYTES;
            let stretch = self.offered / stretch_bytes;
            let bytes =
                room.min(5000).min((stretch + 1) * stretch_bytes - self.offered).min(end - self.offered);
            if bytes == 0 {
                break;
            }
            let of_stretch_ns = JOIN_LEAD_NS + self.stream.media_ns(stretch * self.stream.per_stretch);
            let due_ns = if self.has_deadlines { of_stretch_ns } else { NEVER_NS };
            let piece: Vec<u8> = (self.offered..self.offered + bytes).map(Stream::byte_at).collect();
            let chunk = Chunk::from(piece);
            let taken = self.tee.offer(&Offer { chunk: &chunk, position: self.offered, due_ns });
            if taken == 0 {
                break;
            }
            self.offered += taken;
        }
        self.tee.settle(self.offered < end);
    }
}

/// What a destination got.
#[derive(Default)]
struct Got {
    bytes: Vec<u8>,
    late: u64,
}

impl Got {
    fn take(&mut self, tee: &mut Tee, number: u64, bytes_max: usize) {
        let chunks = tee.take(number, bytes_max);
        let before = self.bytes.len();
        self.bytes.extend(chunks.iter().flat_map(|chunk| chunk.to_vec()));
        self.late += tee.sent(number, self.bytes.len() - before);
    }
}

/// What a paced branch sends now, as the thread of joins does.
fn send_paced((pace, got): (&mut Pace, &mut Got), tee: &mut Tee, number: u64, now_ns: u64) {
    while let (Some(waiting), Some(times)) = (tee.waiting(number), tee.times().cloned()) {
        let whole = waiting.bytes / PAYLOAD_BYTES;
        let ready = if waiting.is_rest { waiting.bytes.div_ceil(PAYLOAD_BYTES) } else { whole };
        let datagram = |number: usize| {
            let position = waiting.position + (number * PAYLOAD_BYTES) as u64;
            let later_ns = times.between_ns(waiting.position, position);
            Datagram { media_ns: times.media_ns(position), due_ns: waiting.due_ns.saturating_add(later_ns) }
        };
        match pace.train((0..ready).map(datagram), now_ns) {
            Ok((count, then)) if count > 0 => {
                *pace = then;
                got.take(tee, number, count * PAYLOAD_BYTES);
            }
            _ => {
                tee.awaits_pace(number);
                break;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Neither is cut, nothing of either is late, and each gets every byte; with long stretches and
    /// short ones, and where the chain holds less than the lead.
    #[test]
    fn a_paced_branch_disturbs_no_other_one(
        (per_second, per_stretch, chain_packets) in (100..3000u64, 50..8000u64, 200..4000u64),
        has_deadlines in any::<bool>(),
    ) {
        let stream = Stream { packets: per_second * 12, per_second, per_stretch, chain_packets };
        let mut chain = Chain::new(stream, 0, has_deadlines);
        chain.tee.join_at_packet(0);
        chain.tee.join(1);
        let (mut pace, mut paced, mut all) = (Pace::default(), Got::default(), Got::default());
        for now_ns in (0..16_000 * MS).step_by(2 * MS as usize) {
            chain.tee.set_now(now_ns);
            chain.offer_all();
            send_paced((&mut pace, &mut paced), &mut chain.tee, 0, now_ns);
            all.take(&mut chain.tee, 1, usize::MAX);
            prop_assert_eq!(chain.tee.too_slow(false), Vec::new(), "nothing is cut");
            prop_assert!(chain.offered - chain.released <= chain_packets * PACKET_BYTES);
        }
        prop_assert!(chain.tee.is_complete(0) && chain.tee.is_complete(1));
        let bytes: Vec<u8> = (0..stream.packets * PACKET_BYTES).map(Stream::byte_at).collect();
        prop_assert!(paced.bytes == bytes && all.bytes == bytes, "other bytes");
        prop_assert_eq!((paced.late, all.late), (0, 0));
    }

    /// A branch that joins begins with a packet, wherever the chain is; also one that is alone.
    #[test]
    fn a_paced_branch_begins_with_a_packet(from in 0..2000u64, is_alone in any::<bool>()) {
        let stream = Stream { packets: 500, per_second: 100, per_stretch: 70, chain_packets: 100 };
        let mut chain = Chain::new(stream, from, false);
        if !is_alone {
            chain.tee.join(1);
            chain.offer_all();
        }
        let begins = chain.tee.join_at_packet(0);
        prop_assert_eq!(begins, chain.offered.next_multiple_of(PACKET_BYTES));
        let (mut pace, mut paced, mut all) = (Pace::default(), Got::default(), Got::default());
        for now_ns in (0..8_000 * MS).step_by(2 * MS as usize) {
            chain.tee.set_now(now_ns);
            chain.offer_all();
            send_paced((&mut pace, &mut paced), &mut chain.tee, 0, now_ns);
            all.take(&mut chain.tee, 1, usize::MAX);
        }
        let end = stream.packets * PACKET_BYTES;
        let expected: Vec<u8> = (begins..end).map(Stream::byte_at).collect();
        prop_assert!(paced.bytes == expected, "{} bytes from {begins}", paced.bytes.len());
        prop_assert!(chain.tee.is_complete(0));
        chain.tee.done_bytes().expect("never more is released than was offered");
    }
}

/// A branch that has a train under way is as slow as any other: the wait for its time does not hide
/// that its socket takes nothing.
#[test]
fn a_paced_branch_whose_socket_takes_nothing_is_cut() {
    let stream = Stream { packets: 5000, per_second: 500, per_stretch: 500, chain_packets: 400 };
    for has_deadlines in [true, false] {
        let mut chain = Chain::new(stream, 0, has_deadlines);
        chain.tee.join_at_packet(0);
        chain.tee.join(1);
        let mut all = Got::default();
        let mut cut_ns = None;
        for now_ns in (0..10_000 * MS).step_by(20 * MS as usize) {
            chain.tee.set_now(now_ns);
            chain.offer_all();
            chain.tee.take(0, PAYLOAD_BYTES);
            all.take(&mut chain.tee, 1, usize::MAX);
            if chain.tee.too_slow(false).iter().any(|(number, _)| *number == 0) {
                cut_ns.get_or_insert(now_ns);
                chain.tee.leave(0);
            }
        }
        assert!(cut_ns.is_some(), "with deadlines: {has_deadlines}");
        let bytes: Vec<u8> = (0..stream.packets * PACKET_BYTES).map(Stream::byte_at).collect();
        assert!(all.bytes[..] == bytes[..all.bytes.len()], "other bytes");
    }
}
