//! Writes timelines as MP4, classic and fragmented (ISO/IEC 14496-12).

use super::frames;
use super::meant::{Frame, Part, RATE, SOUND_FRAME};
use crate::mp4::boxes::{boxed, full, words};
use crate::mp4::movie::{aac_entry, avc_entry};

/// How the file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) fragmented: bool,
    /// Ticks per second of sound.
    pub(crate) sound_scale: i64,
    /// Added to media times; the edit list takes it away again.
    pub(crate) media_from: i64,
    /// How many samples of a track lie together.
    pub(crate) together: usize,
}

/// A sample in ticks of its track, and its bytes.
struct Sample {
    dts: i64,
    duration: u32,
    offset: i32,
    key: bool,
    data: Vec<u8>,
    /// For the order in the file.
    at: i64,
}

struct Track {
    handler: [u8; 4],
    scale: i64,
    entry: Vec<u8>,
    /// Media time of presentation time zero.
    origin: i64,
    samples: Vec<Sample>,
}

/// The bytes of a part whose first time is zero or later.
pub(crate) fn write(part: &Part, shape: Shape) -> Vec<u8> {
    let mut tracks = Vec::new();
    if !part.pictures.is_empty() {
        let data = |frame: &Frame| frames::sized(&frames::slice(frame.key, frame.id));
        let entry = avc_entry(b"avc1", &frames::avcc());
        tracks.push(track(*b"vide", RATE, entry, &part.pictures, part.step, shape, data));
    }
    if !part.sound.is_empty() {
        let data = |frame: &Frame| frames::sound(frame.id);
        tracks.push(track(*b"soun", shape.sound_scale, aac_entry(), &part.sound, SOUND_FRAME, shape, data));
    }
    if shape.fragmented { fragmented(&tracks, shape) } else { classic(&tracks, shape) }
}

fn track(
    handler: [u8; 4],
    scale: i64,
    entry: Vec<u8>,
    times: &[Frame],
    step: i64,
    shape: Shape,
    data: impl Fn(&Frame) -> Vec<u8>,
) -> Track {
    let ticks = |time: i64| time * scale / RATE;
    let first = times[0].dts;
    let samples = times.iter().enumerate().map(|(at, frame)| {
        let next = times.get(at + 1).map_or(frame.dts + step, |next| next.dts);
        Sample {
            dts: ticks(frame.dts - first),
            duration: ticks(next - frame.dts) as u32,
            offset: ticks(frame.pts - frame.dts) as i32 + ticks(shape.media_from) as i32,
            key: frame.key,
            data: data(frame),
            at: frame.dts,
        }
    });
    Track {
        handler,
        scale,
        entry,
        origin: ticks(shape.media_from) - ticks(first),
        samples: samples.collect(),
    }
}

/// `moov` with the tables of `places`, or without any.
fn moov(tracks: &[Track], places: Option<&[Vec<u32>]>) -> Vec<u8> {
    let mut moov = full(b"mvhd", 0, 0, &[words(&[0, 0, RATE as u32, 0]), vec![0; 80]].concat());
    for (number, track) in tracks.iter().enumerate() {
        let id = number as u32 + 1;
        let unity = words(&[0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000]);
        let tkhd = [words(&[0, 0, id, 0, 0, 0, 0, 0, 0]), unity, words(&[320 << 16, 192 << 16])].concat();
        let mut trak = full(b"tkhd", 0, 3, &tkhd);
        trak.extend(boxed(b"edts", &edits(track, places.is_some())));
        let mdhd =
            full(b"mdhd", 0, 0, &[words(&[0, 0, track.scale as u32, 0]), vec![0x55, 0xc4, 0, 0]].concat());
        let hdlr = full(b"hdlr", 0, 0, &[&[0; 4], track.handler.as_slice(), &[0; 13]].concat());
        let tables = tables(track, places.map(|places| &places[number][..]));
        let minf = boxed(b"minf", &boxed(b"stbl", &tables));
        trak.extend(boxed(b"mdia", &[mdhd, hdlr, minf].concat()));
        moov.extend(boxed(b"trak", &trak));
    }
    if places.is_none() {
        let trex = |id: usize| full(b"trex", 0, 0, &words(&[id as u32, 1, 0, 0, 0]));
        moov.extend(boxed(b"mvex", &(1..=tracks.len()).flat_map(trex).collect::<Vec<_>>()));
    }
    boxed(b"moov", &moov)
}

