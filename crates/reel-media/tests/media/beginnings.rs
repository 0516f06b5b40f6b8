//! Tracks whose beginning is damaged, missing or late are kept.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::oracle::*;
use reel_media::{Codec, Demux, TrackKind};
use std::path::{Path, PathBuf};

const FILM_S: u32 = 2;
const SOUND_HZ: u32 = 48_000;

fn open_bytes(bytes: Vec<u8>) -> Box<dyn Demux> {
    reel_media::open(Box::new(Memory(bytes))).unwrap()
}

fn open(path: &Path) -> Box<dyn Demux> {
    open_bytes(std::fs::read(path).unwrap())
}

/// The samples of the first track of a kind, and ticks per second.
fn of_kind(demux: &mut dyn Demux, kind: TrackKind) -> (Vec<Taken>, f64) {
    let track = demux.tracks().iter().position(|track| track.kind == kind).expect("a track of the kind");
    let timescale = f64::from(demux.tracks()[track].timescale);
    let taken = drain(demux).unwrap();
    (of_track(&taken, track), timescale)
}

/// Position of the bytes of each sample in the file.
fn positions(file: &[u8], samples: &[Taken]) -> Vec<usize> {
    let mut from = 0;
    samples
        .iter()
        .map(|sample| {
            from += file[from..].windows(sample.data.len()).position(|part| part == sample.data).unwrap();
            from
        })
        .collect()
}

#[test]
fn damaged_frames_of_sound_do_not_lose_the_track() {
    let film_dir = FilmDir::new();
    for (number, (name, encoder, codec)) in [
        ("a.mkv", "ac3", Codec::Ac3),
        ("a.mkv", "eac3", Codec::Eac3),
        ("a.mkv", "libmp3lame", Codec::Mp3),
        ("a.mkv", "aac", Codec::Aac),
        ("a.mkv", "libopus", Codec::Opus),
        ("a.mp4", "ac3", Codec::Ac3),
        ("a.mp4", "libmp3lame", Codec::Mp3),
    ]
    .into_iter()
    .enumerate()
    {
        let codecs = words(&format!("-c:v libx264 -preset ultrafast -c:a {encoder} -ac 2"));
        let name = format!("{number}{name}");
        let path = film_dir.make(&name, &[picture("25", FILM_S), tone(440, SOUND_HZ, FILM_S), codecs]);
        let file = std::fs::read(path).unwrap();
        let mut whole = open_bytes(file.clone());
        let (expected, _) = of_kind(whole.as_mut(), TrackKind::Audio);
        let places = positions(&file, &expected);
        let last = places.len() - 1;
        for damaged in [vec![0], (0..12).collect(), vec![last / 2], vec![last]] {
            for fill in [0x00, 0xff, 0x5a] {
                let mut file = file.clone();
                for frame in &damaged {
                    let bytes = expected[*frame].data.len().min(40);
                    file[places[*frame]..places[*frame] + bytes].fill(fill);
                }
                let mut demux = open_bytes(file);
                assert_eq!(demux.tracks(), whole.tracks(), "{name} {encoder} {damaged:?}");
                let (taken, _) = of_kind(demux.as_mut(), TrackKind::Audio);
                assert_eq!(taken.len(), expected.len(), "{name} {encoder} {damaged:?} {fill}");
                // A damaged header may state another length; times are rounded to milliseconds.
                let slack = 2 * i64::from(SOUND_HZ) / 1000;
                let shifted = taken.iter().zip(&expected).find(|(taken, expected)| {
                    (taken.packet.sample.pts - expected.packet.sample.pts).abs() > slack
                });
                assert!(shifted.is_none(), "{name} {encoder} {damaged:?} {fill}: {shifted:?}");
                assert!(demux.tracks().iter().any(|track| track.codec == codec));
            }
        }
    }
}

/// A film with a key frame each second of which the first 0.4 s are cut off between key frames.
fn headless(film_dir: &FilmDir, name: &str, codecs: &str, sound: bool) -> PathBuf {
    let whole = format!("whole-{name}");
    let sound = if sound { tone(440, SOUND_HZ, 3) } else { Vec::new() };
    let whole = film_dir.make(&whole, &[picture("25", 3), sound, words(codecs)]);
    let cut = format!("-i {} -ss 0.4 -copyinkf -c copy", whole.display());
    film_dir.make(name, &[words(&cut)])
}

