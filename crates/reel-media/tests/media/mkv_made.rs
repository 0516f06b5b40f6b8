//! Matroska features that ffmpeg does not write, in files that are built here from ffmpeg's frames.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::oracle::*;
use reel_media::{Codec, Demux, MediaError, Source};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const DEFAULT_SCALE_MS: &[u8] = &[0x0f, 0x42, 0x40];

/// An element with an eight-byte size.
pub(crate) fn element(id: u32, body: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let start = id.iter().position(|byte| *byte != 0).unwrap();
    let size = (1u64 << 56) | body.len() as u64;
    [&id[start..], &size.to_be_bytes(), body].concat()
}

pub(crate) fn number(id: u32, value: u64) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

/// A file of one MP3 track whose entry has `extra` elements.
pub(crate) fn file(extra: &[u8], clusters: &[u8]) -> Vec<u8> {
    file_of("A_MPEG/L3", extra, clusters)
}

fn file_of(codec: &str, extra: &[u8], clusters: &[u8]) -> Vec<u8> {
    let audio = [element(0xb5, &48_000f32.to_be_bytes()), number(0x9f, 1)].concat();
    let entry = [
        number(0xd7, 1),
        number(0x83, 2),
        element(0x86, codec.as_bytes()),
        element(0xe1, &audio),
        extra.to_vec(),
    ];
    let tracks = element(0x1654_ae6b, &element(0xae, &entry.concat()));
    let info = element(0x1549_a966, &element(0x2a_d7b1, DEFAULT_SCALE_MS));
    let head = element(0x1a45_dfa3, &element(0x4282, b"matroska"));
    [head, element(0x1853_8067, &[info, tracks, clusters.to_vec()].concat())].concat()
}

pub(crate) fn cluster(ms: u64, blocks: &[Vec<u8>]) -> Vec<u8> {
    element(0x1f43_b675, &[number(0xe7, ms), blocks.concat()].concat())
}

pub(crate) fn block_body(relative_ms: i16, flags: u8, payload: &[u8]) -> Vec<u8> {
    [&[0x81], &relative_ms.to_be_bytes()[..], &[flags], payload].concat()
}

pub(crate) fn open(bytes: Vec<u8>) -> Result<Box<dyn Demux>, MediaError> {
    reel_media::open(Box::new(Memory(bytes)))
}

fn refused(bytes: Vec<u8>) -> MediaError {
    open(bytes).err().expect("no usable file")
}

/// Frames of one second of MP3 at 48 kHz: 24 ms each.
pub(crate) fn mp3_frames() -> Vec<Vec<u8>> {
    frames("-c:a libmp3lame -q:a 5")
}

fn frames(encoder: &str) -> Vec<Vec<u8>> {
    let film_dir = FilmDir::new();
    let path = film_dir.make("a.mkv", &[tone(440, 48_000, 1), words(encoder)]);
    let mut demux = open(std::fs::read(path).unwrap()).unwrap();
    drain(demux.as_mut()).unwrap().into_iter().map(|taken| taken.data).collect()
}

fn assert_frames(bytes: Vec<u8>, frames: &[Vec<u8>]) {
    let mut demux = open(bytes).unwrap();
    let taken = drain(demux.as_mut()).unwrap();
    assert_eq!(taken.len(), frames.len());
    for (index, (taken, frame)) in taken.iter().zip(frames).enumerate() {
        assert_eq!(&taken.data, frame, "frame {index}");
        assert_eq!(taken.packet.sample.pts, 1152 * index as i64);
        assert_eq!(taken.packet.sample.duration, 1152);
    }
}

#[test]
fn laces() {
    let frames: Vec<_> = mp3_frames().into_iter().take(40).collect();
    for lacing in [1u8, 3] {
        let blocks: Vec<_> = frames
            .chunks(8)
            .enumerate()
            .map(|(index, lace)| {
                let mut payload = vec![u8::try_from(lace.len() - 1).unwrap()];
                let sizes: Vec<_> = lace[..lace.len() - 1].iter().map(Vec::len).collect();
                for (at, size) in sizes.iter().enumerate() {
                    match (lacing, at) {
                        (1, _) => {
                            payload.extend(vec![0xff; size / 255]);
                            payload.push(u8::try_from(size % 255).unwrap());
                        }
                        (_, 0) => payload.extend((0x4000 | u16::try_from(*size).unwrap()).to_be_bytes()),
                        _ => {
                            let difference =
                                i64::try_from(*size).unwrap() - i64::try_from(sizes[at - 1]).unwrap();
                            let coded = 0x4000 | u16::try_from(difference + 0x1fff).unwrap();
                            payload.extend(coded.to_be_bytes());
                        }
                    }
                }
                payload.extend(lace.concat());
                let body = block_body(i16::try_from(index * 8 * 24).unwrap(), 0x80 | lacing << 1, &payload);
                element(0xa3, &body)
            })
            .collect();
        assert_frames(file(&[], &cluster(0, &blocks)), &frames);
    }
}