/// An empty edit for what begins late, then all of the media.
fn edits(track: &Track, has_length: bool) -> Vec<u8> {
    // The movie counts like the pictures.
    let late = -track.origin * RATE / track.scale;
    let length = |sample: &Sample| sample.dts + i64::from(sample.offset) + i64::from(sample.duration);
    let media: i64 = track.samples.iter().map(length).max().unwrap_or(0) - track.origin.max(0);
    let media = if has_length { media * RATE / track.scale + RATE } else { 0 };
    let list = if late > 0 {
        words(&[2, late as u32, u32::MAX, 0x1_0000, media as u32, 0, 0x1_0000])
    } else {
        words(&[1, media as u32, track.origin as u32, 0x1_0000])
    };
    full(b"elst", 0, 0, &list)
}

fn tables(track: &Track, places: Option<&[u32]>) -> Vec<u8> {
    let samples: &[Sample] = if places.is_some() { &track.samples } else { &[] };
    let places = places.unwrap_or(&[]);
    let list = |each: &dyn Fn(&Sample) -> Vec<u32>| words(&samples.iter().flat_map(each).collect::<Vec<_>>());
    let count = samples.len() as u32;
    let keys = samples.iter().zip(1..).filter(|(sample, _)| sample.key).map(|(_, number)| number);
    let keys: Vec<u32> = keys.collect();
    [
        full(b"stsd", 0, 0, &[words(&[1]), track.entry.clone()].concat()),
        full(b"stts", 0, 0, &[words(&[count]), list(&|sample| vec![1, sample.duration])].concat()),
        full(b"ctts", 1, 0, &[words(&[count]), list(&|sample| vec![1, sample.offset as u32])].concat()),
        full(b"stss", 0, 0, &[words(&[keys.len() as u32]), words(&keys)].concat()),
        full(b"stsc", 0, 0, &words(if places.is_empty() { &[0] } else { &[1, 1, 1, 1] })),
        full(b"stco", 0, 0, &[words(&[places.len() as u32]), words(places)].concat()),
        full(b"stsz", 0, 0, &[words(&[0, count]), list(&|sample| vec![sample.data.len() as u32])].concat()),
    ]
    .concat()
}

/// Pieces of the tracks as they lie in the file: the track, and its samples.
fn pieces(tracks: &[Track], together: usize) -> Vec<(usize, &[Sample])> {
    let mut pieces: Vec<(usize, &[Sample])> = Vec::new();
    for (number, track) in tracks.iter().enumerate() {
        pieces.extend(track.samples.chunks(together).map(|samples| (number, samples)));
    }
    pieces.sort_by_key(|(_, samples)| samples[0].at);
    pieces
}

fn ftyp() -> Vec<u8> {
    boxed(b"ftyp", b"isom\0\0\0\0isom")
}

fn classic(tracks: &[Track], shape: Shape) -> Vec<u8> {
    let mut file = ftyp();
    let mut media = Vec::new();
    let mut places = vec![Vec::new(); tracks.len()];
    for (track, samples) in pieces(tracks, shape.together) {
        for sample in samples {
            places[track].push((file.len() + 8 + media.len()) as u32);
            media.extend(&sample.data);
        }
    }
    file.extend(boxed(b"mdat", &media));
    file.extend(moov(tracks, Some(&places)));
    file
}

fn fragmented(tracks: &[Track], shape: Shape) -> Vec<u8> {
    let mut file = [ftyp(), moov(tracks, None)].concat();
    for (sequence, (track, samples)) in pieces(tracks, shape.together).into_iter().enumerate() {
        let moof = |data_at: u32| {
            let run: Vec<u32> = samples
                .iter()
                .flat_map(|sample| {
                    let flags = if sample.key { 0x0200_0000 } else { 0x0101_0000 };
                    [sample.duration, sample.data.len() as u32, flags, sample.offset as u32]
                })
                .collect();
            let tfhd = full(b"tfhd", 0, 0x02_0000, &words(&[track as u32 + 1]));
            let tfdt = full(b"tfdt", 1, 0, &(samples[0].dts as u64).to_be_bytes());
            let trun =
                full(b"trun", 1, 0xf01, &[words(&[samples.len() as u32, data_at]), words(&run)].concat());
            let mfhd = full(b"mfhd", 0, 0, &words(&[sequence as u32 + 1]));
            boxed(b"moof", &[mfhd, boxed(b"traf", &[tfhd, tfdt, trun].concat())].concat())
        };
        let length = moof(0).len() as u32;
        file.extend(moof(length + 8));
        let data: Vec<u8> = samples.iter().flat_map(|sample| sample.data.clone()).collect();
        file.extend(boxed(b"mdat", &data));
    }
    file
}
