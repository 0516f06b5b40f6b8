//! A sender: media packets with random payloads, and their FEC packets.

use reel_rtp::fec::{FEC_HEADERS_BYTES, FecHeader, FecPacket, Geometry, Recovery};
use reel_rtp::{HEADER_BYTES, HeaderTemplate, MP2T, Packet};
use reel_testkit::Rng;

/// A sent media packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) sequence: u16,
    pub(crate) time_stamp: u32,
    pub(crate) marker: bool,
    pub(crate) payload: Vec<u8>,
}

/// A cast of whole matrices.
pub(crate) struct Cast {
    pub(crate) geometry: Geometry,
    pub(crate) ssrc: u32,
    pub(crate) media: Vec<Sent>,
}

impl Cast {
    /// A cast whose first packet has this sequence number. Payloads have 1 to `payload_bytes`
    /// bytes.
    pub(crate) fn new(
        geometry: Geometry,
        matrices: usize,
        first: u16,
        payload_bytes: u64,
        seed: u64,
    ) -> Self {
        let mut random = Rng::new(seed);
        let mut time_stamp = random.below(1 << 32) as u32;
        let packets = usize::from(geometry.packets()) * matrices;
        let media = (0..packets).map(|number| {
            time_stamp = time_stamp.wrapping_add(random.below(500) as u32);
            Sent {
                sequence: first.wrapping_add(number as u16),
                time_stamp,
                marker: random.below(50) == 0,
                payload: {
                    let bytes = random.range(1, payload_bytes) as usize;
                    random.bytes(bytes)
                },
            }
        });
        let media = media.collect();
        Self { geometry, ssrc: random.below(1 << 32) as u32, media }
    }

    /// Gives the datagram of a media packet to a function.
    pub(crate) fn media_packet<R>(&self, number: usize, take: impl FnOnce(&Packet<'_>) -> R) -> R {
        let sent = &self.media[number];
        let mut header = [0; HEADER_BYTES];
        let template = HeaderTemplate::mp2t(self.ssrc);
        template.write(sent.sequence, sent.time_stamp, sent.marker, &mut header);
        take(&Packet::parse(&[&header[..], &sent.payload].concat()).unwrap())
    }

    /// The numbers of the packets of a column.
    pub(crate) fn column(&self, matrix: usize, column: usize) -> impl Iterator<Item = usize> + use<> {
        let first = matrix * usize::from(self.geometry.packets()) + column;
        let columns = usize::from(self.geometry.columns());
        (0..usize::from(self.geometry.rows())).map(move |row| first + row * columns)
    }

    /// The datagram of the FEC packet of a column.
    pub(crate) fn fec_bytes(&self, matrix: usize, column: usize) -> Vec<u8> {
        let mut recovery = Recovery::default();
        let packets: Vec<&Sent> = self.column(matrix, column).map(|number| &self.media[number]).collect();
        let mut parity = vec![0; packets.iter().map(|sent| sent.payload.len()).max().unwrap()];
        for sent in &packets {
            let length = sent.payload.len() as u16;
            let (marker, time_stamp) = (sent.marker, sent.time_stamp);
            recovery.add(&Recovery { length, payload_type: MP2T, marker, time_stamp });
            parity.iter_mut().zip(&sent.payload).for_each(|(sum, byte)| *sum ^= byte);
        }
        let header = FecHeader { base: packets[0].sequence, geometry: self.geometry, recovery };
        let number = matrix * usize::from(self.geometry.columns()) + column;
        let mut headers = [0; FEC_HEADERS_BYTES];
        header.write(number as u16, packets[0].time_stamp, &mut headers);
        [&headers[..], &parity].concat()
    }

    /// Gives the FEC packet of a column to a function.
    pub(crate) fn fec_packet<R>(
        &self,
        matrix: usize,
        column: usize,
        take: impl FnOnce(&FecPacket<'_>) -> R,
    ) -> R {
        take(&FecPacket::parse(&self.fec_bytes(matrix, column)).unwrap())
    }
}
