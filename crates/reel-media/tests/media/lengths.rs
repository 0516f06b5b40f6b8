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
