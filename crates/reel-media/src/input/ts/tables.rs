//! Programme tables (ISO 13818-1 section 2.4.4): sections, PAT and PMT.

use super::continuity::{Continuity, Follows, Joint, Jump};
use super::packet::Packet;
use crate::limits;

/// table_id of the table of programmes.
pub(crate) const PAT_ID: u8 = 0;
/// table_id of a programme map.
pub(crate) const PMT_ID: u8 = 2;

/// The packets of one PID that carries tables.
#[derive(Debug, Default)]
pub(crate) struct Table {
    sections: Sections,
    continuity: Continuity,
}

impl Table {
    /// Takes a packet; returns the sections that it completes.
    pub(crate) fn push(&mut self, packet: &Packet) -> Vec<Vec<u8>> {
        if packet.scrambled {
            return Vec::new();
        }
        match self.continuity.check(packet, Joint::default()) {
            Follows::Nothing => return Vec::new(),
            Follows::AfterLoss => self.sections.lose(),
            Follows::Next | Follows::LostBefore | Follows::AtJoint(_) => {}
        }
        self.sections.push(packet.payload(), packet.start)
    }

    /// Whether the counter of the next packet does not continue.
    pub(crate) fn breaks_at(&self, packet: &Packet) -> bool {
        self.continuity.breaks_at(packet)
    }

    /// Times that the counter did not advance by one.
    pub(crate) fn breaks(&self) -> u64 {
        self.continuity.breaks
    }

    /// How the counter jumped the latest time.
    pub(crate) fn jump(&self) -> Jump {
        self.continuity.jump
    }
}

/// Assembles the sections of one table stream.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    pending: Vec<u8>,
    started: bool,
}

impl Sections {
    /// Packets are missing: the unfinished section is incomplete.
    pub(crate) fn lose(&mut self) {
        self.pending.clear();
        self.started = false;
    }

    /// Takes a packet's payload; returns the sections that it completes.
    pub(crate) fn push(&mut self, payload: &[u8], start: bool) -> Vec<Vec<u8>> {
        let mut complete = Vec::new();
        if !start {
            self.extend(payload, &mut complete);
            return complete;
        }
        let Some((&pointer, rest)) = payload.split_first() else { return complete };
        let Some((end_of_last, fresh)) = rest.split_at_checked(usize::from(pointer)) else {
            self.started = false;
            return complete;
        };
        self.extend(end_of_last, &mut complete);
        self.pending.clear();
        self.started = true;
        self.extend(fresh, &mut complete);
        complete
    }

    fn extend(&mut self, bytes: &[u8], complete: &mut Vec<Vec<u8>>) {
        if !self.started {
            return;
        }
        self.pending.extend_from_slice(bytes);
        while let Some(length) = section_bytes(&self.pending) {
            if length > limits::TS_SECTION_BYTES {
                self.started = false;
                break;
            }
            if self.pending.len() < length {
                return;
            }
            let rest = self.pending.split_off(length);
            let section = std::mem::replace(&mut self.pending, rest);
            if crc32(&section) == 0 {
                complete.push(section);
            }
        }
        if self.pending.first() == Some(&0xff) || !self.started {
            // Stuffing up to the end of the packet.
            self.pending.clear();
            self.started = false;
        }
    }
}

/// Programme numbers and PIDs of their PMTs; `None` if the section is no current PAT.
pub(crate) fn programmes(section: &[u8]) -> Option<Vec<(u16, u16)>> {
    let body = table_body(section, PAT_ID)?;
    let entries = body.chunks_exact(4).map(|entry| (word(entry), word(&entry[2..]) & 0x1fff));
    // Programme 0 points to the network information.
    Some(entries.filter(|(number, _)| *number != 0).collect())
}

/// A programme map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgrammeMap {
    /// The number of its programme.
    pub(crate) number: u16,
    /// PID of the packets with its clock.
    pub(crate) clock_pid: u16,
    /// Descriptors of the programme.
    pub(crate) descriptors: Vec<u8>,
    /// Its streams.
    pub(crate) streams: Vec<StreamEntry>,
}

/// A stream of a programme map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamEntry {
    /// stream_type.
    pub(crate) kind: u8,
    /// PID of its packets.
    pub(crate) pid: u16,
    /// Its descriptors.
    pub(crate) descriptors: Vec<u8>,
}

impl ProgrammeMap {
    /// Reads a section; `None` if it is no current PMT.
    pub(crate) fn parse(section: &[u8]) -> Option<Self> {
        let body = table_body(section, PMT_ID)?;
        let (descriptors, mut rest) = sized(body.get(2..)?)?;
        let clock_pid = word(body) & 0x1fff;
        let mut streams = Vec::new();
        while rest.len() >= 5 && streams.len() < limits::TRACKS {
            let (kind, pid) = (rest[0], word(&rest[1..]) & 0x1fff);
            let (descriptors, tail) = sized(&rest[3..])?;
            streams.push(StreamEntry { kind, pid, descriptors: descriptors.to_vec() });
            rest = tail;
        }
        let number = word(&section[3..]);
        Some(Self { number, clock_pid, descriptors: descriptors.to_vec(), streams })
    }
}

