//! How long a title is: until the end of the last shown picture or sound, whatever else the file
//! holds.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::oracle::*;
use reel_media::cmaf::{CutPolicy, Packager};
use reel_media::{TitleIndex, TrackKind};
use std::path::Path;

/// The index of the title made from a file, the text of its subtitles, and all warnings.
fn ingest(path: &Path) -> (TitleIndex, String, Vec<String>) {
    let mut demux = reel_media::open(Box::new(Memory(std::fs::read(path).unwrap()))).unwrap();
    let tracks = demux.tracks().to_vec();
    let mut packager = Packager::new(tracks.clone(), CutPolicy::default()).unwrap();
    let mut data = Vec::new();
    while let Some(packet) = demux.next(&mut data).unwrap() {
        packager.push(&packet, &data).unwrap();
        packager.take();
    }
    let packaged = packager.finish().unwrap();
    let mut warnings = demux.warnings().to_vec();
    warnings.extend(packaged.warnings.clone());
    let texts = packaged.pieces.iter().filter(|piece| tracks[piece.track].kind == TrackKind::Subtitle);
    let text = texts.map(|piece| String::from_utf8(piece.bytes.clone()).unwrap()).collect();
    (TitleIndex::assemble(vec![packaged]).0, text, warnings)
}

fn seconds(index: &TitleIndex) -> f64 {
    index.duration_ns as f64 / 1e9
}

#[test]
fn cues_outside_of_the_film_do_not_change_its_length() {
    let film_dir = FilmDir::new();
    let cues = "1\n00:00:01,000 --> 00:00:02,000\nHi\n\n2\n00:00:03,500 --> 00:00:09,000\nover the end\n\n\
                3\n00:20:00,000 --> 00:20:03,000\nlate\n";
    let cues = film_dir.write("cues.srt", cues.as_bytes());
    for (name, text) in [("a.mkv", "srt"), ("a.mp4", "mov_text")] {
        let sub = words(&format!("-i {} -map 0 -map 1 -map 2", cues.display()));
        let codecs = words(&format!("-c:v libx264 -preset ultrafast -bf 2 -c:a flac -strict -2 -c:s {text}"));
        let path = film_dir.make(name, &[picture("25", 4), tone(440, 48_000, 4), sub, codecs]);
        let (index, text, warnings) = ingest(&path);
        assert!((4.0..4.1).contains(&seconds(&index)), "{name}: {}", seconds(&index));
        assert!(text.contains("Hi") && text.contains("over the end") && !text.contains("late"), "{text}");
        assert!(text.contains("00:00:03.500 --> 00:00:04.0"), "{name}: {text}");
        let told = "are left out: 1, from 00:20:00.000 to 00:20:00.000";
        assert!(warnings.iter().any(|warning| warning.contains(told)), "{name}: {warnings:?}");
        let manifest = reel_media::dash::manifest(&index);
        assert!(manifest.contains("mediaPresentationDuration=\"PT4.0"), "{manifest}");
    }
}

#[test]
fn a_cue_that_begins_before_zero_ends_on_time() {
    let film_dir = FilmDir::new();
    let cues = "1\n00:00:01,000 --> 00:00:01,500\ntoo early\n\n2\n00:00:01,000 --> 00:00:03,000\ncut\n\n\
                3\n00:00:03,000 --> 00:00:04,000\nlater\n";
    let cues = film_dir.write("cues.srt", cues.as_bytes());
    // Picture and sound begin after two seconds, which become the beginning.
    let sub = words(&format!("-i {} -map 0 -map 1 -map 2", cues.display()));
    let codecs = words("-vf setpts=PTS+2/TB -af asetpts=PTS+2/TB -fps_mode passthrough -c:v libx264");
    let more = words("-preset ultrafast -c:a flac -c:s srt -avoid_negative_ts disabled");
    let path = film_dir.make("a.mkv", &[picture("25", 4), tone(440, 48_000, 4), sub, codecs, more]);
    let (index, text, warnings) = ingest(&path);
    assert!((3.9..4.1).contains(&seconds(&index)), "{}", seconds(&index));
    assert!(text.contains("00:00:00.000 --> 00:00:01.000\ncut\n"), "{text}");
    assert!(text.contains("00:00:01.000 --> 00:00:02.000\nlater\n") && !text.contains("early"), "{text}");
    assert!(warnings.iter().any(|warning| warning.contains("before the beginning")), "{warnings:?}");
}

/// A film of eight seconds with pauses of `pause_s` before the given frames; 25 frames a second.
fn paused(film_dir: &FilmDir, name: &str, frames: &[u32], pause_s: u32, muxing: &str) -> std::path::PathBuf {
    let steps: Vec<String> = frames.iter().map(|n| format!("gte(N,{n})*{pause_s}/TB")).collect();
    let filter = vec!["-vf".to_owned(), format!("setpts='PTS+{}'", steps.join("+"))];
    let codec = words("-fps_mode passthrough -c:v libx264 -preset veryfast -bf 2 -b_strategy 0 -g 50");
    film_dir.make(name, &[picture("25", 8), filter, codec, words(muxing)])
}

#[test]
fn pauses_between_reordered_pictures_do_not_set_the_length() {
    const PAUSE_S: u32 = 60;
    let film_dir = FilmDir::new();
    for extension in ["mp4", "mkv"] {
        // In the middle, at the beginning, before each of the last pictures, and twice.
        for (number, frames) in
            [&[100][..], &[1], &[2], &[195], &[197], &[198], &[199], &[60, 150], &[100, 198]]
                .iter()
                .enumerate()
        {
            let name = format!("{number}.{extension}");
            let path = paused(&film_dir, &name, frames, PAUSE_S, "");
            let shown = packets(&path).iter().map(|packet| packet.pts).fold(0.0, f64::max);
            let expected = 8.0 + f64::from(PAUSE_S) * frames.len() as f64;
            assert!((shown + 0.04 - expected).abs() < 0.1, "{name}: the last picture is shown at {shown}");
            let (index, ..) = ingest(&path);
            assert!((seconds(&index) - expected).abs() < 0.05, "{name} {frames:?}: {}", seconds(&index));
            let track = &index.tracks[0];
            let last = track.fragments.last().unwrap();
            assert_eq!(last.time + last.duration, track.end);
        }
    }
}

#[test]
fn playlists_of_a_film_with_a_pause_have_its_length() {
    const PAUSE_S: u32 = 60;
    let film_dir = FilmDir::new();
    // The last number is the second of two pauses, directly before the last reordered pictures.
    for (number, frames) in [&[100][..], &[198], &[100, 198]].iter().enumerate() {
        let path = paused(&film_dir, &format!("{number}.mp4"), frames, PAUSE_S, "");
        let (index, ..) = ingest(&path);
        let playlist = reel_media::hls::media(&index, 0).unwrap();
        let durations_s: Vec<f64> = playlist
            .lines()
            .filter_map(|line| line.strip_prefix("#EXTINF:")?.split(',').next())
            .map(|duration_s| duration_s.parse().unwrap())
            .collect();
        let total_s: f64 = durations_s.iter().sum();
        let expected_s = 8.0 + f64::from(PAUSE_S) * frames.len() as f64;
        assert!((total_s - expected_s).abs() < 0.05, "{frames:?}: {total_s} s\n{playlist}");
        // Players need not load a pause before they begin, unless every segment has one.
        let mpd = dash_mpd_core::parse(&reel_media::dash::manifest(&index)).unwrap();
        let usual = mpd.minBufferTime.unwrap();
        assert!(usual.as_secs() <= 8 || frames.len() > 1, "{frames:?}: {usual:?}");
    }
}
