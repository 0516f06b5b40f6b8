use std::ops::Range;

use reel_arena::Lease;
use reel_ring::limits::{TRAIN_BYTES_MAX, TRAIN_LENT_PAGES_MAX, TRAIN_PACKETS_MAX};
use reel_ring::{Chunk, pages_touched};

/// Packets of one size in the arena, to be sent in this order. The last may be shorter.
#[derive(Clone, Debug)]
pub struct Packets {
    headers: Option<Lease>,
    header_bytes: usize,
    payload: Lease,
    payload_bytes: usize,
}

impl Packets {
    /// Packets that are stored one behind the other as they are sent: payload alone, or with a
    /// header in front of each.
    ///
    /// Only such packets make a long train that can be lent. A packet of the kernel names at most
    /// 17 pages. That is 16 of these and a rest, but only eight headers and eight payloads that are
    /// stored apart.
    ///
    /// # Panics
    /// If packets have no bytes, or more than a datagram.
    pub fn framed(bytes: Lease, packet_bytes: usize) -> Packets {
        assert!((1..=TRAIN_BYTES_MAX).contains(&packet_bytes), "packets of {packet_bytes} bytes");
        Packets { headers: None, header_bytes: 0, payload: bytes, payload_bytes: packet_bytes }
    }

    /// Packets whose payload is sent as it is stored and may be shared, and whose headers are in
    /// another place of the arena, one behind the other.
    ///
    /// # Panics
    /// If there are not as many headers as payloads, or a packet has more bytes than a datagram.
    pub fn headed(headers: Lease, header_bytes: usize, payload: Lease, payload_bytes: usize) -> Packets {
        let packet_bytes = header_bytes + payload_bytes;
        assert!(payload_bytes > 0 && packet_bytes <= TRAIN_BYTES_MAX, "packets of {packet_bytes} bytes");
        let count = payload.len().div_ceil(payload_bytes);
        assert_eq!(
            headers.len(),
            count * header_bytes,
            "one header of {header_bytes} bytes for each of {count} packets"
        );
        Packets { headers: Some(headers), header_bytes, payload, payload_bytes }
    }

    /// How many packets.
    pub fn count(&self) -> usize {
        self.payload.len().div_ceil(self.payload_bytes)
    }

    /// Bytes of all packets, as the receiver gets them.
    pub fn bytes(&self) -> usize {
        self.headers.as_ref().map_or(0, |headers| headers.len()) + self.payload.len()
    }

    /// Bytes of one packet, as the receiver gets it. The last may have fewer.
    pub fn packet_bytes(&self) -> usize {
        self.header_bytes + self.payload_bytes
    }

    /// How many packets from `first` on fit in one train, and how many of these in one that can be
    /// lent.
    pub(super) fn fit(&self, first: usize) -> (usize, usize) {
        let train = (TRAIN_BYTES_MAX / self.packet_bytes()).min(TRAIN_PACKETS_MAX).min(self.count() - first);
        if self.headers.is_none() {
            let lendable = |count: &usize| pages_touched(&self.payload[self.bytes_of(first..first + count)]);
            let lent = (1..=train).rev().find(|count| lendable(count) <= TRAIN_LENT_PAGES_MAX);
            return (train, lent.unwrap_or(0));
        }
        let mut pages = 0;
        let lent = (first..first + train).take_while(|&packet| {
            let header = self.header_of(packet).map_or(0, |header| pages_touched(&header));
            pages += header + pages_touched(&self.payload[self.bytes_of(packet..packet + 1)]);
            pages <= TRAIN_LENT_PAGES_MAX
        });
        (train, lent.count())
    }

    /// The chunks of a train.
    pub(super) fn chunks(&self, range: Range<usize>) -> Vec<Chunk> {
        if self.headers.is_none() {
            return vec![Chunk::Lease(self.payload.slice(self.bytes_of(range)))];
        }
        let mut chunks = Vec::with_capacity(2 * range.len());
        for packet in range {
            chunks.extend(self.header_of(packet).map(Chunk::Lease));
            chunks.push(Chunk::Lease(self.payload.slice(self.bytes_of(packet..packet + 1))));
        }
        chunks
    }

    /// Bytes of some of the packets, as the receiver gets them.
    pub(super) fn bytes_in(&self, range: Range<usize>) -> usize {
        range.len() * self.header_bytes + self.bytes_of(range).len()
    }

    fn header_of(&self, packet: usize) -> Option<Lease> {
        let bytes = self.header_bytes;
        self.headers.as_ref().map(|headers| headers.slice(packet * bytes..(packet + 1) * bytes))
    }

    fn bytes_of(&self, range: Range<usize>) -> Range<usize> {
        let end = (range.end * self.payload_bytes).min(self.payload.len());
        range.start * self.payload_bytes..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_arena::{Arena, ArenaConfig};

    fn lease() -> Lease {
        let shape =
            ArenaConfig { buffer_bytes: 1 << 18, buffer_count: 1, cells_per_buffer: 1, huge_pages: false };
        let mut buffer = Arena::new(shape).expect("256 KiB").take(1 << 18).expect("free");
        buffer.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 3) as u8);
        buffer.freeze()
    }

    fn bytes(chunks: &[Chunk]) -> Vec<u8> {
        chunks.iter().flat_map(|chunk| chunk.iter().copied()).collect()
    }

    #[test]
    fn packets_in_a_row_fill_a_train() {
        let lease = lease();
        let packets = Packets::framed(lease.slice(10..10 + 100 * 1328 + 7), 1328);
        assert_eq!((packets.count(), packets.bytes(), packets.packet_bytes()), (101, 132_807, 1328));
        assert_eq!(packets.fit(0), (49, 49), "a datagram's bytes");
        assert_eq!(packets.fit(99), (2, 2), "what is left");
        assert_eq!(packets.bytes_in(99..101), 1335);
        assert_eq!(bytes(&packets.chunks(3..5)), lease[10 + 3 * 1328..10 + 5 * 1328]);
        assert_eq!(Packets::framed(lease.slice(0..1 << 18), 500).fit(0).0, TRAIN_PACKETS_MAX);
    }

    #[test]
    fn headers_and_payloads_stored_apart_are_joined_in_their_packets() {
        let lease = lease();
        let packets =
            Packets::headed(lease.slice(0..144), 12, lease.slice(4096..4096 + 11 * 1316 + 100), 1316);
        assert_eq!((packets.count(), packets.packet_bytes()), (12, 1328));
        let (train, lent) = packets.fit(0);
        assert_eq!(train, 12);
        // Of the first seven payloads, two cross a page boundary.
        assert_eq!(lent, 7);
        assert_eq!(packets.fit(11), (1, 1));
        let chunks = packets.chunks(10..12);
        let mut expected = lease[120..132].to_vec();
        expected.extend_from_slice(&lease[4096 + 10 * 1316..4096 + 11 * 1316]);
        expected.extend_from_slice(&lease[132..144]);
        expected.extend_from_slice(&lease[4096 + 11 * 1316..4096 + 11 * 1316 + 100]);
        assert_eq!(bytes(&chunks), expected);
        assert_eq!(packets.bytes_in(10..12), expected.len());
    }
}
