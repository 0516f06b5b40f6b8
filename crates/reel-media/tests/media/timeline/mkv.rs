//! Writes timelines as Matroska (RFC 9559), with times in milliseconds.

use super::frames;
use super::meant::Part;
use crate::mkv_made::{cluster, element, number};

/// How the file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Added to all times, in milliseconds.
    pub(crate) from_ms: i64,
    /// Whether the file states how long a picture and a frame of sound last.
    pub(crate) durations: bool,
    /// Milliseconds of a cluster.
    pub(crate) cluster_ms: i64,
}

const PICTURES: u8 = 1;
const SOUND: u8 = 2;

/// The bytes of a part whose first time is zero or later.
pub(crate) fn write(part: &Part, shape: Shape) -> Vec<u8> {
    // Track, decoding time, time in milliseconds, key, bytes.
    let ms = |pts: i64| (pts * 2 + 90).div_euclid(180) + shape.from_ms;
    let mut blocks = Vec::new();
    for picture in &part.pictures {
        let data = frames::sized(&frames::slice(picture.key, picture.id));
        blocks.push((picture.dts, PICTURES, ms(picture.pts), picture.key, data));
    }
    for frame in &part.sound {
        blocks.push((frame.dts, SOUND, ms(frame.pts), true, frames::sound(frame.id)));
    }
    blocks.sort_by_key(|(dts, ..)| *dts);
    let mut clusters = Vec::new();
    let mut open: Option<(i64, Vec<Vec<u8>>)> = None;
    for (_, track, at_ms, key, data) in blocks {
        let fits =
            open.as_ref().is_some_and(|(from, _)| (-20_000..shape.cluster_ms).contains(&(at_ms - from)));
        if !fits {
            clusters.extend(open.take().map(|(from, blocks)| cluster(from as u64, &blocks)));
        }
        let (from, list) = open.get_or_insert((at_ms, Vec::new()));
        let head =
            [&[0x80 | track], &((at_ms - *from) as i16).to_be_bytes()[..], &[u8::from(key) << 7]].concat();
        list.push(element(0xa3, &[head, data].concat()));
    }
    clusters.extend(open.map(|(from, blocks)| cluster(from as u64, &blocks)));
    let info = element(0x1549_a966, &number(0x2a_d7b1, 1_000_000));
    let segment = [info, tracks(part, shape), clusters.concat()].concat();
    [element(0x1a45_dfa3, &element(0x4282, b"matroska")), element(0x1853_8067, &segment)].concat()
}

fn tracks(part: &Part, shape: Shape) -> Vec<u8> {
    let mut entries = Vec::new();
    let duration = |ticks: i64| match shape.durations {
        true => number(0x23_e383, (ticks * 100_000 / 9) as u64),
        false => Vec::new(),
    };
    if !part.pictures.is_empty() {
        let size = [number(0xb0, 320), number(0xba, 192)].concat();
        let entry = [
            number(0xd7, PICTURES.into()),
            number(0x83, 1),
            element(0x86, b"V_MPEG4/ISO/AVC"),
            element(0x63a2, &frames::avcc()),
            element(0xe0, &size),
            duration(part.step),
        ];
        entries.extend(element(0xae, &entry.concat()));
    }
    if !part.sound.is_empty() {
        let audio = [element(0xb5, &48_000f32.to_be_bytes()), number(0x9f, 2)].concat();
        let entry = [
            number(0xd7, SOUND.into()),
            number(0x83, 2),
            element(0x86, b"A_AAC"),
            element(0x63a2, &[0x11, 0x90]),
            element(0xe1, &audio),
            duration(super::meant::SOUND_FRAME),
        ];
        entries.extend(element(0xae, &entry.concat()));
    }
    element(0x1654_ae6b, &entries)
}
