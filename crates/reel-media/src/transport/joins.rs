//! Where receivers may join a transport stream: at a picture that can be decoded alone, after the
//! tables that say what it is.

use super::gaps::Gaps;
use super::index::JoinPoint;
use crate::input::ts::PAT_PID;
use crate::input::ts::changes::Tables;
use crate::input::ts::packet::Packet;
use crate::input::ts::streams::is_picture_type;
use crate::input::ts::tables::ProgrammeMap;

/// Finds the places while the packets pass.
#[derive(Debug)]
pub(super) struct Joins {
    tables: Tables,
    /// Type and PID of the stream that receivers must be able to decode: the pictures, or else the
    /// first stream.
    stream: Option<(u8, u16)>,
    /// The last packet in which the table of programmes begins.
    programmes_at: Option<u64>,
    /// The last such packet that the programme's map has followed.
    complete_at: Option<u64>,
    points: Vec<JoinPoint>,
    points_max: usize,
    /// One of so many places is kept.
    one_of: u64,
    found: u64,
    programmes: Repeated,
    maps: Repeated,
}

/// When a table came.
#[derive(Debug, Default)]
struct Repeated {
    /// Packets whose times are not known yet.
    untimed: Vec<u64>,
    last_ticks: u64,
    gaps: Gaps,
}

/// Tables whose times are not known yet, at most: some seconds of usual ones. Those beyond it are
/// not asked how far apart they are.
const UNTIMED: usize = 64;

impl Repeated {
    fn come(&mut self, packet: u64) {
        if self.untimed.len() < UNTIMED {
            self.untimed.push(packet);
        }
    }

    fn time(&mut self, ticks_at: impl Fn(u64) -> u64) {
        for packet in self.untimed.drain(..) {
            let ticks = ticks_at(packet);
            self.gaps.add(self.last_ticks, ticks);
            self.last_ticks = ticks;
        }
    }
}

impl Joins {
    /// For a programme whose map has this PID; at most `points_max` places are kept.
    pub(super) fn new(map: ProgrammeMap, map_pid: u16, points_max: usize) -> Joins {
        Joins {
            stream: leading(&map),
            tables: Tables::new(map, map_pid),
            programmes_at: None,
            complete_at: None,
            points: Vec::new(),
            points_max,
            one_of: 1,
            found: 0,
            programmes: Repeated::default(),
            maps: Repeated::default(),
        }
    }

    /// The map that is in force.
    pub(super) fn map(&self) -> &ProgrammeMap {
        self.tables.map()
    }

    /// Takes the packet with this number.
    pub(super) fn push(&mut self, number: u64, packet: &Packet) {
        if packet.start && packet.pid == PAT_PID {
            self.programmes_at = Some(number);
            self.programmes.come(number);
        }
        if packet.start && packet.pid == self.tables.map_pid() {
            self.complete_at = self.programmes_at;
            self.maps.come(number);
        }
        if let Some(map) = self.tables.push(packet) {
            self.stream = leading(&map);
        }
        if let Some((kind, pid)) = self.stream
            && let Some(tables) = self.complete_at
            && (pid, true) == (packet.pid, packet.start)
            && (packet.is_marked_random_access() || begins_alone(kind, packet))
        {
            self.keep(JoinPoint { packet: number, tables });
        }
    }

    /// The times of all packets until now are known.
    pub(super) fn time(&mut self, ticks_at: impl Fn(u64) -> u64) {
        self.programmes.time(&ticks_at);
        self.maps.time(&ticks_at);
    }

    /// The places, and warnings about the tables.
    pub(super) fn finish(self) -> (Vec<JoinPoint>, Vec<String>) {
        let programmes = self.programmes.gaps.warning("the tables of programmes (PAT)");
        let maps = self.maps.gaps.warning("the maps of the programme (PMT)");
        (self.points, programmes.into_iter().chain(maps).collect())
    }

    fn keep(&mut self, point: JoinPoint) {
        self.found += 1;
        if !(self.found - 1).is_multiple_of(self.one_of) {
            return;
        }
        if self.points.len() >= self.points_max {
            let mut number = 0_usize;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.one_of *= 2;
        }
        self.points.push(point);
    }
}

