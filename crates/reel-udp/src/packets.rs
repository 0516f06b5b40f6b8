use std::ops::Range;

use reel_ring::limits::{TRAIN_BYTES_MAX, TRAIN_LENT_PAGES_MAX, TRAIN_PACKETS_MAX};
use reel_ring::{Chunk, pages_touched};

/// Packets of one size, to be sent in this order. The last may be shorter.
#[derive(Clone, Debug)]
pub struct Packets {
    headers: Option<Chunk>,
    header_bytes: usize,
    /// Where the payloads are stored. No payload is part of two.
    payloads: Vec<Row>,
    payload_bytes: usize,
    /// From the beginning of a payload to that of the next.
    stride_bytes: usize,
    count: usize,
}

/// Payloads that are stored one behind the other.
#[derive(Clone, Debug)]
struct Row {
    chunk: Chunk,
    /// The number of its first packet.
    first: usize,
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
    pub fn framed(bytes: impl Into<Chunk>, packet_bytes: usize) -> Packets {
        Packets::stored((None, 0), vec![bytes.into()], packet_bytes, packet_bytes)
    }

    /// Packets whose payload is sent as it is stored and may be shared, and whose headers are in
    /// another place, one behind the other. In the arena of the payload, both can be sent from
    /// registered memory.
    ///
    /// # Panics
    /// If there are not as many headers as payloads, or a packet has more bytes than a datagram.
    pub fn headed(
        headers: impl Into<Chunk>,
        header_bytes: usize,
        payload: impl Into<Chunk>,
        payload_bytes: usize,
    ) -> Packets {
        Packets::spaced(headers, header_bytes, payload, payload_bytes, payload_bytes)
    }

    /// The same. Of each `stride_bytes` that are stored, only the first `payload_bytes` are sent.
    ///
    /// # Panics
    /// As [`Packets::headed`], or if the stride is shorter than a payload.
    pub fn spaced(
        headers: impl Into<Chunk>,
        header_bytes: usize,
        payload: impl Into<Chunk>,
        payload_bytes: usize,
        stride_bytes: usize,
    ) -> Packets {
        Packets::gathered(headers, header_bytes, vec![payload.into()], payload_bytes, stride_bytes)
    }

    /// The same. The payloads are stored in several places, in this order. Each place but the last
    /// holds whole strides, so that no packet is part of two.
    ///
    /// # Panics
    /// As [`Packets::spaced`], or if a place before the last holds a part of a stride, or nothing.
    pub fn gathered(
        headers: impl Into<Chunk>,
        header_bytes: usize,
        payloads: Vec<Chunk>,
        payload_bytes: usize,
        stride_bytes: usize,
    ) -> Packets {
        Packets::stored((Some(headers.into()), header_bytes), payloads, payload_bytes, stride_bytes)
    }

    fn stored(
        (headers, header_bytes): (Option<Chunk>, usize),
        payloads: Vec<Chunk>,
        payload_bytes: usize,
        stride_bytes: usize,
    ) -> Packets {
        let packet_bytes = header_bytes + payload_bytes;
        assert!(payload_bytes > 0 && packet_bytes <= TRAIN_BYTES_MAX, "packets of {packet_bytes} bytes");
        assert!(payload_bytes <= stride_bytes, "{payload_bytes} bytes of every {stride_bytes}");
        let (mut count, last) = (0, payloads.len().saturating_sub(1));
        let row = |(number, chunk): (usize, Chunk)| {
            let bytes = chunk.len();
            let is_whole = bytes > 0 && bytes.is_multiple_of(stride_bytes);
            assert!(number == last || is_whole, "{bytes} bytes in strides of {stride_bytes}");
            let first = count;
            count += bytes.div_ceil(stride_bytes);
            Row { chunk, first }
        };
        let payloads = payloads.into_iter().enumerate().map(row).collect();
        if let Some(headers) = &headers {
            assert_eq!(
                headers.len(),
                count * header_bytes,
                "one header of {header_bytes} bytes for each of {count} packets"
            );
        }
        Packets { headers, header_bytes, payloads, payload_bytes, stride_bytes, count }
    }

    /// How many packets.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of all packets, as the receiver gets them.
    pub fn bytes(&self) -> usize {
        self.bytes_in(0..self.count)
    }

    /// Bytes of one packet, as the receiver gets it. The last may have fewer.
    pub fn packet_bytes(&self) -> usize {
        self.header_bytes + self.payload_bytes
    }

    /// How many packets from `first` on fit in one train, and how many of these in one that can be
    /// lent.
    pub(super) fn fit(&self, first: usize) -> (usize, usize) {
        let train = (TRAIN_BYTES_MAX / self.packet_bytes()).min(TRAIN_PACKETS_MAX).min(self.count - first);
        if let Some(bytes) = self.in_one_piece() {
            let lendable = |count: &usize| pages_touched(&bytes[self.run_of(bytes, first..first + count)]);
            let lent = (1..=train).rev().find(|count| lendable(count) <= TRAIN_LENT_PAGES_MAX);
            return (train, lent.unwrap_or(0));
        }
        let mut pages = 0;
        let lent = (first..first + train).take_while(|&packet| {
            let header = self.header_of(packet).map_or(0, |header| pages_touched(&header));
            pages += header + pages_touched(&self.payload_of(packet));
            pages <= TRAIN_LENT_PAGES_MAX
        });
        (train, lent.count())
    }

