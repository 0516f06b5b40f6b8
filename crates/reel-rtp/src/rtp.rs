//! RTP packets (RFC 3550, section 5.1) of a transport stream (RFC 2250, section 2).

use crate::error::{PacketError, skip, split};

/// Bytes of an RTP header without sources and extension.
pub const HEADER_BYTES: usize = 12;

/// The payload type of MPEG transport streams, `MP2T` (RFC 3551, section 6).
pub const MP2T: u8 = 33;

/// Ticks of a time stamp in a second (RFC 2250, section 2).
pub const CLOCK_HZ: u32 = 90_000;

/// Version 2, in the place of the first byte.
const VERSION: u8 = 2 << 6;
const VERSION_MASK: u8 = 3 << 6;
const PADDING: u8 = 1 << 5;
const EXTENSION: u8 = 1 << 4;
const SOURCES: u8 = 0xf;
const MARKER: u8 = 1 << 7;

/// The header of all packets of one flow; a packet's own fields are written over a copy.
#[derive(Debug, Clone)]
pub struct HeaderTemplate([u8; HEADER_BYTES]);

impl HeaderTemplate {
    /// Headers of a transport stream from the source `ssrc`.
    #[must_use]
    pub fn mp2t(ssrc: u32) -> Self {
        Self::new(MP2T, ssrc)
    }

    pub(crate) fn new(payload_type: u8, ssrc: u32) -> Self {
        let mut header = [0; HEADER_BYTES];
        header[0] = VERSION;
        header[1] = payload_type;
        header[8..].copy_from_slice(&ssrc.to_be_bytes());
        Self(header)
    }

    /// Writes the header of one packet. `marker` says that the time stamp does not continue that of
    /// the packet before (RFC 2250, section 2).
    pub fn write(&self, sequence: u16, time_stamp: u32, marker: bool, target: &mut [u8; HEADER_BYTES]) {
        *target = self.0;
        target[1] |= if marker { MARKER } else { 0 };
        target[2..4].copy_from_slice(&sequence.to_be_bytes());
        target[4..8].copy_from_slice(&time_stamp.to_be_bytes());
    }
}

/// A received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Whether the marker bit is set.
    pub marker: bool,
    /// What the payload is; 7 bits.
    pub payload_type: u8,
    /// The sequence number.
    pub sequence: u16,
    /// The time stamp, in ticks of the payload type's clock.
    pub time_stamp: u32,
    /// The source.
    pub ssrc: u32,
    /// Whether the payload follows the first 12 bytes and ends with the packet: there are no
    /// contributing sources, no extension and no padding.
    pub is_plain: bool,
    /// The payload, without padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the bytes of a datagram.
    ///
    /// # Errors
    /// [`PacketError::Short`] if the header, the contributing sources or the extension end after
    /// the datagram. [`PacketError::Malformed`] if the version is not 2, or the padding is empty or
    /// longer than what it ends.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let fixed = FixedHeader::parse(bytes)?;
        let mut payload = skip(fixed.rest, 4 * usize::from(fixed.flags & SOURCES), "list of RTP sources")?;
        if fixed.flags & EXTENSION != 0 {
            let (&[_, _, high, low], rest) = split(payload, "RTP extension's header")?;
            payload = skip(rest, 4 * usize::from(u16::from_be_bytes([high, low])), "RTP extension")?;
        }
        if fixed.flags & PADDING != 0 {
            payload = without_padding(payload)?;
        }
        Ok(Self {
            marker: fixed.marker,
            payload_type: fixed.payload_type,
            sequence: fixed.sequence,
            time_stamp: fixed.time_stamp,
            ssrc: fixed.ssrc,
            is_plain: fixed.is_plain(),
            payload,
        })
    }
}

/// The first 12 bytes of a packet, and the bytes after them. In a FEC packet, the flags describe
/// the lost packet and not what follows.
pub(crate) struct FixedHeader<'a> {
    flags: u8,
    pub(crate) marker: bool,
    pub(crate) payload_type: u8,
    pub(crate) sequence: u16,
    pub(crate) time_stamp: u32,
    ssrc: u32,
    pub(crate) rest: &'a [u8],
}

