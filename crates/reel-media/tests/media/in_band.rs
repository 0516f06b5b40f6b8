//! Pictures whose decoder configuration changes within the samples of Matroska and MP4.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::mp4::movie::{Trak, avc_entry, movie};
use crate::oracle::*;
use reel_media::{Demux, TrackKind};
use std::path::{Path, PathBuf};

/// What a demuxer made of the pictures of a file.
#[derive(Debug)]
struct Pictures {
    count: usize,
    /// Size of the track, then the second and the size of each change.
    sizes: Vec<(f64, u32, u32)>,
    configs: Vec<Vec<u8>>,
    warnings: Vec<String>,
}

impl Pictures {
    fn of(bytes: Vec<u8>) -> Self {
        let mut demux: Box<dyn Demux> = reel_media::open(Box::new(Memory(bytes))).unwrap();
        let number = demux.tracks().iter().position(|track| track.kind == TrackKind::Video).unwrap();
        let track = demux.tracks()[number].clone();
        let video = track.video.as_ref().unwrap();
        let taken = of_track(&drain(demux.as_mut()).unwrap(), number);
        let mut pictures = Self {
            count: taken.len(),
            sizes: vec![(0.0, video.width, video.height)],
            configs: vec![track.config],
            warnings: demux.warnings().to_vec(),
        };
        for taken in &taken {
            if let Some(change) = &taken.packet.change {
                assert!(taken.packet.sample.sync);
                let video = change.video.as_ref().unwrap();
                let at_s = taken.packet.sample.pts as f64 / f64::from(track.timescale);
                pictures.sizes.push((at_s, video.width, video.height));
                pictures.configs.push(change.config.clone());
            }
        }
        pictures
    }

    fn of_file(path: &Path) -> Self {
        Self::of(std::fs::read(path).unwrap())
    }

    fn warns_of(&self, what: &str) -> bool {
        self.warnings.iter().any(|text| text.contains(what))
    }
}

/// Parts of two seconds, of these sizes, as one transport stream.
fn joined(film_dir: &FilmDir, encoder: &str, sizes: &[&str]) -> PathBuf {
    let mut bytes = Vec::new();
    for (number, size) in sizes.iter().enumerate() {
        let name = format!("part{number}.ts");
        let offset = number * 2;
        let options = format!(
            "{encoder} -s {size} -c:a aac -streamid 0:256 -streamid 1:257 -output_ts_offset {offset}"
        );
        let path = film_dir.make(&name, &[picture("25", 2), tone(440, 48_000, 2), words(&options)]);
        bytes.extend(std::fs::read(path).unwrap());
    }
    film_dir.write("joined.ts", &bytes)
}

/// Copies the streams of a file into another container.
fn copied(film_dir: &FilmDir, source: &Path, name: &str, options: &str) -> PathBuf {
    let input = ["-i".to_owned(), source.to_string_lossy().into_owned()].to_vec();
    film_dir.make(name, &[input, words(&format!("-c copy {options}"))])
}

const H264: &str = "-c:v libx264 -preset ultrafast -bf 0 -g 25";
const HEVC: &str = "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25:bframes=0";
const FRAGMENTS: &str = "-movflags frag_keyframe+empty_moov+default_base_moof -bsf:a aac_adtstoasc";

fn assert_followed(encoder: &str, files: &[(&str, &str)]) {
    let film_dir = FilmDir::new();
    let stream = joined(&film_dir, encoder, &["320x180", "160x120", "320x180"]);
    let expected = Pictures::of_file(&stream);
    assert_eq!(expected.sizes.len(), 3, "{expected:?}");
    for (name, options) in files {
        let pictures = Pictures::of_file(&copied(&film_dir, &stream, name, options));
        assert_eq!(pictures.count, 150, "{name} {options}");
        let sizes = |pictures: &Pictures| -> Vec<(u32, u32)> {
            pictures.sizes.iter().map(|(_, width, height)| (*width, *height)).collect()
        };
        assert_eq!(sizes(&pictures), sizes(&expected), "{name} {options}");
        for (at, stream) in pictures.sizes.iter().zip(&expected.sizes) {
            assert!((at.0 - stream.0).abs() < 0.05, "{name} {options}: {at:?}, {stream:?}");
        }
        assert_eq!(pictures.configs[1..], expected.configs[1..], "{name} {options}");
        for (at, to) in [("00:00:02", "160 x 120"), ("00:00:04", "320 x 180")] {
            let named = |text: &String| text.contains(&format!("change at {at}")) && text.contains(to);
            assert!(pictures.warnings.iter().any(named), "{name}: {:?}", pictures.warnings);
        }
    }
}

#[test]
fn changes_of_h264_are_followed() {
    assert_followed(
        H264,
        &[("a.mkv", ""), ("a.mp4", ""), ("a.mp4", FRAGMENTS), ("a.mp4", "-tag:v avc3"), ("a.mov", "")],
    );
}

#[test]
fn changes_of_hevc_are_followed() {
    assert_followed(
        HEVC,
        &[("a.mkv", ""), ("a.mp4", "-tag:v hev1"), ("a.mp4", "-tag:v hvc1"), ("a.mp4", FRAGMENTS)],
    );
}