    /// The chunks of a train.
    pub(super) fn chunks(&self, range: Range<usize>) -> Vec<Chunk> {
        if let Some(bytes) = self.in_one_piece() {
            return vec![bytes.slice(self.run_of(bytes, range))];
        }
        let mut chunks = Vec::with_capacity(2 * range.len());
        for packet in range {
            chunks.extend(self.header_of(packet));
            chunks.push(self.payload_of(packet));
        }
        chunks
    }

    /// Bytes of some of the packets, as the receiver gets them.
    pub(super) fn bytes_in(&self, range: Range<usize>) -> usize {
        let has_last = !range.is_empty() && range.end == self.count;
        let short = if has_last { self.payload_bytes - self.payload_of(self.count - 1).len() } else { 0 };
        range.len() * self.packet_bytes() - short
    }

    /// All packets, if they are stored one behind the other as they are sent.
    fn in_one_piece(&self) -> Option<&Chunk> {
        let is_sent_whole = self.headers.is_none() && self.stride_bytes == self.payload_bytes;
        match &self.payloads[..] {
            [row] if is_sent_whole => Some(&row.chunk),
            _ => None,
        }
    }

    /// The place of some packets among those that lie in one piece.
    fn run_of(&self, bytes: &Chunk, range: Range<usize>) -> Range<usize> {
        range.start * self.stride_bytes..(range.end * self.stride_bytes).min(bytes.len())
    }

    fn header_of(&self, packet: usize) -> Option<Chunk> {
        let bytes = self.header_bytes;
        self.headers.as_ref().map(|headers| headers.slice(packet * bytes..(packet + 1) * bytes))
    }

    fn payload_of(&self, packet: usize) -> Chunk {
        // The first row begins with packet 0.
        let row = &self.payloads[self.payloads.partition_point(|row| row.first <= packet) - 1];
        let start = (packet - row.first) * self.stride_bytes;
        row.chunk.slice(start..(start + self.payload_bytes).min(row.chunk.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_arena::{Arena, ArenaConfig, Lease};
    use std::sync::Arc;

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

    #[test]
    fn what_fills_a_payload_up_to_its_stride_is_not_sent() {
        let lease = lease();
        let headers: Arc<[u8]> = (0..36).collect();
        let packets = Packets::spaced(headers, 12, lease.slice(0..2 * 1408 + 1316), 1316, 1408);
        assert_eq!((packets.count(), packets.packet_bytes(), packets.bytes()), (3, 1328, 3 * 1328));
        let expected: Vec<u8> = (0..3)
            .flat_map(|packet: usize| {
                let header = (packet * 12..(packet + 1) * 12).map(|byte| byte as u8);
                header.chain(lease[packet * 1408..packet * 1408 + 1316].iter().copied()).collect::<Vec<u8>>()
            })
            .collect();
        assert_eq!(bytes(&packets.chunks(0..3)), expected);
        assert_eq!(bytes(&packets.chunks(1..2)), expected[1328..2656]);
        assert_eq!((packets.bytes_in(1..3), packets.bytes_in(1..1)), (2656, 0));
        assert_eq!(packets.fit(0).0, 3);
    }

    /// The packets whose payloads lie in rows of so many bytes with a gap between them, and the
    /// bytes of each packet.
    fn in_rows(rows: &[usize], payload_bytes: usize, stride_bytes: usize) -> (Packets, Vec<Vec<u8>>) {
        let (lease, mut at) = (lease(), 100);
        let (mut chunks, mut expected) = (Vec::new(), Vec::new());
        for &row in rows {
            chunks.push(Chunk::Lease(lease.slice(at..at + row)));
            for payload in lease[at..at + row].chunks(stride_bytes) {
                let mut packet = vec![expected.len() as u8; 12];
                packet.extend_from_slice(&payload[..payload.len().min(payload_bytes)]);
                expected.push(packet);
            }
            at += row + 777;
        }
        let headers: Arc<[u8]> = expected.iter().flat_map(|packet| packet[..12].to_vec()).collect();
        (Packets::gathered(headers, 12, chunks, payload_bytes, stride_bytes), expected)
    }

    #[test]
    fn packets_are_gathered_from_several_rows() {
        for (stride_bytes, end_bytes) in
            [(1316, 9 * 1316), (1408, 9 * 1408), (1316, 8 * 1316 + 5), (1408, 8 * 1408 + 5)]
        {
            let rows = [20 * stride_bytes, 20 * stride_bytes, end_bytes];
            let (packets, expected) = in_rows(&rows, 1316, stride_bytes);
            assert_eq!((packets.count(), packets.packet_bytes()), (49, 1328));
            let all = expected.concat();
            assert_eq!(packets.bytes(), all.len());
            assert_eq!((packets.fit(0).0, packets.fit(40).0), (49, 9), "as long as a datagram");
            assert!(packets.fit(18).1 < 9, "rows and headers are pieces of their own");
            for range in [0..49, 0..20, 19..21, 20..40, 39..41, 17..45, 48..49, 7..7, 49..49] {
                let expected = expected[range.clone()].concat();
                assert_eq!(bytes(&packets.chunks(range.clone())), expected, "{range:?} of {stride_bytes}");
                assert_eq!(packets.bytes_in(range), expected.len());
            }
        }
    }

    #[test]
    fn a_packet_is_part_of_one_row_only() {
        let refused = |rows: &[usize]| std::panic::catch_unwind(|| in_rows(rows, 1316, 1408)).is_err();
        assert!(!refused(&[1408, 7]) && !refused(&[7]));
        assert!(refused(&[7, 1408]), "a row with a part of a stride in front of another");
        assert!(refused(&[1408, 0, 1408]), "a row of nothing");
    }
}
