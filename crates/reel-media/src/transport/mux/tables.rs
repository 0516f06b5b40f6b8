//! Writes the tables of a programme: PAT and PMT (ISO 13818-1 section 2.4.4).

use super::packet::{self, Marks};
use crate::input::ts::PAT_PID;
use crate::input::ts::tables::{PAT_ID, PMT_ID, ProgrammeMap, crc32};

/// PID of the programme's map.
pub(super) const MAP_PID: u16 = 0x1000;

/// The tables, and the continuity counters of their packets.
#[derive(Debug)]
pub(super) struct Tables {
    programmes: Vec<u8>,
    map: Vec<u8>,
    counters: [u8; 2],
}

impl Tables {
    /// For a stream with one programme.
    pub(super) fn new(map: &ProgrammeMap) -> Tables {
        let programmes = [map.number.to_be_bytes(), (0xe000 | MAP_PID).to_be_bytes()].concat();
        Tables {
            programmes: section(PAT_ID, 1, &programmes),
            map: section(PMT_ID, map.number, &body(map)),
            counters: [0; 2],
        }
    }

    /// Packets of both tables.
    pub(super) fn packets(&self) -> usize {
        self.programmes.len().div_ceil(packet::PAYLOAD_BYTES) + self.map.len().div_ceil(packet::PAYLOAD_BYTES)
    }

    /// Appends the packets of both tables, in the order in which receivers need them.
    pub(super) fn write(&mut self, target: &mut Vec<u8>) {
        let [programmes, map] = &mut self.counters;
        write(PAT_PID, &self.programmes, programmes, target);
        write(MAP_PID, &self.map, map, target);
    }
}

/// Appends the packets of one section.
fn write(pid: u16, section: &[u8], counter: &mut u8, target: &mut Vec<u8>) {
    let mut rest = section;
    while !rest.is_empty() {
        let marks = Marks { start: rest.len() == section.len(), ..Marks::default() };
        // Sections are followed by 0xff to the end of their packet, not preceded by stuffing.
        let mut payload = rest[..rest.len().min(packet::PAYLOAD_BYTES)].to_vec();
        rest = &rest[payload.len()..];
        payload.resize(packet::PAYLOAD_BYTES, 0xff);
        packet::write(pid, marks, *counter, &payload, target);
        *counter = (*counter + 1) & 0xf;
    }
}

/// A section with the byte before it that points to its start (pointer_field).
fn section(id: u8, extension: u16, body: &[u8]) -> Vec<u8> {
    let length = 5 + body.len() + 4;
    let mut section = vec![id, 0xb0 | (length >> 8) as u8, length as u8];
    section.extend(extension.to_be_bytes());
    // Version 0, current; section 0 of 0.
    section.extend([0xc1, 0, 0]);
    section.extend_from_slice(body);
    let sum = crc32(&section);
    section.extend(sum.to_be_bytes());
    section.insert(0, 0);
    section
}

/// What a map says after its head (section 2.4.4.9).
fn body(map: &ProgrammeMap) -> Vec<u8> {
    let sized = |bytes: &[u8]| (0xf000 | bytes.len() as u16).to_be_bytes();
    let mut body = (0xe000 | map.clock_pid).to_be_bytes().to_vec();
    body.extend(sized(&map.descriptors));
    body.extend_from_slice(&map.descriptors);
    for stream in &map.streams {
        body.push(stream.kind);
        body.extend((0xe000 | stream.pid).to_be_bytes());
        body.extend(sized(&stream.descriptors));
        body.extend_from_slice(&stream.descriptors);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ts::packet::Packet;
    use crate::input::ts::tables::{StreamEntry, Table, programmes};
    use crate::transport::PACKET_BYTES;

    #[test]
    fn tables_are_read_back() {
        for sounds in [0, 1, 32] {
            let stream = |number: u16| StreamEntry {
                kind: 0x81,
                pid: 0x100 + number,
                descriptors: b"\x0a\x04deu\0\x05\x04AC-3\x7f\x02\x80\x02".to_vec(),
            };
            let streams = (0..=sounds).map(stream).collect();
            let map = ProgrammeMap { number: 1, clock_pid: 0x100, descriptors: Vec::new(), streams };
            let mut tables = Tables::new(&map);
            let (mut first, mut second) = (Table::default(), Table::default());
            for _ in 0..20 {
                let mut bytes = Vec::new();
                tables.write(&mut bytes);
                assert_eq!(bytes.len(), tables.packets() * PACKET_BYTES);
                let mut found = Vec::new();
                for packet in bytes.as_chunks::<PACKET_BYTES>().0 {
                    let packet = Packet::parse(*packet).expect("a packet");
                    let table = if packet.pid == PAT_PID { &mut first } else { &mut second };
                    found.extend(table.push(&packet));
                }
                assert_eq!(programmes(&found[0]), Some(vec![(1, MAP_PID)]));
                assert_eq!(ProgrammeMap::parse(&found[1]).as_ref(), Some(&map));
            }
            assert_eq!((first.breaks(), second.breaks()), (0, 0));
        }
    }
}