/// Two films of one codec and two sizes, whose blocks follow each other in the first one's tracks.
#[test]
fn changes_of_vp9_and_av1_are_followed() {
    for encoder in ["-c:v libvpx-vp9 -deadline realtime -cpu-used 8", "-c:v libaom-av1 -cpu-used 8"] {
        let film_dir = FilmDir::new();
        let parts: Vec<PathBuf> = ["320x180", "160x120"]
            .iter()
            .map(|size| {
                let options = format!("{encoder} -s {size} -g 25 -f ivf");
                film_dir.make(&format!("{size}.ivf"), &[picture("25", 1), words(&options)])
            })
            .collect();
        let mut bytes = std::fs::read(&parts[0]).unwrap();
        let mut second = std::fs::read(&parts[1]).unwrap().split_off(32);
        let mut at = 0;
        while at < second.len() {
            let size = u32::from_le_bytes(second[at..at + 4].try_into().unwrap()) as usize;
            let time = u64::from_le_bytes(second[at + 4..at + 12].try_into().unwrap()) + 25;
            second[at + 4..at + 12].copy_from_slice(&time.to_le_bytes());
            at += 12 + size;
        }
        bytes.extend(second);
        let source = film_dir.write("joined.ivf", &bytes);
        for name in ["a.mkv", "a.webm", "a.mp4"] {
            let pictures = Pictures::of_file(&copied(&film_dir, &source, name, ""));
            assert_eq!((pictures.count, pictures.sizes.len()), (50, 2), "{encoder} {name}: {pictures:?}");
            let (at_s, width, height) = pictures.sizes[1];
            assert!((at_s - 1.0).abs() < 0.01, "{at_s}");
            assert_eq!((width, height), (160, 120), "{encoder} {name}");
            assert!(pictures.warns_of("change at 00:00:01.000 to 160 x 120"), "{:?}", pictures.warnings);
        }
    }
}

#[test]
fn films_without_changes_are_described_by_their_heads() {
    let film_dir = FilmDir::new();
    for (encoder, name) in [(H264, "a.mkv"), (H264, "a.mp4"), (HEVC, "a.mkv"), (HEVC, "a.mp4")] {
        let path = film_dir.make(name, &[picture("25", 3), words(encoder)]);
        let pictures = Pictures::of_file(&path);
        assert_eq!((pictures.sizes.len(), pictures.count), (1, 75));
        assert_eq!(pictures.warnings, [""; 0]);
    }
}

/// A sequence and a picture parameter set, and a key frame, each with its length before it.
fn key_frame(sps: &[u8]) -> Vec<u8> {
    let units: [&[u8]; 3] = [sps, &[0x68, 0xfe, 0x8f, 0xcb], &[0x65, 0x88, 0x84, 0x20, 0xff]];
    let prefixed = |unit: &&[u8]| [&u32::try_from(unit.len()).unwrap().to_be_bytes(), *unit].concat();
    units.iter().flat_map(prefixed).collect()
}

/// 320 x 180.
const SPS: &[u8] = &[
    0x67, 0x64, 0x00, 0x15, 0xac, 0xd9, 0x41, 0x43, 0x3f, 0x26, 0x04, 0xdc, 0x04, 0x04, 0x05, 0x00, 0x00,
    0x03, 0x03, 0xe9, 0x00, 0x00, 0xea, 0x60, 0x1f, 0x14, 0x29, 0x96,
];

#[test]
fn sets_of_the_first_sample_count_where_the_head_has_none() {
    let entry = avc_entry(b"avc3", &[1, 66, 192, 11, 0xff, 0xe0, 0]);
    let mut other = SPS.to_vec();
    other[3] = 0x1e;
    let samples = vec![key_frame(SPS), key_frame(SPS), key_frame(&other), key_frame(&other)];
    let trak = Trak { entry, samples, ..Trak::video(1, 4) };
    let pictures = Pictures::of(movie(b"isom", &[trak]));
    let levels: Vec<u8> = pictures.configs.iter().map(|config| config[3]).collect();
    assert_eq!(levels, [0x15, 0x1e], "{pictures:?}");
    assert_eq!((pictures.configs[0][5], pictures.sizes[0].1, pictures.sizes[0].2), (0xe1, 320, 180));
}

#[test]
fn sound_that_changes_within_its_frames_is_named() {
    let film_dir = FilmDir::new();
    for codec in ["ac3", "libmp3lame"] {
        let mut bytes = Vec::new();
        for (number, channels) in [2, 1].into_iter().enumerate() {
            let offset = number * 2;
            let options = format!("-c:a {codec} -ac {channels} -streamid 0:257 -output_ts_offset {offset}");
            let path = film_dir.make(&format!("{number}.ts"), &[tone(440, 48_000, 2), words(&options)]);
            bytes.extend(std::fs::read(path).unwrap());
        }
        let stream = film_dir.write("joined.ts", &bytes);
        for name in ["a.mkv", "a.mp4"] {
            let bytes = std::fs::read(copied(&film_dir, &stream, name, "")).unwrap();
            let mut demux = reel_media::open(Box::new(Memory(bytes))).unwrap();
            drain(demux.as_mut()).unwrap();
            let is_named = |text: &String| {
                let at =
                    ["changes at 00:00:01.9", "changes at 00:00:02.0"].iter().any(|at| text.contains(at));
                at && text.contains("to 1 channels at 48000 Hz")
            };
            assert!(demux.warnings().iter().any(is_named), "{codec} {name}: {:?}", demux.warnings());
        }
    }
}