#[test]
fn laces_of_equal_frames() {
    let first = mp3_frames().into_iter().nth(5).unwrap();
    let frames = vec![first; 12];
    let blocks: Vec<_> = frames
        .chunks(4)
        .enumerate()
        .map(|(index, lace)| {
            let body =
                block_body(i16::try_from(index * 96).unwrap(), 0x84, &[&[3], &lace.concat()[..]].concat());
            element(0xa3, &body)
        })
        .collect();
    assert_frames(file(&[], &cluster(0, &blocks)), &frames);
}

#[test]
fn block_groups_and_stripped_headers() {
    let frames = mp3_frames();
    let head = &frames[1][..2];
    assert!(frames.iter().all(|frame| &frame[..2] == head));
    let compression = element(0x5034, &[number(0x4254, 3), element(0x4255, head)].concat());
    let extra = element(0x6d80, &element(0x6240, &compression));
    let clusters: Vec<_> = frames
        .chunks(10)
        .enumerate()
        .map(|(index, part)| {
            let groups: Vec<_> = part
                .iter()
                .enumerate()
                .map(|(at, frame)| {
                    let body = block_body(i16::try_from(at * 24).unwrap(), 0, &frame[2..]);
                    element(0xa0, &[number(0x9b, 24), element(0xa1, &body)].concat())
                })
                .collect();
            cluster(index as u64 * 240, &groups)
        })
        .collect();
    assert_frames(file(&extra, &clusters.concat()), &frames);
}

#[test]
fn stripped_headers_do_not_multiply_a_file() {
    let frames = mp3_frames();
    let (head, last) = frames[1].split_at(frames[1].len() - 1);
    let compression = element(0x5034, &[number(0x4254, 3), element(0x4255, head)].concat());
    let extra = element(0x6d80, &element(0x6240, &compression));
    let block = |at: i16| element(0xa3, &block_body(at * 24, 0x80, last));
    let clusters: Vec<_> =
        (0..400).map(|index| cluster(index * 1200, &(0..50).map(block).collect::<Vec<_>>())).collect();
    let error = open(file(&extra, &clusters.concat())).and_then(|mut demux| drain(demux.as_mut()));
    let error = error.err().unwrap();
    assert!(matches!(error, MediaError::Budget { .. }), "{error}");
}

#[test]
fn a_late_start_becomes_zero_and_a_gap_stays() {
    let frames: Vec<_> = mp3_frames().into_iter().take(4).collect();
    let block = |frame: &Vec<u8>, ms: i16| element(0xa3, &block_body(ms, 0x80, frame));
    let blocks =
        [block(&frames[0], 0), block(&frames[1], 24), block(&frames[2], 1000), block(&frames[3], 1024)];
    let mut demux = open(file(&[], &cluster(7_200_000, &blocks))).unwrap();
    let taken = drain(demux.as_mut()).unwrap();
    let times: Vec<_> = taken.iter().map(|taken| taken.packet.sample.pts).collect();
    assert_eq!(times, [0, 1152, 48_000, 49_152]);
    assert_contiguous(&taken);
}

#[test]
fn damage_between_clusters_is_skipped() {
    let frames: Vec<_> = mp3_frames().into_iter().take(2).collect();
    let one = |frame: &Vec<u8>, ms: u64| cluster(ms, &[element(0xa3, &block_body(0, 0x80, frame))]);
    let clusters = [one(&frames[0], 0), vec![0; 300], one(&frames[1], 24)].concat();
    let mut demux = open(file(&[], &clusters)).unwrap();
    assert_eq!(drain(demux.as_mut()).unwrap().len(), 2);
    let told = demux.warnings().join("\n");
    assert!(told.starts_with("damage skipped: bytes "), "{told}");
    assert!(told.contains(", between 00:00:00.000 and 00:00:00.024, are not Matroska"), "{told}");
}

/// Counts the bytes that are read.
pub(crate) struct Counting(pub(crate) Memory, pub(crate) Arc<AtomicUsize>);

