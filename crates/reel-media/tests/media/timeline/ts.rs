//! Writes timelines as transport streams (ISO 13818-1).

use super::frames;
use super::meant::{Frame, Part};

const PACKET: usize = 188;
const PMT: u16 = 0x1000;
const PICTURES: u16 = 0x100;
const SOUND: u16 = 0x101;

/// How a part is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Added to all times, modulo 2^33.
    pub(crate) clock: i64,
    /// How much later than pictures of the same time sound lies in the file, in ticks.
    pub(crate) sound_lag: i64,
    /// Frames of sound in a packet of the elementary stream.
    pub(crate) frames_each: usize,
    /// The first continuity counter.
    pub(crate) counter: u8,
    /// Each picture brings a clock reference (PCR).
    pub(crate) references: bool,
}

/// The bytes of a part, which begin with its tables.
pub(crate) fn write(part: &Part, shape: Shape) -> Vec<u8> {
    let mut writer = Writer { bytes: Vec::new(), counters: [shape.counter; 4] };
    writer.tables(part);
    let mut units: Vec<(i64, u16, Vec<u8>)> = Vec::new();
    let reference = |dts: i64| shape.references.then_some((dts + shape.clock - 9000).rem_euclid(1 << 33));
    for picture in &part.pictures {
        let stamps = stamps(picture, shape.clock, picture.pts != picture.dts);
        units.push((picture.dts, PICTURES, pes(0xe0, &stamps, &access_unit(picture))));
    }
    for frames in groups(&part.sound, shape.frames_each) {
        let data: Vec<u8> = frames.iter().flat_map(|frame| frames::adts(frame.id)).collect();
        let stamps = stamps(&frames[0], shape.clock, false);
        units.push((frames[0].dts + shape.sound_lag, SOUND, pes(0xc0, &stamps, &data)));
    }
    units.sort_by_key(|(at, ..)| *at);
    for (number, (at, pid, unit)) in units.iter().enumerate() {
        if number % 40 == 39 {
            writer.tables(part);
        }
        writer.unit(*pid, unit, reference(*at).filter(|_| *pid == PICTURES));
    }
    writer.bytes
}

/// Whether the counter of the tables and that of a stream continue those of the part before, so
/// that nothing shows a joint when the stream begins.
pub(crate) fn continues(before: &[u8], part: &[u8]) -> bool {
    let counter = |packet: &[u8]| packet[3] & 15;
    let continues = |pid: u16| {
        let is_its =
            |packet: &&[u8]| u16::from_be_bytes([packet[1] & 31, packet[2]]) == pid && packet[3] & 0x10 != 0;
        let last = before.rchunks(PACKET).find(is_its).map(|packet| (counter(packet) + 1) & 15);
        let first = part.chunks(PACKET).find(is_its).map(counter);
        last == first
    };
    continues(0) && (continues(PICTURES) || continues(SOUND))
}

/// Frames that follow each other, at most so many together.
fn groups(sound: &[Frame], most: usize) -> Vec<&[Frame]> {
    let follows = |a: &Frame, b: &Frame| (b.pts - a.pts - super::meant::SOUND_FRAME).abs() < 2;
    sound.chunk_by(follows).flat_map(|run| run.chunks(most)).collect()
}

fn access_unit(picture: &Frame) -> Vec<u8> {
    let mut units = vec![vec![9, 0xf0]];
    if picture.key {
        units.extend([frames::sps(), frames::PPS.to_vec()]);
    }
    units.push(frames::slice(picture.key, picture.id));
    units.iter().flat_map(|unit| [&[0, 0, 0, 1], &unit[..]].concat()).collect()
}

/// Flags, length and fields of the times.
fn stamps(frame: &Frame, clock: i64, both: bool) -> Vec<u8> {
    let stamp = |prefix: u8, time: i64| {
        let time = (time + clock).rem_euclid(1 << 33) as u64;
        [
            prefix << 4 | (time >> 29) as u8 & 0x0e | 1,
            (time >> 22) as u8,
            (time >> 14) as u8 | 1,
            (time >> 7) as u8,
            (time << 1) as u8 | 1,
        ]
    };
    match both {
        true => [&[0xc0, 10][..], &stamp(3, frame.pts), &stamp(1, frame.dts)].concat(),
        false => [&[0x80, 5][..], &stamp(2, frame.pts)].concat(),
    }
}