/// Type and PID of the stream that receivers must find the beginning of.
fn leading(map: &ProgrammeMap) -> Option<(u8, u16)> {
    let pictures = map.streams.iter().find(|stream| is_picture_type(stream.kind));
    pictures.or(map.streams.first()).map(|stream| (stream.kind, stream.pid))
}

/// Whether a picture that can be decoded alone begins in a packet that is not marked: it has a
/// header that precedes only such pictures. Sound can be decoded from anywhere.
fn begins_alone(kind: u8, packet: &Packet) -> bool {
    if packet.scrambled {
        return false;
    }
    let header = |code: u8| match kind {
        0x01 | 0x02 => code == 0xb3,
        0x1b => matches!(code & 0x1f, 5 | 7),
        0x24 => matches!(code >> 1 & 0x3f, 16..=21 | 32 | 33),
        _ => false,
    };
    let codes = packet.payload().windows(4).filter(|window| window[..3] == [0, 0, 1]);
    !is_picture_type(kind) || codes.map(|window| window[3]).any(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::ts::packet::PACKET_BYTES;
    use crate::input::ts::tables::StreamEntry;

    fn packet(pid: u16, rest: &[u8]) -> Packet {
        let mut bytes = [0xff; PACKET_BYTES];
        bytes[..4].copy_from_slice(&[0x47, 0x40 | (pid >> 8) as u8, pid as u8, 0x10]);
        bytes[4..4 + rest.len()].copy_from_slice(rest);
        Packet::parse(bytes).expect("a packet")
    }

    fn joins(kind: u8, points_max: usize) -> Joins {
        let streams = vec![
            StreamEntry { kind: 0x0f, pid: 0x101, descriptors: Vec::new() },
            StreamEntry { kind, pid: 0x100, descriptors: Vec::new() },
        ];
        let map = ProgrammeMap { number: 1, clock_pid: 0x100, descriptors: Vec::new(), streams };
        Joins::new(map, 0x1000, points_max)
    }

    #[test]
    fn a_place_to_join_follows_its_tables() {
        let mut joins = joins(0x1b, 10);
        let key = packet(0x100, &[0, 0, 1, 0xe0, 0, 0, 1, 0x67]);
        let other = packet(0x100, &[0, 0, 1, 0xe0, 0, 0, 1, 0x61]);
        let (programmes, map) = (packet(PAT_PID, &[0]), packet(0x1000, &[0]));
        let all = [&key, &programmes, &key, &map, &other, &key, &programmes, &key];
        for (number, packet) in all.into_iter().enumerate() {
            joins.push(number as u64, packet);
        }
        let (points, warnings) = joins.finish();
        let at = |packet, tables| JoinPoint { packet, tables };
        assert_eq!(points, [at(5, 1), at(7, 1)], "the second table of programmes has no map yet");
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn headers_of_each_codec() {
        for (kind, code, is_key) in [
            (0x02, 0xb3, true),
            (0x02, 0x00, false),
            (0x1b, 0x65, true),
            (0x1b, 0x41, false),
            (0x24, 0x40, true),
            (0x24, 0x26, true),
            (0x24, 0x02, false),
            (0x33, 0x65, false),
        ] {
            let picture = packet(0x100, &[0, 0, 1, 0xe0, 0, 0, 1, code]);
            assert_eq!(begins_alone(kind, &picture), is_key, "{kind:#x} {code:#x}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut joins = joins(0x02, 16);
        joins.complete_at = Some(0);
        let key = packet(0x100, &[0, 0, 1, 0xb3]);
        (0..1000).for_each(|number| joins.push(number, &key));
        let (points, _) = joins.finish();
        assert!((8..=16).contains(&points.len()), "{}", points.len());
        let steps: Vec<u64> = points.windows(2).map(|two| two[1].packet - two[0].packet).collect();
        assert!(steps.iter().all(|step| *step == steps[0]), "{steps:?}");
    }

    #[test]
    fn rare_tables_are_warned_of() {
        let mut joins = joins(0x1b, 10);
        joins.push(0, &packet(PAT_PID, &[0]));
        joins.push(9, &packet(PAT_PID, &[0]));
        joins.time(|packet| packet * 3_000_000);
        let (_, warnings) = joins.finish();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("PAT") && warnings[0].contains("1000 ms"), "{warnings:?}");
    }
}
