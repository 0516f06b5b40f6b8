//! How datagrams carry the packets of a transport stream: plain, or with a header of RTP each
//! (RFC 2250, section 2). Pure, but for the random numbers at the beginning.

use crate::limits::DATAGRAM_PACKETS;
use crate::packet_times::PACKET_BYTES;
use reel_ring::Chunk;
use reel_rtp::{CLOCK_HZ, HEADER_BYTES, HeaderTemplate};

/// Bytes of a datagram without a header. The last one may have fewer.
pub const PAYLOAD_BYTES: usize = DATAGRAM_PACKETS * PACKET_BYTES as usize;

/// The framing of one outlet.
#[derive(Debug)]
pub struct Framing {
    headers: Option<Headers>,
}

/// What the header of the next datagram has.
#[derive(Debug)]
struct Headers {
    template: HeaderTemplate,
    sequence: u16,
    /// The time stamp at the beginning of the stream.
    first_stamp: u32,
}

impl Framing {
    /// Datagrams of packets alone.
    pub fn plain() -> Framing {
        Framing { headers: None }
    }

    /// Datagrams with headers. The source, the first sequence number and the first time stamp are
    /// random, so that streams are told apart and cannot be guessed (RFC 3550, section 5.1).
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn rtp() -> std::io::Result<Framing> {
        let mut random = [0; 10];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let [s0, s1, s2, s3, t0, t1, t2, t3, n0, n1] = random;
        let headers = Headers {
            template: HeaderTemplate::mp2t(u32::from_be_bytes([s0, s1, s2, s3])),
            sequence: u16::from_be_bytes([n0, n1]),
            first_stamp: u32::from_be_bytes([t0, t1, t2, t3]),
        };
        Ok(Framing { headers: Some(headers) })
    }

    /// Bytes that each datagram has beside its packets.
    pub fn header_bytes(&self) -> usize {
        if self.headers.is_some() { HEADER_BYTES } else { 0 }
    }

    /// The next datagrams, one behind the other, of packets that are stored anywhere. `media_ns`:
    /// when each datagram is sent by the clock of the stream.
    pub fn frame(&self, packets: Vec<Chunk>, media_ns: impl Fn(usize) -> u64) -> Vec<Chunk> {
        let Some(headers) = &self.headers else { return packets };
        let bytes: usize = packets.iter().map(|chunk| chunk.len()).sum();
        let written: Vec<u8> = (0..bytes.div_ceil(PAYLOAD_BYTES))
            .flat_map(|datagram| headers.write(datagram, media_ns(datagram)))
            .collect();
        let written = Chunk::from(written);
        let mut framed = Vec::with_capacity(packets.len() + 2 * bytes.div_ceil(PAYLOAD_BYTES));
        // Bytes of packets so far.
        let mut at = 0;
        for chunk in packets {
            let mut start = 0;
            while start < chunk.len() {
                if at % PAYLOAD_BYTES == 0 {
                    let header = at / PAYLOAD_BYTES * HEADER_BYTES;
                    framed.push(written.slice(header..header + HEADER_BYTES));
                }
                let end = chunk.len().min(start + PAYLOAD_BYTES - at % PAYLOAD_BYTES);
                framed.push(chunk.slice(start..end));
                at += end - start;
                start = end;
            }
        }
        framed
    }

    /// So many datagrams were sent.
    pub fn sent(&mut self, datagrams: usize) {
        if let Some(headers) = &mut self.headers {
            // Numbers of 16 bits begin again after the last one.
            headers.sequence = headers.sequence.wrapping_add(datagrams as u16);
        }
    }
}

impl Headers {
    fn write(&self, datagram: usize, media_ns: u64) -> [u8; HEADER_BYTES] {
        let ticks = u128::from(media_ns) * u128::from(CLOCK_HZ) / 1_000_000_000;
        // Both casts keep the low bits: both numbers begin again after the last one.
        let time_stamp = self.first_stamp.wrapping_add(ticks as u32);
        let sequence = self.sequence.wrapping_add(datagram as u16);
        let mut header = [0; HEADER_BYTES];
        self.template.write(sequence, time_stamp, false, &mut header);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_rtp::{MP2T, Packet};

    /// Chunks of these lengths, whose bytes are counted.
    fn chunks(lengths: &[usize]) -> Vec<Chunk> {
        let mut next = 0;
        let mut chunk = |length: &usize| {
            let bytes: Vec<u8> = (next..next + length).map(|byte| (byte % 251) as u8).collect();
            next += length;
            Chunk::from(bytes)
        };
        lengths.iter().map(&mut chunk).collect()
    }

    fn bytes(chunks: &[Chunk]) -> Vec<u8> {
        chunks.iter().flat_map(|chunk| chunk.to_vec()).collect()
    }

    #[test]
    fn each_datagram_has_a_header_wherever_its_packets_lie() {
        let mut framing = Framing::rtp().expect("random bytes");
        let lengths = [1, 1315, 1000, 2000, 1316, 376];
        let payload = bytes(&chunks(&lengths));
        let (mut sequences, mut stamps) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let framed = bytes(&framing.frame(chunks(&lengths), |datagram| 50_000_000 * datagram as u64));
            let datagrams: Vec<_> = framed.chunks(HEADER_BYTES + PAYLOAD_BYTES).collect();
            assert_eq!(datagrams.len(), 5, "the last one is shorter");
            let mut carried = Vec::new();
            for datagram in datagrams {
                let packet = Packet::parse(datagram).expect("a header");
                assert!(packet.is_plain && !packet.marker && packet.payload_type == MP2T);
                sequences.push(packet.sequence);
                stamps.push(packet.time_stamp);
                carried.extend_from_slice(packet.payload);
            }
            assert!(carried == payload, "other bytes");
            framing.sent(5);
        }
        assert!(sequences.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "{sequences:?}");
        let steps: Vec<_> = stamps[..5].windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert_eq!(steps, [4500; 4], "fifty milliseconds at 90 kHz");
    }

    #[test]
    fn numbers_begin_again_after_the_last_one() {
        let template = HeaderTemplate::mp2t(7);
        let headers = Headers { template, sequence: u16::MAX, first_stamp: u32::MAX };
        let mut framing = Framing { headers: Some(headers) };
        let next = |framing: &Framing| {
            let framed = bytes(&framing.frame(chunks(&[1316]), |_| 1_000_000_000));
            let packet = Packet::parse(&framed).expect("a header");
            (packet.sequence, packet.time_stamp)
        };
        assert_eq!(next(&framing), (u16::MAX, CLOCK_HZ - 1));
        framing.sent(1);
        assert_eq!(next(&framing), (0, CLOCK_HZ - 1));
    }

    #[test]
    fn two_streams_begin_with_other_numbers() {
        let first =
            |framing: &Framing| bytes(&framing.frame(chunks(&[1316]), |_| 0))[..HEADER_BYTES].to_vec();
        let [one, two] = [(); 2].map(|()| Framing::rtp().expect("random bytes"));
        assert_ne!(first(&one), first(&two), "80 random bits each");
    }

    #[test]
    fn packets_alone_are_sent_as_they_are() {
        let framing = Framing::plain();
        assert_eq!(framing.header_bytes(), 0);
        let framed = framing.frame(chunks(&[100, 2000]), |_| 0);
        assert_eq!(framed.len(), 2);
        assert!(bytes(&framed) == bytes(&chunks(&[100, 2000])));
    }
}
