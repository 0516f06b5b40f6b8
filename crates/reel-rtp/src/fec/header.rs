//! The headers of a FEC packet: RTP, and the 16 bytes of ST 2022-1 before the parity.

use super::Geometry;
use crate::error::{PacketError, check_range, split};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::rtp::{FixedHeader, HEADER_BYTES, HeaderTemplate};

/// The payload type of FEC packets.
pub const FEC_PAYLOAD_TYPE: u8 = 96;

/// Bytes before the parity: the RTP header and the FEC header.
pub const FEC_HEADERS_BYTES: usize = HEADER_BYTES + FEC_BYTES;

const FEC_BYTES: usize = 16;

/// The source of FEC packets, whatever that of the media is.
const FEC_SSRC: u32 = 0;

/// The bit E of the FEC header, which is always set.
const EXTENDED: u8 = 1 << 7;

/// The bit D: the packet is of a row and not of a column.
const ROW: u8 = 1 << 6;

/// The exclusive or of the headers of the D packets of a column. Of none of them it is all zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Of the lengths of the payloads.
    pub length: u16,
    /// Of the payload types; 7 bits.
    pub payload_type: u8,
    /// Of the marker bits.
    pub marker: bool,
    /// Of the time stamps.
    pub time_stamp: u32,
}

impl Recovery {
    /// Adds one packet to the column, or takes it out.
    pub fn add(&mut self, packet: &Recovery) {
        self.length ^= packet.length;
        self.payload_type ^= packet.payload_type;
        self.marker ^= packet.marker;
        self.time_stamp ^= packet.time_stamp;
    }
}

/// What a FEC packet says of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FecHeader {
    /// The sequence number of the first packet of the column (SNBase). The others have base + L,
    /// base + 2L and so on, modulo 2^16.
    pub base: u16,
    /// The matrix; it gives the fields Offset (L) and NA (D).
    pub geometry: Geometry,
    /// What a lost packet's header is computed from.
    pub recovery: Recovery,
}

impl FecHeader {
    /// Writes what precedes the parity. FEC packets have sequence numbers of their own;
    /// `time_stamp` is when the FEC packet itself is sent.
    pub fn write(&self, sequence: u16, time_stamp: u32, target: &mut [u8; FEC_HEADERS_BYTES]) {
        let (rtp, fec) = target.split_at_mut(HEADER_BYTES);
        let rtp: &mut [u8; HEADER_BYTES] = rtp.try_into().expect("split there");
        // The marker of the RTP header, too, is that of a lost packet (RFC 2733, section 6.1).
        HeaderTemplate::new(FEC_PAYLOAD_TYPE, FEC_SSRC).write(
            sequence,
            time_stamp,
            self.recovery.marker,
            rtp,
        );
        fec.fill(0);
        fec[..2].copy_from_slice(&self.base.to_be_bytes());
        fec[2..4].copy_from_slice(&self.recovery.length.to_be_bytes());
        fec[4] = EXTENDED | self.recovery.payload_type;
        fec[8..12].copy_from_slice(&self.recovery.time_stamp.to_be_bytes());
        fec[13] = self.geometry.columns();
        fec[14] = self.geometry.rows();
    }
}

/// A received FEC packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FecPacket<'a> {
    /// Its own sequence number.
    pub sequence: u16,
    /// When it was sent, in ticks of 90 kHz.
    pub time_stamp: u32,
    /// Its column.
    pub header: FecHeader,
    /// The exclusive or of the payloads, as long as the longest of them or longer.
    pub parity: &'a [u8],
}

