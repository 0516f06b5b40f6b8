//! Transport streams that were joined, damaged or changed on the way: what is played of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

mod joints;
mod late;
mod losses;
mod pauses;
mod said;

use crate::oracle::*;
use reel_media::{Codec, Demux, MediaError, Track, TrackKind};

const PACKET: usize = 188;
const PICTURE_PID: u16 = 256;
const SOUND_PID: u16 = 257;

/// What a demuxer made of a file.
struct Played {
    tracks: Vec<Track>,
    warnings: Vec<String>,
    taken: Vec<Taken>,
}

impl Played {
    fn try_of(bytes: &[u8]) -> Result<Self, MediaError> {
        let mut demux: Box<dyn Demux> = reel_media::open(Box::new(Memory(bytes.to_vec())))?;
        let taken = drain(demux.as_mut())?;
        Ok(Self { tracks: demux.tracks().to_vec(), warnings: demux.warnings().to_vec(), taken })
    }

    fn of(bytes: &[u8]) -> Self {
        Self::try_of(bytes).unwrap()
    }

    fn track(&self, kind: TrackKind) -> usize {
        self.tracks.iter().position(|track| track.kind == kind).unwrap()
    }

    fn pictures(&self) -> Vec<Taken> {
        of_track(&self.taken, self.track(TrackKind::Video))
    }

    fn sound(&self) -> Vec<Taken> {
        of_track(&self.taken, self.track(TrackKind::Audio))
    }

    /// Checksums of the decoded pictures.
    fn sums(&self, film_dir: &FilmDir) -> Vec<String> {
        let track = &self.tracks[self.track(TrackKind::Video)];
        let (sets, format) = match track.codec {
            Codec::Hevc => (hevc_sets(&track.config), "hevc"),
            _ => (avc_sets(&track.config), "h264"),
        };
        let stream = film_dir.write("played.es", &annex_b(&sets, &self.pictures()));
        frame_sums(&stream, Some(format), "0:v")
    }

    fn warns_of(&self, what: &str) -> bool {
        self.warnings.iter().any(|text| text.contains(what))
    }
}

