//! MPEG transport streams against ffprobe.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::oracle::*;
use reel_media::{Codec, Demux, MediaError, TrackKind};
use std::path::Path;

fn open(path: &Path) -> Box<dyn Demux> {
    reel_media::open(Box::new(Memory(std::fs::read(path).unwrap()))).unwrap()
}

/// Both streams have ffprobe's packets: count, times and flags; for sound also sizes, minus
/// `header` bytes.
fn assert_like_ffprobe(path: &Path, header: usize) -> (Box<dyn Demux>, Vec<Taken>) {
    let mut demux = open(path);
    let taken = drain(demux.as_mut()).unwrap();
    let seen = packets(path);
    let zero = seen.iter().map(|seen| seen.pts).fold(f64::INFINITY, f64::min);
    for (track, description) in demux.tracks().iter().enumerate() {
        let ours = of_track(&taken, track);
        let theirs: Vec<_> = seen.iter().filter(|seen| seen.stream == track).collect();
        assert_eq!(ours.len(), theirs.len(), "packets of {description:?}");
        let scale = f64::from(description.timescale);
        // ffprobe prints microseconds; sound is counted in samples.
        let slack = if description.kind == TrackKind::Video { 0.000_002 } else { 0.000_02 + 1.0 / scale };
        for (ours, theirs) in ours.iter().zip(theirs) {
            let sample = ours.packet.sample;
            assert!(
                (sample.pts as f64 / scale - (theirs.pts - zero)).abs() <= slack,
                "{sample:?} {theirs:?}"
            );
            assert_eq!(sample.sync, theirs.key, "{theirs:?}");
            if description.kind == TrackKind::Video {
                assert!(
                    (sample.dts as f64 / scale - (theirs.dts - zero)).abs() <= slack,
                    "{sample:?} {theirs:?}"
                );
            } else {
                assert_eq!(ours.data.len() + header, theirs.bytes, "{theirs:?}");
            }
        }
        assert_contiguous(&ours);
    }
    (demux, taken)
}

fn h264_aac() -> Vec<Vec<String>> {
    let codecs = "-c:v libx264 -preset veryfast -bf 3 -g 25 -c:a aac -ac 2";
    vec![picture("25", 3), tone(440, 44_100, 3), words(codecs)]
}

#[test]
fn h264_and_aac() {
    let film_dir = FilmDir::new();
    let mut arguments = h264_aac();
    arguments.push(words("-metadata:s:a:0 language=deu"));
    let path = film_dir.make("a.ts", &arguments);
    let (demux, taken) = assert_like_ffprobe(&path, 7);
    let [video, audio] = [&demux.tracks()[0], &demux.tracks()[1]];
    assert_eq!((video.codec, audio.codec), (Codec::H264, Codec::Aac));
    assert_eq!(audio.language.as_deref(), Some("deu"));
    assert_eq!((video.timescale, audio.timescale), (90_000, 44_100));
    let shape = video.video.as_ref().unwrap();
    assert_eq!((shape.width, shape.height), (320, 180));
    assert_eq!(audio.config, [0x12, 0x10], "low complexity, 44.1 kHz, stereo");
    assert!(demux.warnings().is_empty(), "{:?}", demux.warnings());
    let stream = film_dir.write("a.264", &annex_b(&avc_sets(&video.config), &of_track(&taken, 0)));
    assert_eq!(frame_sums(&stream, Some("h264"), "0:v"), frame_sums(&path, None, "0:v"));
}

#[test]
fn hevc_and_ac3() {
    let film_dir = FilmDir::new();
    let codecs =
        "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=30:bframes=3 -c:a ac3 -ac 2";
    let path = film_dir.make("a.ts", &[picture("30", 2), tone(440, 48_000, 2), words(codecs)]);
    let (demux, taken) = assert_like_ffprobe(&path, 0);
    let [video, audio] = [&demux.tracks()[0], &demux.tracks()[1]];
    assert_eq!((video.codec, audio.codec), (Codec::Hevc, Codec::Ac3));
    let stream = film_dir.write("a.265", &annex_b(&hevc_sets(&video.config), &of_track(&taken, 0)));
    assert_eq!(frame_sums(&stream, Some("hevc"), "0:v"), frame_sums(&path, None, "0:v"));
}

