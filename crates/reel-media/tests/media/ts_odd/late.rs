//! Streams that begin after the others, or that the programme lists later.

use super::*;
use reel_media::Source;
use std::io;

/// When the first sample of a track begins after the first picture, in seconds.
fn begins(played: &Played, kind: TrackKind) -> f64 {
    let first = |kind| {
        let track = played.track(kind);
        let scale = f64::from(played.tracks[track].timescale);
        let samples = of_track(&played.taken, track);
        samples.iter().map(|taken| taken.packet.sample.pts).min().unwrap() as f64 / scale
    };
    first(kind) - first(TrackKind::Video).min(first(TrackKind::Audio))
}

/// A film of 40 s whose sound or picture begins late.
fn late(film_dir: &FilmDir, kind: TrackKind, seconds: u32, codecs: &str) -> Vec<u8> {
    let (pictures, sound) =
        (words("-f lavfi -i testsrc2=size=160x90:rate=25:duration=40"), tone(440, 48_000, 40));
    let offset = words(&format!("-itsoffset {seconds}"));
    let inputs = match kind {
        TrackKind::Video => [offset, pictures, sound].concat(),
        _ => [pictures, offset, sound].concat(),
    };
    let path = film_dir.make("late.ts", &[inputs, words(codecs)]);
    std::fs::read(path).unwrap()
}

#[test]
fn tracks_that_begin_after_half_a_minute_are_kept() {
    let film_dir = FilmDir::new();
    let mp3 = "-c:v libx264 -preset ultrafast -bf 0 -c:a libmp3lame";
    for codecs in [H264_AAC, HEVC_AC3, mp3] {
        for kind in [TrackKind::Audio, TrackKind::Video] {
            let played = Played::of(&late(&film_dir, kind, 30, codecs));
            assert_eq!(played.tracks.len(), 2, "{:?}", played.warnings);
            assert_eq!(played.pictures().len(), 1000);
            assert!(played.sound().len() > 1200 && played.warnings.is_empty(), "{:?}", played.warnings);
            let at = begins(&played, kind);
            assert!((at - 30.0).abs() < 0.1, "{codecs}: {at}");
        }
    }
}

/// Pictures for some seconds, then sound as well.
fn sound_after(film_dir: &FilmDir, seconds: u32) -> Played {
    let silent = "-c:v libx264 -preset veryfast -bf 3 -g 50 -an";
    let first = make(film_dir, "first.ts", seconds, silent);
    let with_sound = format!("{H264_AAC} -tables_version 1 -output_ts_offset {seconds}");
    let second = make(film_dir, "second.ts", 4, &with_sound);
    Played::of(&[first, second].concat())
}

#[test]
fn tracks_that_are_listed_later_are_kept_or_named() {
    let film_dir = FilmDir::new();
    let played = sound_after(&film_dir, 6);
    assert_eq!((played.tracks.len(), played.pictures().len()), (2, 250), "{:?}", played.warnings);
    let at = begins(&played, TrackKind::Audio);
    assert!((at - 6.0).abs() < 0.1 && played.sound().len() > 180, "{at}");
    assert!(!played.warns_of("left out"), "{:?}", played.warnings);
    let played = sound_after(&film_dir, 30);
    assert_eq!((played.tracks.len(), played.pictures().len()), (1, 850));
    assert!(played.warns_of("stream 257 (sound) begins at 00:00:29."), "{:?}", played.warnings);
}

/// A transport stream with packets of no meaning at one place.
struct Stretched {
    bytes: Vec<u8>,
    at: u64,
    nothing: u64,
}

impl Source for Stretched {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64 + self.nothing
    }

    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let end = self.at + self.nothing;
        for (byte, place) in target.iter_mut().zip(offset..) {
            *byte = match place {
                _ if place < self.at => self.bytes[place as usize],
                _ if place >= end => self.bytes[(place - self.nothing) as usize],
                _ => [0x47, 0x1f, 0xff, 0x10].get((place % PACKET as u64) as usize).copied().unwrap_or(0xff),
            };
        }
        Ok(())
    }
}

#[test]
fn a_track_that_begins_too_late_is_named() {
    let film_dir = FilmDir::new();
    let bytes = late(&film_dir, TrackKind::Audio, 30, H264_AAC);
    let at = packets_of(&bytes, SOUND_PID)[0] as u64;
    let nothing = (257 << 20) / PACKET as u64 * PACKET as u64;
    let mut demux = reel_media::open(Box::new(Stretched { bytes, at, nothing })).unwrap();
    drain(demux.as_mut()).unwrap();
    assert_eq!(demux.tracks().len(), 1);
    let said = |text: &str| demux.warnings().iter().any(|warning| warning.contains(text));
    assert!(said("stream 257 (sound) begins at 00:00:29.9"), "{:?}", demux.warnings());
}