fn pid(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// Positions of the packets of a PID.
fn packets_of(bytes: &[u8], wanted: u16) -> Vec<usize> {
    (0..bytes.len()).step_by(PACKET).filter(|at| pid(&bytes[*at..]) == wanted).collect()
}

/// Without the packets of a PID from the `from`th on, as many as `count`.
fn without(bytes: &[u8], wanted: u16, from: usize, count: usize) -> Vec<u8> {
    let lost = packets_of(bytes, wanted)[from..from + count].to_vec();
    let kept = (0..bytes.len()).step_by(PACKET).filter(|at| !lost.contains(at));
    kept.flat_map(|at| bytes[at..at + PACKET].to_vec()).collect()
}

/// Moving pictures and a tone, coded as `codecs` says.
fn make(film_dir: &FilmDir, name: &str, seconds: u32, codecs: &str) -> Vec<u8> {
    let path = film_dir.make(name, &[picture("25", seconds), tone(440, 48_000, seconds), words(codecs)]);
    std::fs::read(path).unwrap()
}

const H264_AAC: &str = "-c:v libx264 -preset veryfast -bf 3 -g 50 -c:a aac";
const HEVC_AC3: &str =
    "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50:bframes=3 -c:a ac3";

#[test]
fn joined_segments_lose_no_picture() {
    let film_dir = FilmDir::new();
    for codecs in [H264_AAC, HEVC_AC3] {
        let whole = make(&film_dir, "whole.ts", 20, codecs);
        let source = film_dir.path("whole.ts");
        let segments = "-c copy -f segment -segment_time 2 -segment_format mpegts";
        let input = ["-i".to_owned(), source.to_string_lossy().into_owned()].to_vec();
        film_dir.make("s%03d.ts", &[input, words(segments)]);
        let joined: Vec<u8> =
            (0..10).flat_map(|n| std::fs::read(film_dir.path(&format!("s{n:03}.ts"))).unwrap()).collect();
        let (played, plain) = (Played::of(&joined), Played::of(&whole));
        assert_eq!(played.pictures().len(), 500);
        assert_eq!(played.sums(&film_dir), frame_sums(&source, None, "0:v"));
        assert_eq!(played.sound().len(), plain.sound().len());
        assert!(played.warnings.is_empty(), "{:?}", played.warnings);
    }
}

#[test]
fn counters_that_stand_still_and_copies() {
    let film_dir = FilmDir::new();
    for codecs in [H264_AAC, HEVC_AC3] {
        let plain = make(&film_dir, "a.ts", 4, codecs);
        let expected = Played::of(&plain);
        let equals = |bytes: &[u8]| {
            let played = Played::of(bytes);
            assert_eq!(played.taken.len(), expected.taken.len());
            let pairs = played.taken.iter().zip(&expected.taken);
            pairs.for_each(|(a, b)| assert!(a.packet == b.packet && a.data == b.data, "{:?}", b.packet));
            assert!(played.warnings.is_empty(), "{:?}", played.warnings);
        };
        let mut standing = plain.clone();
        standing.chunks_mut(PACKET).for_each(|packet| packet[3] &= 0xf0);
        equals(&standing);
        equals(&plain.chunks(PACKET).flat_map(|packet| [packet, packet].concat()).collect::<Vec<_>>());
        // The second copy has a clock reference of its own.
        let later = |packet: &[u8]| {
            let mut copy = packet.to_vec();
            if copy[3] & 0x20 != 0 && copy[4] >= 7 && copy[5] & 0x10 != 0 {
                copy[9] ^= 0x10;
            }
            [packet, &copy].concat()
        };
        equals(&plain.chunks(PACKET).flat_map(later).collect::<Vec<_>>());
    }
}

#[test]
fn losses_are_counted_and_damage_one_picture_each() {
    let film_dir = FilmDir::new();
    let plain = make(&film_dir, "a.ts", 8, H264_AAC);
    let expected = Played::of(&plain);
    let middle = packets_of(&plain, PICTURE_PID).len() / 2;
    for count in [1, 14, 15] {
        let played = Played::of(&without(&plain, PICTURE_PID, middle, count));
        assert!(
            played.warns_of("(pictures) are missing at one place, the first near"),
            "{count}: {:?}",
            played.warnings
        );
        assert!(
            played.warns_of("near 00:00:03.") || played.warns_of("near 00:00:04."),
            "{:?}",
            played.warnings
        );
        assert!(!played.warns_of("(sound)"));
        assert_eq!(played.warnings.len(), 1, "{:?}", played.warnings);
        let (pictures, all) = (played.pictures(), expected.pictures());
        assert!(pictures.len() + 3 >= all.len(), "{count}: {}", pictures.len());
        let intact =
            pictures.iter().filter(|picture| all.iter().any(|other| other.data == picture.data)).count();
        assert!(intact + 5 >= all.len(), "{count}: {intact}");
        assert_eq!(pictures.last().unwrap().packet.sample.pts, all.last().unwrap().packet.sample.pts);
    }
    // At the beginning, in the middle and near the end, of both streams.
    let mut holes = plain.clone();
    for (wanted, from) in
        [(PICTURE_PID, 30), (PICTURE_PID, middle), (PICTURE_PID, middle + 300), (SOUND_PID, 100)]
    {
        holes = without(&holes, wanted, from, 1);
    }
    let played = Played::of(&holes);
    assert!(played.warns_of("(pictures) are missing at 3 places"), "{:?}", played.warnings);
    assert!(played.warns_of("(sound) are missing at one place"), "{:?}", played.warnings);
    let (sound, all) = (played.sound(), expected.sound());
    assert!(
        sound.len() + 3 >= all.len()
            && sound.iter().all(|frame| all.iter().any(|other| other.data == frame.data))
    );
}

#[test]
fn encrypted_packets_count_as_missing() {
    let film_dir = FilmDir::new();
    for codecs in [H264_AAC, HEVC_AC3] {
        let plain = make(&film_dir, "a.ts", 8, codecs);
        let expected = Played::of(&plain);
        let scramble = |wanted: u16, chosen: &dyn Fn(usize) -> bool| {
            let mut bytes = plain.clone();
            let places = packets_of(&plain, wanted);
            places.iter().enumerate().filter(|(n, _)| chosen(*n)).for_each(|(_, at)| bytes[at + 3] |= 0x80);
            (bytes, places.len())
        };
        let count = scramble(PICTURE_PID, &|_| false).1;
        for first in [20, count / 2, count - 40] {
            let (bytes, _) = scramble(PICTURE_PID, &|n| (first..first + 5).contains(&n));
            let played = Played::of(&bytes);
            assert!(
                played.warns_of("encrypted, and counted as missing: 5 packets of stream 256"),
                "{:?}",
                played.warnings
            );
            assert!(played.warns_of("(pictures) are missing at one place"), "{:?}", played.warnings);
            assert!(played.pictures().len() + 3 >= expected.pictures().len());
            assert_eq!(played.sound().len(), expected.sound().len());
        }
        let (bytes, _) = scramble(SOUND_PID, &|n| n % 40 == 3);
        let played = Played::of(&bytes);
        assert!(played.warns_of("(sound) are missing at"), "{:?}", played.warnings);
        assert_eq!(played.pictures().len(), expected.pictures().len());
        // Sound alone is encrypted: the picture is left.
        let played = Played::of(&scramble(SOUND_PID, &|_| true).0);
        assert_eq!(played.tracks.len(), 1);
        assert!(
            played.warns_of("stream 257 is left out: its packets are encrypted"),
            "{:?}",
            played.warnings
        );
        // The picture alone is encrypted: the sound is left.
        let (mut bytes, _) = scramble(PICTURE_PID, &|_| true);
        let played = Played::of(&bytes);
        assert_eq!((played.tracks.len(), played.sound().len()), (1, expected.sound().len()));
        assert!(
            played.warns_of("stream 256 is left out: its packets are encrypted"),
            "{:?}",
            played.warnings
        );
        // Nothing is left.
        packets_of(&plain, SOUND_PID).into_iter().for_each(|at| bytes[at + 3] |= 0x80);
        let error = Played::try_of(&bytes).err();
        assert!(matches!(error, Some(MediaError::Encrypted { track: 256, .. })), "{error:?}");
    }
}

/// Parts were joined: every picture of every part is there, at times that increase, and sound has
/// its distance from the pictures in each part, within a frame.
fn assert_in_step(parts: &[&[u8]], film_dir: &FilmDir) -> Played {
    let played = Played::of(&parts.concat());
    let plain: Vec<Played> = parts.iter().map(|part| Played::of(part)).collect();
    let expected: Vec<String> = plain.iter().flat_map(|part| part.sums(film_dir)).collect();
    assert_eq!(played.sums(film_dir), expected, "every picture");
    let (pictures, sound) = (played.pictures(), played.sound());
    let mut shown: Vec<i64> = pictures.iter().map(|picture| picture.packet.sample.pts).collect();
    let (mut first, mut before) = (0, i64::MIN);
    let rate = f64::from(played.tracks[played.track(TrackKind::Audio)].timescale);
    let mut heard = 0;
    for part in &plain {
        let own = part.pictures();
        let shift = pictures[first].packet.sample.pts - own[0].packet.sample.pts;
        for (picture, own) in pictures[first..].iter().zip(&own) {
            assert_eq!(picture.packet.sample.pts - own.packet.sample.pts, shift, "{:?}", own.packet);
        }
        first += own.len();
        let begin = own.iter().map(|own| own.packet.sample.pts).min().unwrap() + shift;
        let end = own.iter().map(|own| own.packet.sample.pts).max().unwrap() + shift;
        assert!(begin > before, "no picture of a part is shown before the end of the part before");
        before = end;
        for frame in part.sound() {
            // Frames may be left out where the sound overlaps.
            let Some(at) = sound[heard..].iter().take(20).position(|other| other.data == frame.data) else {
                continue;
            };
            heard += at + 1;
            let late = sound[heard - 1].packet.sample.pts - frame.packet.sample.pts;
            let apart = late as f64 / rate - shift as f64 / 90_000.0;
            assert!(apart.abs() < 0.040, "{apart} s apart at {:?}", frame.packet.sample);
        }
    }
    shown.sort_unstable();
    assert!(shown.windows(2).all(|pair| pair[0] < pair[1]), "no picture takes the place of another");
    let all: usize = plain.iter().map(|part| part.sound().len()).sum();
    assert!(heard + 10 * parts.len() >= all, "{heard} of {all} frames of sound");
    assert!(played.warns_of("joined"), "{:?}", played.warnings);
    played
}

#[test]
fn splices_keep_sound_and_picture_in_step() {
    let film_dir = FilmDir::new();
    for codecs in [H264_AAC, HEVC_AC3, "-c:v libx264 -preset veryfast -bf 0 -g 50 -c:a libmp3lame"] {
        let at = |seconds: u32, offset: f64| {
            let placed = format!("{codecs} -output_ts_offset {offset}");
            make(&film_dir, &format!("{seconds}-{offset}.ts"), seconds, &placed)
        };
        let long = at(8, 0.0);
        // Overlaps of half a second and of a tenth, and a jump forward.
        for offset in [7.5, 7.9, 500.0] {
            assert_in_step(&[&long, &at(4, offset)], &film_dir);
        }
        // Near the beginning and near the end, twice in one file.
        let played = assert_in_step(&[&at(1, 0.0), &at(4, 0.4), &at(1, 4.0)], &film_dir);
        assert_eq!(played.pictures().len(), 150);
        assert_in_step(&[&at(1, 50.0), &at(4, 3.0), &at(1, 90.0)], &film_dir);
    }
}

#[test]
fn splices_without_sound_and_without_pictures() {
    let film_dir = FilmDir::new();
    let pictures = |name: &str, offset: &str| {
        let codecs = format!("-c:v libx264 -preset veryfast -bf 3 -g 50 -output_ts_offset {offset}");
        std::fs::read(film_dir.make(name, &[picture("25", 4), words(&codecs)])).unwrap()
    };
    let played = Played::of(&[pictures("a.ts", "0"), pictures("b.ts", "3.5")].concat());
    let shown: Vec<_> = played.pictures().iter().map(|picture| picture.packet.sample.pts).collect();
    assert_eq!((shown.len(), shown.iter().max(), shown.iter().min()), (200, Some(&(199 * 3600)), Some(&0)));
    assert_contiguous(&played.pictures());
    let sound = |name: &str, offset: &str| {
        let codecs = format!("-c:a aac -output_ts_offset {offset}");
        std::fs::read(film_dir.make(name, &[tone(440, 48_000, 4), words(&codecs)])).unwrap()
    };
    let parts = [sound("c.ts", "0"), sound("d.ts", "3.5")];
    let all: usize = parts.iter().map(|part| Played::of(part).sound().len()).sum();
    let played = Played::of(&parts.concat());
    assert_contiguous(&played.sound());
    assert_eq!(played.sound().len(), all);
}

#[test]
fn tracks_continue_on_other_pids() {
    let film_dir = FilmDir::new();
    let moved = |name: &str, seconds: u32, pids: (u16, u16), version: u32, offset: u32, codecs: &str| {
        let (pictures, sound) = pids;
        let arguments = format!(
            "{codecs} -streamid 0:{pictures} -streamid 1:{sound} -tables_version {version} -output_ts_offset {offset}"
        );
        make(&film_dir, name, seconds, &arguments)
    };
    for codecs in [H264_AAC, HEVC_AC3] {
        let first = moved("a.ts", 8, (256, 257), 0, 0, codecs);
        let second = moved("b.ts", 4, (400, 401), 1, 8, codecs);
        // Other PIDs, and the PIDs of the start with the kinds exchanged.
        let third = moved("c.ts", 2, (257, 256), 2, 12, codecs);
        let played = Played::of(&[first.clone(), second.clone(), third.clone()].concat());
        assert_eq!(played.tracks.len(), 2);
        assert!(!played.warns_of("left out") && !played.warns_of("ends at"), "{:?}", played.warnings);
        let parts = [&first, &second, &third].map(|part| Played::of(part));
        let sums: Vec<String> = parts.iter().flat_map(|part| part.sums(&film_dir)).collect();
        assert_eq!(played.sums(&film_dir), sums);
        let shown: Vec<i64> = played.pictures().iter().map(|taken| taken.packet.sample.pts).collect();
        let span = shown.iter().max().unwrap() - shown.iter().min().unwrap();
        assert!((span - 349 * 3600).abs() < 3 * 3600, "{span}");
        let frames: usize = parts.iter().map(|part| part.sound().len()).sum();
        assert!(played.sound().len() + 4 >= frames, "{} of {frames}", played.sound().len());
    }
}

#[test]
fn changes_that_cannot_be_followed_are_named() {
    let film_dir = FilmDir::new();
    let first = make(&film_dir, "a.ts", 30, H264_AAC);
    let part = |name: &str, codecs: &str| make(&film_dir, name, 4, &format!("{codecs} -output_ts_offset 30"));
    // The codec of sound changes.
    let other = "-c:v libx264 -preset veryfast -bf 3 -g 50 -c:a ac3 -tables_version 1 -streamid 1:400";
    let played = Played::of(&[first.clone(), part("b.ts", other)].concat());
    assert_eq!(played.pictures().len(), 850);
    assert!(played.warns_of("stream 257 (sound) ends at 00:00:29."), "{:?}", played.warnings);
    assert!(played.warns_of("stream 400 (sound) begins at"), "{:?}", played.warnings);
    // Sound ends.
    let silent = "-c:v libx264 -preset veryfast -bf 3 -g 50 -an -tables_version 1";
    let played = Played::of(&[first.clone(), part("c.ts", silent)].concat());
    assert_eq!(played.pictures().len(), 850);
    assert!(played.warns_of("(sound) ends at"), "{:?}", played.warnings);
    // Sound begins.
    let first = make(&film_dir, "d.ts", 30, silent);
    let played = Played::of(&[first, part("e.ts", H264_AAC)].concat());
    assert_eq!((played.pictures().len(), played.tracks.len()), (850, 1));
    assert!(played.warns_of("stream 257 (sound) begins at 00:00:29.8"), "{:?}", played.warnings);
    let why = "is left out: it continues no track of the start of the file";
    assert!(played.warns_of(why), "{:?}", played.warnings);
}

#[test]
fn the_first_programme_with_pictures_is_used() {
    let film_dir = FilmDir::new();
    let path = film_dir.make(
        "a.ts",
        &[
            picture("25", 1),
            tone(440, 48_000, 1),
            words("-map 0 -map 1 -map 1 -c:v libx264 -preset ultrafast -c:a aac"),
            words("-program title=Radio:st=2 -program title=Film:st=0:st=1"),
        ],
    );
    let played = Played::of(&std::fs::read(path).unwrap());
    assert_eq!((played.tracks.len(), played.pictures().len()), (2, 25));
    assert!(
        played.warns_of("1 more programme is left out (1); programme 2 was taken"),
        "{:?}",
        played.warnings
    );
}

#[test]
fn a_track_may_begin_late() {
    let film_dir = FilmDir::new();
    for codecs in [H264_AAC, HEVC_AC3] {
        for (late, seconds) in [(TrackKind::Video, 15), (TrackKind::Audio, 15), (TrackKind::Video, 6)] {
            let offset = words(&format!("-itsoffset {seconds}"));
            let (pictures, sound) = (picture("25", 20), tone(440, 48_000, 20));
            let inputs = if late == TrackKind::Video {
                [offset, pictures, sound].concat()
            } else {
                [pictures, offset, sound].concat()
            };
            let path = film_dir.make("a.ts", &[inputs, words(codecs)]);
            let played = Played::of(&std::fs::read(&path).unwrap());
            assert_eq!(played.tracks.len(), 2, "{:?}", played.warnings);
            assert_eq!(played.pictures().len(), 500);
            assert_eq!(played.sums(&film_dir), frame_sums(&path, None, "0:v"));
            let begin = |samples: Vec<Taken>, kind: TrackKind| {
                let scale = f64::from(played.tracks[played.track(kind)].timescale);
                samples.iter().map(|taken| taken.packet.sample.pts).min().unwrap() as f64 / scale
            };
            let picture = begin(played.pictures(), TrackKind::Video);
            let sound = begin(played.sound(), TrackKind::Audio);
            let apart = if late == TrackKind::Video { picture - sound } else { sound - picture };
            assert!((apart - f64::from(seconds)).abs() < 0.1, "{picture} {sound}");
        }
    }
}

/// Parts of a film that was joined from several, 4.1 s apart; each says whether it has the `other`
/// codecs. All frames are there, each part's beside its pictures, and a change is stated where the
/// codecs change.
fn assert_followed(film_dir: &FilmDir, same: &str, other: &str, named: [&str; 2]) {
    let part = |name: String, codecs: &str, offset: f64| {
        make(film_dir, &name, 4, &format!("{codecs} -output_ts_offset {offset:.1}"))
    };
    for chosen in [&[0, 1][..], &[0, 1, 0], &[0, 1, 1, 0, 1]] {
        let parts: Vec<Vec<u8>> = chosen
            .iter()
            .enumerate()
            .map(|(n, form)| part(format!("{n}.ts"), [same, other][*form], n as f64 * 4.1))
            .collect();
        let plains: Vec<Played> = parts.iter().map(|part| Played::of(part)).collect();
        let played = Played::of(&parts.concat());
        let (pictures, sound) = (played.pictures(), played.sound());
        assert_eq!(pictures.len(), 100 * chosen.len(), "{:?}", played.warnings);
        let due: usize = plains.iter().map(|plain| plain.sound().len()).sum();
        let parts_count = chosen.len();
        assert!(sound.len() <= due && sound.len() + 4 * parts_count >= due, "{} of {due}", sound.len());
        let changes: Vec<usize> = (1..parts_count).filter(|n| chosen[*n] != chosen[n - 1]).collect();
        let stated: Vec<&Taken> = sound.iter().filter(|taken| taken.packet.change.is_some()).collect();
        assert_eq!(stated.len(), changes.len(), "{chosen:?}");
        let timescale = f64::from(played.tracks[1].timescale);
        for (taken, part) in stated.iter().zip(&changes) {
            let audio = taken.packet.change.as_ref().unwrap().audio.clone();
            assert_eq!(audio, plains[*part].tracks[1].audio, "{chosen:?}");
            let to = named[chosen[*part]];
            assert!(played.warns_of(&format!(" to {to}: a new")), "{:?}", played.warnings);
        }
        for (n, plain) in plains.iter().enumerate() {
            let shift = (pictures[100 * n].packet.sample.pts - plain.pictures()[0].packet.sample.pts) as f64
                / 90_000.0;
            let own_scale = f64::from(plain.tracks[1].timescale);
            let frames = plain.sound();
            let before: usize = plains[..n].iter().map(|plain| plain.sound().len()).sum();
            for place in [frames.len() / 2, frames.len() - 2] {
                let frame = &frames[place];
                // A few frames may be missing at each joint before.
                let near = (before + place).saturating_sub(4 * n + 4)..=before + place;
                let Some(found) = sound[near].iter().find(|other| other.data == frame.data) else {
                    panic!("frame {place} of part {n} is missing")
                };
                let late = found.packet.sample.pts as f64 / timescale
                    - frame.packet.sample.pts as f64 / own_scale
                    - shift;
                assert!(late.abs() < 0.040, "part {n} of {chosen:?}: {late}");
            }
        }
    }
}

#[test]
fn changes_of_sound_are_followed() {
    let film_dir = FilmDir::new();
    let video = "-c:v libx264 -preset ultrafast -g 50";
    let with = |sound: &str| format!("{video} {sound}");
    for (same, other, named) in [
        ("-c:a aac -ac 2", "-c:a aac -ac 6", ["2 channels at 48000 Hz", "6 channels at 48000 Hz"]),
        ("-c:a aac -ac 2", "-c:a aac -ac 2 -ar 44100", ["2 channels at 48000 Hz", "2 channels at 44100 Hz"]),
        (
            "-c:a libmp3lame -ac 2",
            "-c:a libmp3lame -ac 2 -ar 32000",
            ["2 channels at 48000 Hz", "2 channels at 32000 Hz"],
        ),
        ("-c:a ac3 -ac 2", "-c:a ac3 -ac 6", ["2 channels at 48000 Hz", "6 channels at 48000 Hz"]),
        ("-c:a eac3 -ac 6", "-c:a eac3 -ac 2", ["6 channels at 48000 Hz", "2 channels at 48000 Hz"]),
    ] {
        assert_followed(&film_dir, &with(same), &with(other), named);
    }
}

#[test]
fn another_codec_of_sound_is_left_out() {
    let film_dir = FilmDir::new();
    let video = "-c:v libx264 -preset ultrafast -g 50";
    // E-AC-3 and AC-3 share their type in the programme's map.
    let ac3 = make(&film_dir, "a.ts", 4, &format!("{video} -c:a ac3 -mpegts_flags system_b"));
    let eac3 = make(
        &film_dir,
        "b.ts",
        4,
        &format!("{video} -c:a eac3 -mpegts_flags system_b -output_ts_offset 4.1"),
    );
    let played = Played::of(&[ac3.clone(), eac3].concat());
    assert_eq!(played.pictures().len(), 200, "the pictures continue");
    let due = Played::of(&ac3).sound().len();
    assert!(played.sound().len() <= due && played.sound().len() + 2 >= due);
    assert!(played.warns_of("or with another codec"), "{:?}", played.warnings);
}

#[test]
fn pictures_that_change_their_size_are_all_there() {
    let film_dir = FilmDir::new();
    for (codecs, scaled) in [
        (H264_AAC, "-c:v libx264 -preset veryfast -bf 3 -g 50 -c:a aac -s 160x90"),
        (
            HEVC_AC3,
            "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50:bframes=3 -c:a ac3 -s 160x96",
        ),
    ] {
        let first = make(&film_dir, "a.ts", 4, codecs);
        let second = make(&film_dir, "b.ts", 4, &format!("{scaled} -output_ts_offset 4.2"));
        let played = Played::of(&[first.clone(), second.clone()].concat());
        assert_eq!(played.pictures().len(), 200);
        assert_eq!(played.sums(&film_dir).len(), 200);
        assert!(
            played.warns_of("change at 00:00:04.") && played.warns_of("to 160 x 9"),
            "{:?}",
            played.warnings
        );
        let pictures = played.pictures();
        let changed: Vec<usize> =
            (0..200).filter(|number| pictures[*number].packet.change.is_some()).collect();
        assert_eq!(changed, [100]);
        // Each description has its own sets, and the first none of the second.
        let second = Played::of(&second);
        let change = pictures[100].packet.change.clone().unwrap();
        assert_eq!((&change.config, &change.video), (&second.tracks[0].config, &second.tracks[0].video));
        assert_eq!(played.tracks[0].config, Played::of(&first).tracks[0].config);
    }
}
