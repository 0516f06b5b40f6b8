//! Segments as they come from the server, and packets as they go to it.

use super::limits::{SEGMENT_BYTES, SERVER};
use std::net::Ipv4Addr;

/// TCP's flags (RFC 9293, 3.1).
pub(super) mod flag {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const PSH: u8 = 8;
    pub(crate) const ACK: u8 = 16;
}

/// The powers of two by which windows are told, ours: 16 MiB fit.
const WINDOW_SCALE: u8 = 8;
const IP_BYTES: usize = 20;
const TCP_BYTES: usize = 20;
const RECORD_BYTES: usize = 32;

/// One record of the tap: a segment or super-segment that left the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    /// Bytes of payload.
    pub(super) bytes: u32,
    /// The payload, as far as it was handed over.
    pub(super) text: Vec<u8>,
}

/// Which connection: the viewer's address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) address: Ipv4Addr,
    pub(super) port: u16,
}

impl Segment {
    /// Reads a record: when it left (monotonic clock), for whom, and what. `None` if it is none of
    /// ours.
    pub(super) fn read(record: &[u8]) -> Option<(u64, Name, Self)> {
        let (head, text) = record.split_at_checked(RECORD_BYTES)?;
        let four = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?));
        let two = |at: usize| Some(u16::from_ne_bytes(head.get(at..at + 2)?.try_into().ok()?));
        let at_ns = u64::from_ne_bytes(head.get(..8)?.try_into().ok()?);
        let name = Name { address: Ipv4Addr::from(four(8)?), port: two(12)? };
        let segment = Self {
            flags: head[14],
            sequence: four(16)?,
            acknowledged: four(20)?,
            bytes: four(24)?,
            text: text.get(..usize::from(two(30)?))?.to_owned(),
        };
        Some((at_ns, name, segment))
    }

    pub(super) fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// A packet of a viewer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    /// What the viewer could take, in bytes.
    pub(super) window_bytes: u32,
    /// Ranges that arrived behind a hole (RFC 2018).
    pub(super) islands: Vec<(u32, u32)>,
    pub(super) payload: Vec<u8>,
}

impl Packet {
    /// Appends it to `bytes` as an IPv4 packet (RFC 791, RFC 9293). The kernel fills in IP's length
    /// and checksum.
    pub(super) fn write(&self, from: Name, to_port: u16, bytes: &mut Vec<u8>) {
        let options = self.options();
        let header = TCP_BYTES + options.len();
        let start = bytes.len();
        bytes.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        bytes.extend(from.address.octets());
        bytes.extend(SERVER.octets());
        let tcp = bytes.len();
        bytes.extend(from.port.to_be_bytes());
        bytes.extend(to_port.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledged.to_be_bytes());
        bytes.extend([((header / 4) << 4) as u8, self.flags]);
        // The window of a SYN is never scaled (RFC 7323, 2.2).
        let scale = if self.flags & flag::SYN != 0 { 0 } else { WINDOW_SCALE };
        let window = (self.window_bytes >> scale).min(u32::from(u16::MAX)) as u16;
        bytes.extend(window.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(options);
        bytes.extend(&self.payload);
        let sum = checksum(from.address, &bytes[tcp..]);
        bytes[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
        debug_assert_eq!(tcp - start, IP_BYTES);
    }

    fn options(&self) -> Vec<u8> {
        let mut options = Vec::new();
        if self.flags & flag::SYN != 0 {
            // Largest segment, selective acknowledgements, scale of the window.
            let [high, low] = (SEGMENT_BYTES as u16).to_be_bytes();
            options.extend([2, 4, high, low, 4, 2, 3, 3, WINDOW_SCALE, 1, 1, 1]);
        } else if !self.islands.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * self.islands.len() as u8]);
            for (from, to) in &self.islands {
                options.extend(from.to_be_bytes());
                options.extend(to.to_be_bytes());
            }
        }
        options
    }
}

/// RFC 9293, 3.1: with the pseudo header.
fn checksum(from: Ipv4Addr, tcp: &[u8]) -> u16 {
    let mut sum = 6 + tcp.len() as u64;
    let mut add = |bytes: &[u8]| {
        for pair in bytes.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    };
    add(&from.octets());
    add(&SERVER.octets());
    add(tcp);
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name { address: Ipv4Addr::new(10, 128, 0, 7), port: 20_000 };

    #[test]
    fn the_checksum_of_a_packet_with_its_checksum_is_zero() {
        let islands = vec![(10, 20), (30, 41)];
        for (flags, islands, payload) in [
            (flag::SYN, vec![], &b""[..]),
            (flag::ACK, islands, b""),
            (flag::ACK | flag::PSH, vec![], b"GET / HTTP/1.1\r\n\r\n!"),
        ] {
            let packet = Packet { flags, islands, payload: payload.to_vec(), ..Packet::default() };
            let mut bytes = Vec::new();
            packet.write(NAME, 80, &mut bytes);
            assert_eq!(checksum(NAME.address, &bytes[IP_BYTES..]), 0);
            assert_eq!((bytes[IP_BYTES + 12] >> 4) << 2, (bytes.len() - IP_BYTES - payload.len()) as u8);
        }
    }

    #[test]
    fn a_record_that_lies_about_its_text_is_refused() {
        let mut record = vec![0; RECORD_BYTES];
        record[30..32].copy_from_slice(&5_u16.to_ne_bytes());
        assert_eq!(Segment::read(&record), None);
        record.extend(b"HTTP/");
        let (_, _, segment) = Segment::read(&record).expect("a whole record");
        assert_eq!(segment.text, b"HTTP/");
        assert_eq!(Segment::read(&record[..31]), None);
    }
}