impl Source for Counting {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.1.fetch_add(target.len(), Ordering::Relaxed);
        self.0.read_at(offset, target)
    }
}

#[test]
fn damage_after_damage_is_read_once() {
    let frames: Vec<_> = mp3_frames().into_iter().take(2).collect();
    let one = cluster(0, &[element(0xa3, &block_body(0, 0x80, &frames[0]))]);
    // A cluster of one byte, then bytes that are not an element.
    let damage = [0x1f, 0x43, 0xb6, 0x75, 0x81, 0, 0].repeat(100_000);
    let bytes = file(&[], &[one, damage].concat());
    let (read, all) = (Arc::new(AtomicUsize::new(0)), bytes.len());
    let mut demux = reel_media::open(Box::new(Counting(Memory(bytes), read.clone()))).unwrap();
    assert_eq!(drain(demux.as_mut()).unwrap().len(), 1);
    let read = read.load(Ordering::Relaxed);
    assert!(read < 4 * all, "{read} bytes of {all}");
}

#[test]
fn the_search_for_a_readable_frame_is_bounded() {
    let blocks: Vec<_> = (0..1000).map(|ms| element(0xa3, &block_body(ms, 0x80, &[0x5a; 40]))).collect();
    let damaged: Vec<_> = (0..30).map(|second| cluster(second * 1000, &blocks)).collect();
    let frames = mp3_frames();
    let good = cluster(30_000, &[element(0xa3, &block_body(0, 0x80, &frames[0]))]);
    for (clusters, is_found) in [(&damaged[..3], true), (&damaged[..18], true), (&damaged[..], false)] {
        let bytes = file(&[], &[clusters.concat(), good.clone()].concat());
        let (read, all) = (Arc::new(AtomicUsize::new(0)), bytes.len());
        let opened = reel_media::open(Box::new(Counting(Memory(bytes), read.clone())));
        assert_eq!(opened.is_ok(), is_found, "{} clusters", clusters.len());
        let read = read.load(Ordering::Relaxed);
        assert!(read < 2 * all, "{read} bytes of {all}");
    }
}

#[test]
fn frames_that_cannot_be_read_are_named() {
    let frames = mp3_frames();
    let clusters = cluster(0, &[element(0xa3, &block_body(0, 0x80, &frames[0]))]);
    let encoding = |body: Vec<u8>| element(0x6d80, &element(0x6240, &body));
    let zlib = encoding(element(0x5034, &number(0x4254, 0)));
    let error = refused(file(&zlib, &clusters));
    assert!(matches!(&error, MediaError::NoTracks(why) if why.contains("zlib")), "{error}");
    let aes = encoding([number(0x5033, 1), element(0x5035, &number(0x47e1, 5))].concat());
    let error = refused(file(&aes, &clusters));
    assert!(matches!(&error, MediaError::Encrypted { track: 1, scheme } if scheme == "AES"), "{error}");
    assert!(matches!(refused(file(&[], &[])), MediaError::NoDuration));
    // The default of RFC 9559, which old files leave out.
    assert_eq!(open(file(&[], &clusters)).unwrap().tracks()[0].language.as_deref(), Some("eng"));
    assert_eq!(open(file(&element(0x22_b59c, b"und"), &clusters)).unwrap().tracks()[0].language, None);
    let language =
        [element(0x22_b59c, b"ger"), element(0x22_b59d, b"de-AT"), number(0x88, 0), element(0x536e, b"Ton")];
    let demux = open(file(&language.concat(), &clusters)).unwrap();
    let track = &demux.tracks()[0];
    assert_eq!(
        (track.language.as_deref(), track.name.as_deref(), track.default),
        (Some("de-AT"), Some("Ton"), false)
    );
}

/// The elements of a body: identifiers and bodies. All sizes are stated.
fn children(mut body: &[u8]) -> Vec<(u32, &[u8])> {
    let mut found = Vec::new();
    while let Some(first) = body.first() {
        let id_bytes = first.leading_zeros() as usize + 1;
        let id = body[..id_bytes].iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
        let size_bytes = body[id_bytes].leading_zeros() as usize + 1;
        let stated = &body[id_bytes..id_bytes + size_bytes];
        let marked = stated.iter().fold(0, |size, byte| size << 8 | usize::from(*byte));
        let size = marked & !(1 << (7 * size_bytes));
        let from = id_bytes + size_bytes;
        found.push((id, &body[from..from + size]));
        body = &body[from + size..];
    }
    found
}