impl<'a> FixedHeader<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (header, rest): (&[u8; HEADER_BYTES], _) = split(bytes, "RTP header")?;
        let [flags, kind, s0, s1, t0, t1, t2, t3, c0, c1, c2, c3] = *header;
        if flags & VERSION_MASK != VERSION {
            return Err(PacketError::Malformed { what: "RTP header", why: "its version is not 2" });
        }
        Ok(Self {
            flags,
            marker: kind & MARKER != 0,
            payload_type: kind & !MARKER,
            sequence: u16::from_be_bytes([s0, s1]),
            time_stamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([c0, c1, c2, c3]),
            rest,
        })
    }

    /// Whether there are no contributing sources, no extension and no padding.
    pub(crate) fn is_plain(&self) -> bool {
        self.flags & (PADDING | EXTENSION | SOURCES) == 0
    }
}

/// What precedes the padding. Its last byte is its length, that byte included (RFC 3550, 5.1).
fn without_padding(bytes: &[u8]) -> Result<&[u8], PacketError> {
    let padding = usize::from(*bytes.last().unwrap_or(&0));
    match bytes.len().checked_sub(padding) {
        Some(end) if padding > 0 => Ok(&bytes[..end]),
        _ => Err(PacketError::Malformed {
            what: "RTP padding",
            why: "its length is zero or more than what it ends",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_by_hand() {
        let mut header = [0xff; HEADER_BYTES];
        HeaderTemplate::mp2t(0x0102_0304).write(0xfffe, 0x1122_3344, false, &mut header);
        assert_eq!(header, [0x80, 33, 0xff, 0xfe, 0x11, 0x22, 0x33, 0x44, 1, 2, 3, 4]);
        HeaderTemplate::mp2t(0x0102_0304).write(0, 0, true, &mut header);
        assert_eq!(header, [0x80, 0xa1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn sources_extension_and_padding_are_skipped() {
        // Two sources, an extension of one word, payload 1 2 3, padding of 5 bytes.
        let mut bytes = vec![0xb2, 0x60, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
        bytes.extend([9; 8]);
        bytes.extend([0xbe, 0xde, 0, 1, 9, 9, 9, 9]);
        bytes.extend([1, 2, 3]);
        bytes.extend([0, 0, 0, 0, 5]);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.payload, packet.is_plain), (&[1, 2, 3][..], false));
        assert_eq!((packet.payload_type, packet.sequence, packet.time_stamp, packet.ssrc), (96, 1, 2, 3));
    }

    #[test]
    fn what_a_peer_claims_is_checked() {
        let refused = |bytes: &[u8]| Packet::parse(bytes).unwrap_err().to_string();
        let header = |flags: u8| [flags, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(refused(&[0x80; 11]).contains("RTP header needs 12 bytes and has 11"));
        assert!(refused(&header(0x40)).contains("version"));
        assert!(refused(&header(0x8f)).contains("list of RTP sources needs 60 bytes"));
        assert!(refused(&header(0x90)).contains("extension's header needs 4 bytes"));
        let with = |flags: u8, rest: &[u8]| [&header(flags)[..], rest].concat();
        assert!(refused(&with(0x90, &[0, 0, 0xff, 0xff])).contains("RTP extension needs 262140 bytes"));
        for rest in [&[][..], &[0], &[1, 2, 0], &[1, 2, 4]] {
            assert!(refused(&with(0xa0, rest)).contains("padding"), "{rest:?}");
        }
        assert_eq!(Packet::parse(&with(0xa0, &[1, 2, 3])).unwrap().payload, &[0_u8; 0]);
        assert_eq!(Packet::parse(&header(0x80)).unwrap().payload, &[0_u8; 0]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (ssrc, sequence, time_stamp) in any::<(u32, u16, u32)>(),
            marker in any::<bool>(),
            payload in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let mut header = [0; HEADER_BYTES];
            HeaderTemplate::mp2t(ssrc).write(sequence, time_stamp, marker, &mut header);
            let bytes = [&header[..], &payload].concat();
            let packet = Packet {
                marker, payload_type: MP2T, sequence, time_stamp, ssrc, is_plain: true, payload: &payload
            };
            prop_assert_eq!(Packet::parse(&bytes), Ok(packet));
        }

        #[test]
        fn any_bytes_are_a_packet_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.payload.len() + HEADER_BYTES <= bytes.len());
            }
        }
    }
}