#[test]
fn mp3_and_eac3_as_sound() {
    let film_dir = FilmDir::new();
    let video = "-c:v libx264 -preset ultrafast";
    let mp3 = format!("{video} -c:a libmp3lame");
    let path = film_dir.make("a.ts", &[picture("25", 2), tone(440, 48_000, 2), words(&mp3)]);
    let (demux, _) = assert_like_ffprobe(&path, 0);
    assert_eq!((demux.tracks()[1].codec, demux.tracks()[1].config.len()), (Codec::Mp3, 0));
    // As ATSC writes it, and as DVB does.
    for system in ["", "-mpegts_flags system_b"] {
        let eac3 = format!("{video} -c:a eac3 -ac 2 {system}");
        let path = film_dir.make("b.ts", &[picture("25", 2), tone(440, 48_000, 2), words(&eac3)]);
        let (demux, _) = assert_like_ffprobe(&path, 0);
        assert_eq!((demux.tracks()[1].codec, demux.tracks()[1].config.len()), (Codec::Eac3, 5));
    }
}

#[test]
fn open_groups_of_pictures() {
    let film_dir = FilmDir::new();
    let codecs = "-c:v libx264 -preset veryfast -bf 3 -g 20 -x264-params open-gop=1";
    let path = film_dir.make("a.ts", &[picture("25", 4), words(codecs)]);
    let (_, taken) = assert_like_ffprobe(&path, 0);
    assert!(taken.iter().filter(|taken| taken.packet.sample.sync).count() >= 4);

    // Cut before the second group: its leading pictures refer to the first and must be dropped.
    let whole = std::fs::read(&path).unwrap();
    let second = taken.iter().skip(1).find(|taken| taken.packet.sample.sync).unwrap();
    let before: usize =
        taken.iter().take_while(|other| other.packet != second.packet).map(|taken| taken.data.len()).sum();
    let cut = whole[before * 9 / 10 / 188 * 188..].to_vec();
    let mut demux = reel_media::open(Box::new(Memory(cut))).unwrap();
    let rest = drain(demux.as_mut()).unwrap();
    assert!(rest[0].packet.sample.sync && rest.len() > 30);
    assert!(rest.iter().all(|taken| taken.packet.sample.pts >= rest[0].packet.sample.pts));
    assert!(demux.warnings().iter().any(|text| text.contains("key frame")), "{:?}", demux.warnings());
}

#[test]
fn the_clock_wraps() {
    let film_dir = FilmDir::new();
    let mut arguments = h264_aac();
    // 2^33 ticks are 95443.7 s.
    arguments.push(words("-output_ts_offset 95441"));
    let path = film_dir.make("a.ts", &arguments);
    let plain = film_dir.make("b.ts", &h264_aac());
    let samples = |path: &Path| {
        let taken = drain(open(path).as_mut()).unwrap();
        taken.into_iter().map(|taken| (taken.packet, taken.data)).collect::<Vec<_>>()
    };
    let (wrapped, plain) = (samples(&path), samples(&plain));
    // ffprobe shows the times before the wrap as negative.
    let seen = packets(&path);
    assert!(
        seen.iter().any(|seen| seen.pts < 0.0) && seen.iter().any(|seen| seen.pts > 0.0),
        "the file wraps"
    );
    assert_like_ffprobe(&path, 7);
    assert_eq!(wrapped.len(), plain.len());
    for (wrapped, plain) in wrapped.iter().zip(&plain) {
        assert_eq!(wrapped.0.track, plain.0.track);
        let distance = wrapped.0.sample.pts - plain.0.sample.pts;
        assert!(distance.abs() <= 1, "{wrapped:?} {plain:?}");
        assert_eq!(wrapped.1, plain.1);
    }
}

#[test]
fn packets_of_discs_and_with_checksums() {
    let film_dir = FilmDir::new();
    let mut arguments = h264_aac();
    arguments.push(words("-mpegts_m2ts_mode 1 -c:a ac3"));
    let path = film_dir.make("a.m2ts", &arguments);
    assert_eq!(std::fs::read(&path).unwrap()[4], 0x47);
    assert_like_ffprobe(&path, 0);

    let path = film_dir.make("a.ts", &h264_aac());
    let plain = std::fs::read(&path).unwrap();
    let long: Vec<u8> = plain.chunks(188).flat_map(|packet| [packet, &[0; 16]].concat()).collect();
    let taken = drain(reel_media::open(Box::new(Memory(long))).unwrap().as_mut()).unwrap();
    let of_plain = drain(open(&path).as_mut()).unwrap();
    assert!(taken.iter().zip(&of_plain).all(|(a, b)| a.packet == b.packet && a.data == b.data));
    assert_eq!(taken.len(), of_plain.len());
}