/// A film of ffmpeg whose entries of `tracks` also have `extra`.
fn with_in_entries(film: &[u8], tracks: &[usize], extra: &[u8]) -> Vec<u8> {
    let mut number = 0;
    let mut entry = |(id, body): (u32, &[u8])| {
        // A checksum would be wrong.
        if id != 0xae {
            return Vec::new();
        }
        number += 1;
        let extra = if tracks.contains(&number) { extra } else { &[] };
        element(id, &[body, extra].concat())
    };
    let top = children(film);
    let parts = children(top[1].1).into_iter().map(|(id, body)| match id {
        0x1654_ae6b => element(id, &children(body).into_iter().flat_map(&mut entry).collect::<Vec<_>>()),
        // The seek head and the cues would state other places.
        0x114d_9b74 | 0x1c53_bb6b => Vec::new(),
        _ => element(id, body),
    });
    let segment: Vec<u8> = parts.flatten().collect();
    [element(top[0].0, top[0].1), element(top[1].0, &segment)].concat()
}

#[test]
fn clear_tracks_beside_encrypted_ones_are_taken() {
    let film_dir = FilmDir::new();
    let codecs = "-map 0 -map 1 -map 1 -c:v libx264 -g 25 -c:a aac";
    let path = film_dir.make("a.mkv", &[picture("25", 2), tone(440, 48_000, 2), words(codecs)]);
    let plain = std::fs::read(path).unwrap();
    let algorithm = element(0x5035, &number(0x47e1, 5));
    let aes = element(0x6d80, &element(0x6240, &[number(0x5033, 1), algorithm].concat()));
    let read = |tracks: &[usize]| {
        let mut demux = open(with_in_entries(&plain, tracks, &aes))?;
        let taken = drain(demux.as_mut())?;
        Ok::<_, MediaError>((demux.tracks().to_vec(), demux.warnings().to_vec(), taken))
    };
    let (all, warnings, expected) = read(&[]).unwrap();
    assert_eq!((all.len(), warnings.len()), (3, 0), "{warnings:?}");
    for tracks in [&[1][..], &[2], &[3], &[2, 3], &[1, 3]] {
        let (left, warnings, taken) = read(tracks).unwrap();
        let named = tracks.iter().map(|track| format!("track {track} is left out: it is encrypted (AES)"));
        assert_eq!(warnings, named.collect::<Vec<_>>());
        let clear: Vec<usize> = (0..3).filter(|track| !tracks.contains(&(track + 1))).collect();
        assert_eq!(left.len(), clear.len());
        for (track, before) in clear.into_iter().enumerate() {
            assert_eq!(left[track].kind, all[before].kind);
            let data = |taken: &[Taken], track| {
                of_track(taken, track).into_iter().map(|taken| taken.data).collect::<Vec<_>>()
            };
            assert!(data(&taken, track) == data(&expected, before), "track {track} of {tracks:?}");
        }
    }
    let error = read(&[1, 2, 3]).err();
    assert!(
        matches!(&error, Some(MediaError::Encrypted { track: 1, scheme }) if scheme == "AES"),
        "{error:?}"
    );
}

#[test]
fn aac_without_a_configuration_by_its_old_name() {
    let frames = frames("-c:a aac");
    let blocks: Vec<_> = frames
        .iter()
        .enumerate()
        .map(|(index, frame)| {
            let ms = i16::try_from((index * 1024).div_ceil(48)).unwrap();
            element(0xa3, &block_body(ms, 0x80, frame))
        })
        .collect();
    for (codec, object) in
        [("A_AAC", 2), ("A_AAC/MPEG2/LC", 2), ("A_AAC/MPEG4/LC/SBR", 2), ("A_AAC/MPEG4/MAIN", 1)]
    {
        let mut demux = open(file_of(codec, &[], &cluster(0, &blocks))).unwrap();
        let track = &demux.tracks()[0];
        // 48 kHz is rate 3, one channel layout 1.
        assert_eq!((track.codec, &track.config[..]), (Codec::Aac, &[object << 3 | 1, 0x88][..]), "{codec}");
        let taken = drain(demux.as_mut()).unwrap();
        assert_eq!(
            taken.iter().map(|taken| &taken.data).collect::<Vec<_>>(),
            frames.iter().collect::<Vec<_>>()
        );
    }
    let of_no_profile = refused(file_of("A_AAC/MPEG4/HD", &[], &cluster(0, &blocks)));
    assert!(of_no_profile.to_string().contains("configuration"), "{of_no_profile}");
}