#[test]
fn pictures_begin_with_the_first_key_frame() {
    let film_dir = FilmDir::new();
    let vp9 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25 -c:a libopus";
    let h264 = "-c:v libx264 -preset ultrafast -g 25 -bf 0 -c:a aac";
    let av1 = "-c:v libaom-av1 -cpu-used 8 -usage realtime -g 25 -lag-in-frames 0 -c:a libopus";
    for (number, (extension, codecs)) in
        [("webm", vp9), ("mkv", vp9), ("mkv", h264), ("webm", av1)].into_iter().enumerate()
    {
        for sound in [false, true] {
            let name = format!("{number}{sound}.{extension}");
            let path = headless(&film_dir, &name, codecs, sound);
            let seen: Vec<_> = packets(&path).into_iter().filter(|packet| packet.stream == 0).collect();
            let first_key = seen.iter().position(|packet| packet.key).expect("a key frame");
            assert!(first_key > 5, "{name}: {:?}", &seen[..3]);
            let mut demux = open(&path);
            let (taken, timescale) = of_kind(demux.as_mut(), TrackKind::Video);
            assert_eq!(taken.len(), seen.len() - first_key, "{name}");
            assert!(taken[0].packet.sample.sync);
            let start_s = taken[0].packet.sample.pts as f64 / timescale;
            let later_s = seen[first_key].pts - seen[0].pts;
            // With sound, the picture begins as late as it is stated; alone, it is the beginning.
            let expected_s = if sound { seen[first_key].pts } else { 0.0 };
            assert!((start_s - expected_s).abs() < 0.05, "{name}: {start_s} for {expected_s}");
            let told = format!("track 1: {first_key} frames before the first key frame cannot be decoded");
            let at = format!("{later_s:.2}");
            let warning = demux.warnings().iter().find(|warning| warning.contains(&told));
            let warning = warning.unwrap_or_else(|| panic!("{name}: {:?}", demux.warnings()));
            assert!(warning.contains(&at) && warning.contains("00:00:00."), "{name}: {warning}");
        }
    }
}

#[test]
fn sound_that_begins_late_is_kept() {
    let film_dir = FilmDir::new();
    for (number, (name, encoder)) in [
        ("a.mkv", "ac3"),
        ("a.mkv", "libmp3lame"),
        ("a.mkv", "aac"),
        ("a.mkv", "libopus"),
        ("a.mp4", "ac3"),
        ("a.mp4", "aac"),
        ("fragmented.mp4", "aac"),
    ]
    .into_iter()
    .enumerate()
    {
        let flags = if name.starts_with('f') { "-movflags frag_keyframe+empty_moov+delay_moov" } else { "" };
        let codecs = words(&format!("-c:v libx264 -preset ultrafast -c:a {encoder} {flags}"));
        let late = [words("-itsoffset 12"), tone(440, SOUND_HZ, FILM_S)].concat();
        let path = film_dir.make(&format!("{number}{name}"), &[picture("25", 14), late, codecs]);
        let mut demux = open(&path);
        let (taken, timescale) = of_kind(demux.as_mut(), TrackKind::Audio);
        let sound = packets(&path).into_iter().filter(|packet| packet.stream == 1).count();
        assert_eq!(taken.len(), sound, "{name} {encoder}: {:?}", demux.warnings());
        let start_s = taken[0].packet.sample.pts as f64 / timescale;
        assert!((start_s - 12.0).abs() < 0.1, "{name} {encoder}: {start_s}");
        assert_eq!(demux.warnings(), Vec::<String>::new(), "{name} {encoder}");
    }
    // Further on than the frame rate is searched for.
    let small = words("-f lavfi -i testsrc2=size=64x36:rate=100:duration=50");
    let late = [words("-itsoffset 45"), tone(440, SOUND_HZ, FILM_S)].concat();
    let codecs = words("-c:v libx264 -preset ultrafast -c:a ac3");
    let mut demux = open(&film_dir.make("later.mkv", &[small, late, codecs]));
    let (taken, timescale) = of_kind(demux.as_mut(), TrackKind::Audio);
    let start_s = taken[0].packet.sample.pts as f64 / timescale;
    assert!((start_s - 45.0).abs() < 0.1, "{start_s}");
}