#[test]
fn streams_joined_from_two_are_played_without_a_gap() {
    let film_dir = FilmDir::new();
    let first = std::fs::read(film_dir.make("a.ts", &h264_aac())).unwrap();
    let mut arguments = h264_aac();
    arguments.push(words("-output_ts_offset 5000"));
    let second = std::fs::read(film_dir.make("b.ts", &arguments)).unwrap();
    let mut demux = reel_media::open(Box::new(Memory([first, second].concat()))).unwrap();
    let taken = drain(demux.as_mut()).unwrap();
    let video = of_track(&taken, 0);
    assert_eq!(video.len(), 150);
    assert_contiguous(&video);
    assert!(video.iter().all(|taken| taken.packet.sample.duration == 3600));
    let last = of_track(&taken, 1).last().unwrap().packet.sample.pts as f64 / 44_100.0;
    assert!((5.9..6.1).contains(&last), "{last}");
    assert!(demux.warnings().iter().any(|text| text.contains("joined")), "{:?}", demux.warnings());
}

#[test]
fn a_file_cut_in_the_middle_begins_at_a_key_frame() {
    let film_dir = FilmDir::new();
    let path = film_dir.make("a.ts", &h264_aac());
    let whole = std::fs::read(&path).unwrap();
    let cut = whole[whole.len() * 2 / 10 + 57..].to_vec();
    let mut demux = reel_media::open(Box::new(Memory(cut.clone()))).unwrap();
    let taken = drain(demux.as_mut()).unwrap();
    let video = of_track(&taken, 0);
    assert!(video[0].packet.sample.sync);
    assert!((25..75).contains(&video.len()), "{}", video.len());
    assert!(demux.warnings().iter().any(|text| text.contains("key frame")), "{:?}", demux.warnings());
    let first = taken.iter().map(|taken| taken.packet.sample.pts).min().unwrap();
    assert_eq!(first, 0);
}

#[test]
fn the_first_programme_with_media_is_used() {
    let film_dir = FilmDir::new();
    let path = film_dir.make(
        "a.ts",
        &[
            picture("25", 1),
            tone(440, 48_000, 1),
            words("-f lavfi -i testsrc2=size=160x90:rate=25:duration=1"),
            words("-map 0 -map 1 -map 2 -c:v libx264 -preset ultrafast -c:a aac"),
            words("-program title=Two:st=2 -program title=One:st=0:st=1"),
        ],
    );
    let mut demux = open(&path);
    assert_eq!(demux.tracks().len(), 1);
    assert_eq!(demux.tracks()[0].video.as_ref().unwrap().width, 160);
    assert_eq!(drain(demux.as_mut()).unwrap().len(), 25);
    assert!(demux.warnings()[0].contains("1 more programme"), "{:?}", demux.warnings());
}

#[test]
fn unusable_streams_are_named() {
    let film_dir = FilmDir::new();
    let open_bytes = |bytes: Vec<u8>| reel_media::open(Box::new(Memory(bytes))).err().unwrap();
    assert!(matches!(open_bytes(Vec::new()), MediaError::Empty));
    assert!(matches!(open_bytes(vec![7; 5000]), MediaError::UnknownContainer(_)));
    let path = film_dir.make("a.ts", &h264_aac());
    let mut scrambled = std::fs::read(&path).unwrap();
    for packet in scrambled.chunks_mut(188).filter(|packet| packet[1] & 0x1f == 1) {
        packet[3] |= 0x80;
    }
    assert!(matches!(open_bytes(scrambled), MediaError::Encrypted { track: 256 | 257, .. }));
    let mut orphaned = std::fs::read(&path).unwrap();
    for packet in orphaned.chunks_mut(188).filter(|packet| packet[1] & 0x1f == 0 && packet[2] == 0) {
        packet[2] = 9;
    }
    assert!(matches!(open_bytes(orphaned), MediaError::Malformed { .. }));
    let old =
        film_dir.make("b.ts", &[picture("25", 1), tone(1, 48_000, 1), words("-c:v mpeg2video -c:a aac")]);
    let error = open_bytes(std::fs::read(old).unwrap());
    assert!(matches!(&error, MediaError::NoTracks(why) if why.contains("MPEG-2")), "{error}");
    let latm = film_dir.make(
        "c.ts",
        &[
            picture("25", 1),
            tone(1, 48_000, 1),
            words("-c:v libx264 -preset ultrafast -c:a aac -mpegts_flags latm"),
        ],
    );
    let demux = open(&latm);
    assert_eq!(demux.tracks().len(), 1);
    assert!(demux.warnings()[0].contains("LATM"), "{:?}", demux.warnings());
}
