//! A decoder of FEC, and a network that loses, delays, repeats, changes and invents packets.

use reel_rtp::fec::{
    Counts, Decoder, FEC_HEADERS_BYTES, FecHeader, FecOutcome, FecPacket, Geometry, MediaOutcome, Recovery,
};
use reel_rtp::limits::PAYLOAD_BYTES_MAX;
use reel_rtp::{HEADER_BYTES, HeaderTemplate, MP2T, Packet};
use std::collections::BTreeMap;

/// Matrices of the cast.
const MATRICES: u16 = 6;

/// Bytes of a payload: two lengths in turn, so that lengths have to be recovered as well.
const PAYLOAD_BYTES: [usize; 2] = [24, 17];

const SSRC: u32 = 0x5245_454c;

/// The first bytes give the matrix and the first sequence number; each following four are one
/// packet that arrives: what it is, which one, and a change.
pub fn repair(bytes: &[u8]) {
    let &[columns, rows, high, low, ref script @ ..] = bytes else { return };
    let geometry = Geometry::new(u16::from(columns % 20) + 1, u16::from(rows % 20) + 1).expect("in range");
    let cast = Cast { geometry, first: u16::from_be_bytes([high, low]) };
    let mut receiver =
        Receiver { decoder: Decoder::new(geometry), is_honest: true, received: BTreeMap::new() };
    for step in script.as_chunks::<4>().0 {
        receiver.take(&cast, *step);
    }
}

/// Media packets whose content follows from their number.
struct Cast {
    geometry: Geometry,
    first: u16,
}

impl Cast {
    fn sequence(&self, number: u16) -> u16 {
        self.first.wrapping_add(number)
    }

    fn payload(&self, number: u16) -> Vec<u8> {
        let bytes = PAYLOAD_BYTES[usize::from(number % 2)] as u16;
        (0..bytes).map(|at| (number.wrapping_mul(31) ^ at.wrapping_mul(number | 1)) as u8).collect()
    }

    fn media(&self, number: u16) -> Vec<u8> {
        let mut header = [0; HEADER_BYTES];
        let time_stamp = u32::from(number) * 250;
        HeaderTemplate::mp2t(SSRC).write(self.sequence(number), time_stamp, number % 64 == 5, &mut header);
        [&header[..], &self.payload(number)].concat()
    }

    /// The FEC packet of a column, counted over all matrices.
    fn fec(&self, column: u16) -> Vec<u8> {
        let columns = u16::from(self.geometry.columns());
        let first = column / columns * self.geometry.packets() + column % columns;
        let mut recovery = Recovery::default();
        let mut parity = vec![0; PAYLOAD_BYTES[0]];
        for number in (0..u16::from(self.geometry.rows())).map(|row| first + row * columns) {
            let media = self.media(number);
            let packet = Packet::parse(&media).expect("a packet");
            let (marker, time_stamp) = (packet.marker, packet.time_stamp);
            let length = packet.payload.len() as u16;
            recovery.add(&Recovery { length, payload_type: MP2T, marker, time_stamp });
            parity.iter_mut().zip(packet.payload).for_each(|(sum, byte)| *sum ^= byte);
        }
        let header = FecHeader { base: self.sequence(first), geometry: self.geometry, recovery };
        let mut headers = [0; FEC_HEADERS_BYTES];
        header.write(column, 0, &mut headers);
        [&headers[..], &parity].concat()
    }
}

struct Receiver {
    decoder: Decoder,
    /// Whether every packet so far was one of the cast.
    is_honest: bool,
    /// Payloads by sequence number, since the decoder began.
    received: BTreeMap<u16, Vec<u8>>,
}

impl Receiver {
    fn take(&mut self, cast: &Cast, [what, number, at, change]: [u8; 4]) {
        let columns = u16::from(cast.geometry.columns()) * MATRICES;
        let number = u16::from(number) | u16::from(what & 0xf0) << 4;
        let is_fec = what & 1 != 0;
        let mut bytes = if is_fec {
            cast.fec(number % columns)
        } else {
            cast.media(number % (cast.geometry.packets() * MATRICES))
        };
        if what & 2 != 0 && change != 0 {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= change;
            self.is_honest = false;
        }
        let before = self.decoder.counts();
        if is_fec {
            self.take_fec(&bytes);
        } else {
            self.take_media(&bytes);
        }
        self.take_repaired(cast, before);
    }

    fn take_media(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let outcome = self.decoder.push_media(&packet);
        if outcome == MediaOutcome::Restarted {
            self.received.clear();
        }
        if matches!(outcome, MediaOutcome::Taken | MediaOutcome::Restarted) {
            self.received.insert(packet.sequence, packet.payload.to_vec());
        }
    }

    fn take_fec(&mut self, bytes: &[u8]) {
        let Ok(packet) = FecPacket::parse(bytes) else { return };
        let repaired = self.decoder.counts().repaired;
        let outcome = self.decoder.push_fec(&packet);
        assert_eq!(
            outcome == FecOutcome::Repaired,
            self.decoder.counts().repaired > repaired,
            "a repair is reported"
        );
        assert!(!matches!(outcome, FecOutcome::Waiting { missing: 0 | 1 }), "what can be done is done");
    }

    /// What is repaired of an honest cast is right, and of any other fits its packets at least.
    fn take_repaired(&mut self, cast: &Cast, before: Counts) {
        let mut repaired = before.repaired;
        while let Some(packet) = self.decoder.next_repaired() {
            repaired += 1;
            assert!((1..=PAYLOAD_BYTES_MAX).contains(&packet.payload.len()));
            if self.is_honest {
                let number = packet.sequence.wrapping_sub(cast.first);
                assert!(packet.payload == cast.payload(number), "packet {number} is wrong");
                assert_eq!(packet.time_stamp, u32::from(number) * 250);
                assert_eq!(packet.marker, number % 64 == 5);
                // One that is too old for the decoder may be repaired a second time.
                let there = self.received.insert(packet.sequence, packet.payload);
                assert!(there.is_none_or(|payload| payload == cast.payload(number)));
            }
        }
        assert_eq!(repaired, self.decoder.counts().repaired, "repairs are counted");
    }
}