fn pes(stream: u8, stamps: &[u8], data: &[u8]) -> Vec<u8> {
    // Pictures may leave their length open.
    let length = if stream == 0xe0 { 0 } else { (stamps.len() + 1 + data.len()) as u16 };
    [&[0, 0, 1, stream], &length.to_be_bytes()[..], &[0x80], stamps, data].concat()
}

struct Writer {
    bytes: Vec<u8>,
    /// Of the tables, pictures and sound.
    counters: [u8; 4],
}

impl Writer {
    fn tables(&mut self, part: &Part) {
        let pat = [0, 0, 1, 0xe0 | (PMT >> 8) as u8, PMT as u8];
        self.section(0, 0, &pat[1..]);
        let mut streams = Vec::new();
        for (is_there, kind, pid) in
            [(!part.pictures.is_empty(), 0x1b, PICTURES), (!part.sound.is_empty(), 0x0f, SOUND)]
        {
            if is_there {
                streams.extend([kind, 0xe0 | (pid >> 8) as u8, pid as u8, 0xf0, 0]);
            }
        }
        let clock = if part.pictures.is_empty() { SOUND } else { PICTURES };
        let head = [0xe0 | (clock >> 8) as u8, clock as u8, 0xf0, 0];
        self.section(PMT, 2, &[&head[..], &streams].concat());
    }

    fn section(&mut self, pid: u16, table: u8, body: &[u8]) {
        let length = body.len() + 9;
        let head = [table, 0xb0 | (length >> 8) as u8, length as u8, 0, 1, 0xc1, 0, 0];
        let mut section = [&head[..], body].concat();
        let sum = crc32(&section);
        section.extend(sum.to_be_bytes());
        section.insert(0, 0);
        section.resize(PACKET - 4, 0xff);
        self.packet(pid, true, &section);
    }

    fn unit(&mut self, pid: u16, unit: &[u8], reference: Option<i64>) {
        let mut rest = unit;
        if let Some(reference) = reference {
            self.reference(pid, reference);
        }
        let mut start = true;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(PACKET - 4));
            self.packet(pid, start, piece);
            (rest, start) = (after, false);
        }
    }

    /// A packet without payload does not count.
    fn reference(&mut self, pid: u16, reference: i64) {
        let counter = self.counters[2] & 15;
        self.bytes.extend([0x47, (pid >> 8) as u8, pid as u8, 0x20 | counter, 183, 0x10]);
        self.bytes.extend(((reference as u64) << 15 | 0x7e00).to_be_bytes().split_at(2).1);
        self.bytes.resize(self.bytes.len() + PACKET - 12, 0xff);
    }

    fn packet(&mut self, pid: u16, start: bool, payload: &[u8]) {
        let counter = match pid {
            0 => &mut self.counters[0],
            PMT => &mut self.counters[1],
            PICTURES => &mut self.counters[2],
            _ => &mut self.counters[3],
        };
        *counter = (*counter + 1) & 15;
        let stuffing = PACKET - 4 - payload.len();
        let adaptation = if stuffing > 0 { 0x30 } else { 0x10 };
        self.bytes.extend([0x47, u8::from(start) << 6 | (pid >> 8) as u8, pid as u8, adaptation | *counter]);
        if stuffing > 0 {
            self.bytes.push((stuffing - 1) as u8);
            if stuffing > 1 {
                self.bytes.push(0);
            }
            self.bytes.resize(self.bytes.len() + stuffing.saturating_sub(2), 0xff);
        }
        self.bytes.extend(payload);
    }
}

/// The checksum of tables (ISO 13818-1, annex A).
fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte) << 24, |sum, _| {
            if sum >> 31 == 1 { sum << 1 ^ 0x04c1_1db7 } else { sum << 1 }
        })
    })
}