/// Tags and bodies of descriptors (section 2.6).
pub(crate) fn descriptors(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (&[tag, length], tail) = rest.split_first_chunk()?;
        let (body, tail) = tail.split_at_checked(usize::from(length))?;
        rest = tail;
        Some((tag, body))
    })
}

/// The bytes between the eight bytes of the head and the checksum, if the table is the wanted one
/// and current.
fn table_body(section: &[u8], id: u8) -> Option<&[u8]> {
    let current = section.get(5)? & 1 == 1;
    (section[0] == id && current).then(|| section.get(8..section.len().checked_sub(4)?)).flatten()
}

/// A twelve-bit length and as many bytes.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(word(bytes.get(..2)?) & 0xfff);
    bytes[2..].split_at_checked(length)
}

/// Length of the section at the start of `pending`; `None` if it is not known yet or there is none.
fn section_bytes(pending: &[u8]) -> Option<usize> {
    let head = pending.get(..3).filter(|head| head[0] != 0xff)?;
    Some(3 + usize::from(word(&head[1..]) & 0xfff))
}

/// Two bytes; callers have checked that there are two.
fn word(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// The checksum of annex A: 0 over a section with its checksum.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x04c1_1db7;
    bytes.iter().fold(u32::MAX, |mut crc, byte| {
        crc ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            crc = if crc >> 31 == 1 { (crc << 1) ^ POLYNOMIAL } else { crc << 1 };
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_checksum(mut section: Vec<u8>) -> Vec<u8> {
        let length = section.len() - 3 + 4;
        section[1] = 0xb0 | u8::try_from(length >> 8).unwrap();
        section[2] = u8::try_from(length & 0xff).unwrap();
        let crc = crc32(&section);
        section.extend(crc.to_be_bytes());
        section
    }

    fn pat() -> Vec<u8> {
        with_checksum(vec![0, 0, 0, 0, 1, 0xc1, 0, 0, 0, 0, 0xe0, 0x10, 0, 5, 0xe1, 0x00, 0, 6, 0xf2, 0x00])
    }

    #[test]
    fn the_checksum_of_a_well_known_pat() {
        // The PAT ffmpeg writes for one programme.
        let section = [0, 0xb0, 0x0d, 0, 1, 0xc1, 0, 0, 0, 1, 0xf0, 0, 0x2a, 0xb1, 0x04, 0xb2];
        assert_eq!(crc32(&section), 0);
        assert_eq!(programmes(&section), Some(vec![(1, 0x1000)]));
    }

    #[test]
    fn sections_over_several_packets() {
        let section = pat();
        let mut sections = Sections::default();
        assert!(sections.push(&section[3..], false).is_empty(), "not begun yet");
        let mut first = vec![0];
        first.extend(&section[..9]);
        assert!(sections.push(&first, true).is_empty());
        let mut second = vec![u8::try_from(section.len() - 9).unwrap()];
        second.extend(&section[9..]);
        second.extend(&section);
        second.extend([0xff; 5]);
        let found = sections.push(&second, true);
        assert_eq!(found, [section.clone(), section.clone()]);
        assert_eq!(programmes(&found[0]), Some(vec![(5, 0x100), (6, 0x1200)]));
        let mut damaged = vec![0];
        damaged.extend(&section);
        damaged[10] ^= 1;
        assert!(sections.push(&damaged, true).is_empty());
    }

    #[test]
    fn a_programme_map() {
        let section = with_checksum(vec![
            2, 0, 0, 0, 5, 0xc1, 0, 0, 0xe1, 0x00, 0xf0, 0x02, 0x09, 0x00, 0x1b, 0xe1, 0x00, 0xf0, 0x00,
            0x0f, 0xe1, 0x01, 0xf0, 0x06, 0x0a, 0x04, b'd', b'e', b'u', 0,
        ]);
        let map = ProgrammeMap::parse(&section).unwrap();
        assert_eq!((map.number, map.clock_pid, map.streams.len()), (5, 0x100, 2));
        assert_eq!((map.streams[1].kind, map.streams[1].pid), (0x0f, 0x101));
        assert_eq!(descriptors(&map.streams[1].descriptors).next(), Some((0x0a, &b"deu\0"[..])));
    }

    proptest! {
        #[test]
        fn any_payload_is_handled(payloads in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..184), any::<bool>()), 0..60)) {
            let mut sections = Sections::default();
            for (payload, start) in payloads {
                for section in sections.push(&payload, start) {
                    let _ = (programmes(&section), ProgrammeMap::parse(&section));
                }
                prop_assert!(sections.pending.len() <= limits::TS_SECTION_BYTES + 184);
            }
        }
    }
}