impl<'a> FecPacket<'a> {
    /// Reads the bytes of a datagram.
    ///
    /// # Errors
    /// [`PacketError::Short`] if the headers are not whole. [`PacketError::Malformed`] if it is no
    /// FEC packet of ST 2022-1. [`PacketError::Unsupported`] if it is of a row, of another code
    /// than the exclusive or, or of packets with padding, extensions or contributing sources.
    /// [`PacketError::Range`] if the matrix or the parity is empty or larger than a
    /// receiver keeps.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let rtp = FixedHeader::parse(bytes)?;
        let malformed = |why| PacketError::Malformed { what: "FEC header", why };
        if rtp.payload_type != FEC_PAYLOAD_TYPE {
            return Err(malformed("its payload type is not 96"));
        }
        if !rtp.is_plain() {
            let what = "media packets with padding, extensions or contributing sources";
            return Err(PacketError::Unsupported(what));
        }
        let (fec, parity): (&[u8; FEC_BYTES], _) = split(rtp.rest, "FEC header")?;
        let [b0, b1, l0, l1, kind, m0, m1, m2, t0, t1, t2, t3, code, offset, rows, base_extension] = *fec;
        if kind & EXTENDED == 0 {
            return Err(malformed("its bit E is 0"));
        }
        if [m0, m1, m2, base_extension] != [0; 4] {
            return Err(malformed("its mask or its extension of SNBase is not 0"));
        }
        match code {
            0 => {}
            ROW => return Err(PacketError::Unsupported("FEC packets of rows")),
            _ => return Err(PacketError::Unsupported("FEC codes other than the exclusive or")),
        }
        check_range("the length of the parity", parity.len() as u64, 1, PAYLOAD_BYTES_MAX as u64)?;
        let recovery = Recovery {
            length: u16::from_be_bytes([l0, l1]),
            payload_type: kind & !EXTENDED,
            marker: rtp.marker,
            time_stamp: u32::from_be_bytes([t0, t1, t2, t3]),
        };
        let geometry = Geometry::new(offset.into(), rows.into())?;
        let header = FecHeader { base: u16::from_be_bytes([b0, b1]), geometry, recovery };
        Ok(Self { sequence: rtp.sequence, time_stamp: rtp.time_stamp, header, parity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Four packets of 1316 bytes with the time stamps 0x100, 0x203, 0x306 and 0x409, and the last
    /// one of 1128 bytes: 0x524 ^ 0x468 = 0x14c.
    fn by_hand() -> FecHeader {
        let mut recovery = Recovery::default();
        for (time_stamp, length) in [(0x100, 1316), (0x203, 1316), (0x306, 1316), (0x409, 1128)] {
            recovery.add(&Recovery { length, payload_type: 33, marker: time_stamp == 0x100, time_stamp });
        }
        FecHeader { base: 0xfff0, geometry: Geometry::new(20, 4).unwrap(), recovery }
    }

    #[test]
    fn headers_by_hand() {
        let mut bytes = [0xff; FEC_HEADERS_BYTES];
        by_hand().write(0x1234, 0x5678_9abc, &mut bytes);
        let rtp = [0x80, 0xe0, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0, 0, 0];
        let fec = [0xff, 0xf0, 0x01, 0x4c, 0x80, 0, 0, 0, 0, 0, 0x04, 0x0c, 0, 20, 4, 0];
        assert_eq!(bytes[..12], rtp);
        assert_eq!(bytes[12..], fec);
    }

    #[test]
    fn what_a_peer_claims_is_checked() {
        let mut good = [7; FEC_HEADERS_BYTES + 1];
        by_hand().write(1, 2, (&mut good[..FEC_HEADERS_BYTES]).try_into().unwrap());
        let changed = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            FecPacket::parse(&bytes).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(changed(28, 9), Ok(()));
        let faults = [
            (0, 0x40, "version"),
            (0, 0xa0, "padding"),
            (0, 0x81, "contributing sources"),
            (1, 33, "not 96"),
            (16, 0, "bit E"),
            (17, 1, "mask"),
            (24, 0x40, "of rows"),
            (24, 0x08, "other than the exclusive or"),
            (24, 0x80, "other than the exclusive or"),
            (25, 0, "(L) is 0"),
            (26, 0, "(D) is 0"),
            (26, 255, "(L x D) is 5100"),
            (27, 1, "SNBase"),
        ];
        for (at, value, part) in faults {
            let refused = changed(at, value).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
        assert!(FecPacket::parse(&good[..27]).is_err() && FecPacket::parse(&good[..28]).is_err());
        let long = [&good[..28], &[0; PAYLOAD_BYTES_MAX + 1]].concat();
        assert!(FecPacket::parse(&long).unwrap_err().to_string().contains("length of the parity"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (base, sequence, time_stamp) in any::<(u16, u16, u32)>(),
            (length, payload_type, marker, recovered) in (any::<u16>(), 0..128_u8, any::<bool>(), any::<u32>()),
            (columns, rows) in (1..=32_u16, 1..=32_u16),
            parity in proptest::collection::vec(any::<u8>(), 1..50),
        ) {
            let recovery = Recovery { length, payload_type, marker, time_stamp: recovered };
            let header = FecHeader { base, geometry: Geometry::new(columns, rows).unwrap(), recovery };
            let mut headers = [0; FEC_HEADERS_BYTES];
            header.write(sequence, time_stamp, &mut headers);
            let bytes = [&headers[..], &parity].concat();
            prop_assert_eq!(
                FecPacket::parse(&bytes),
                Ok(FecPacket { sequence, time_stamp, header, parity: &parity })
            );
        }

        #[test]
        fn any_bytes_are_a_packet_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut bytes = bytes;
            for (at, value) in [(0, 0x80), (1, 0x60), (17, 0), (18, 0), (19, 0), (24, 0), (27, 0)] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if let Ok(packet) = FecPacket::parse(&bytes) {
                let mut headers = [0; FEC_HEADERS_BYTES];
                packet.header.write(packet.sequence, packet.time_stamp, &mut headers);
                prop_assert_eq!(&headers[..8], &bytes[..8]);
                prop_assert_eq!(&headers[12..], &bytes[12..FEC_HEADERS_BYTES]);
            }
        }
    }
}
