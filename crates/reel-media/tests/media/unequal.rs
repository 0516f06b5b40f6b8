//! Tracks that begin late, end early or pause: in every form, all tracks last from the start of the
//! title to its end, so that players skip nothing and wait nowhere.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its own material has failed")]

use crate::chain::{publish, store};
use crate::film::{Film, Stored, audio, frames, samples, sound, video};
use crate::film_dir::{DecodedPictures, DecodedSound, FilmDir};
use crate::isobmff;
use reel_media::TrackKind;
use reel_media::cmaf::CutPolicy;

const FORMS: [&str; 3] = ["film.mp4", "master.m3u8", "manifest.mpd"];
const PICTURES: &str = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=6";
const TONE: &str = "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=2";
const H264: &str = "-c:v libx264 -preset ultrafast -bf 2 -g 50";
/// Samples of a tenth of a second, of one channel.
const TENTH: usize = 4800;

/// For each tenth of a second, whether anything is heard.
fn heard(sound: &DecodedSound) -> Vec<bool> {
    let loud = |bytes: &[u8]| bytes.chunks_exact(2).any(|b| i16::from_le_bytes([b[0], b[1]]).abs() > 300);
    sound.pcm.chunks(2 * TENTH).map(loud).collect()
}

/// Stores a film all of whose tracks last from its start to its end, and returns for each form what
/// is heard of it, with a description of the case.
fn heard_in_each_form(name: &str, arguments: &str) -> Vec<(Vec<bool>, String)> {
    let film_dir = FilmDir::new();
    let stored = store(&film_dir.make(name, arguments));
    assert_all_last(&stored, name);
    let folder = film_dir.path("out");
    publish(&stored, &folder);
    let of = |form: &str| {
        let heard = heard(&DecodedSound::of(&folder.join(form), "0:a:0"));
        let what = format!("{form} of {name}, {arguments}: {heard:?}");
        (heard, what)
    };
    FORMS.into_iter().map(of).collect()
}

/// Every track of a title lasts from its start to its end, to a tenth of a second.
fn assert_all_last(stored: &Stored, what: &str) {
    let length_ns = stored.index.duration_ns;
    for track in stored.index.tracks.iter().filter(|track| track.track.kind != TrackKind::Subtitle) {
        let missing_ns = length_ns - track.nanoseconds(track.end);
        assert!(missing_ns < 100_000_000, "{what}: a track ends {missing_ns} ns early");
        // Matroska states the decoder's warm-up in milliseconds.
        let late_ns = track.nanoseconds(track.fragments[0].time);
        assert!(late_ns < 25_000_000, "{what}: a track begins {late_ns} ns late");
    }
}

#[test]
fn sound_that_is_missing_at_both_ends_is_silence_in_every_form() {
    let codecs = [
        ("a.mkv", "aac"),
        ("b.mkv", "libopus"),
        ("c.mkv", "flac"),
        ("d.mkv", "libmp3lame"),
        ("e.mp4", "aac"),
        ("f.ts", "aac"),
        ("g.mp4", "libopus"),
    ];
    for (name, codec) in codecs {
        let arguments = format!("{PICTURES} -itsoffset 2 {TONE} {H264} -c:a {codec} -strict -2");
        for (heard, what) in heard_in_each_form(name, &arguments) {
            assert!((58..=62).contains(&heard.len()), "{what}");
            assert!(heard[21..39].iter().all(|heard| *heard), "{what}");
            assert!(heard[..19].iter().chain(&heard[41..]).all(|heard| !heard), "{what}");
        }
    }
}

#[test]
fn gaps_of_sound_in_other_codecs_are_silent() {
    for (name, codec) in [("a.mkv", "libopus"), ("b.mkv", "flac"), ("c.mkv", "libmp3lame")] {
        let late = "-af asetpts=if(gte(T\\,1)\\,PTS+3/TB\\,PTS)";
        let arguments = format!("{PICTURES} {TONE} {late} {H264} -c:a {codec}");
        for (heard, what) in heard_in_each_form(name, &arguments) {
            assert!(heard[1..9].iter().chain(&heard[42..49]).all(|heard| *heard), "{what}");
            assert!(heard[12..39].iter().chain(&heard[52..]).all(|heard| !heard), "{what}");
        }
    }
}

#[test]
fn the_first_and_the_last_picture_stay_where_pictures_are_missing() {
    let pictures = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=2";
    let tone = "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=6";
    for (name, codec) in [
        ("a.mp4", H264),
        ("b.mkv", H264),
        ("c.ts", H264),
        ("d.mkv", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 20"),
    ] {
        let film_dir = FilmDir::new();
        let path = film_dir.make(name, &format!("{tone} -itsoffset 2 {pictures} {codec} -c:a aac"));
        let stored = store(&path);
        assert_all_last(&stored, name);
        let folder = film_dir.path("out");
        publish(&stored, &folder);
        let source = DecodedPictures::of(&path, "0:v:0").frames;
        for form in FORMS {
            let shown = DecodedPictures::of(&folder.join(form), "0:v:0").frames;
            let what = format!("{form} of {name}");
            assert_eq!(shown.len(), source.len(), "{what}");
            assert!(shown.iter().map(|one| &one.1).eq(source.iter().map(|one| &one.1)), "{what}");
            assert!(shown[0].0.abs() < 0.001, "{what}: the first is shown at {}", shown[0].0);
            let moved = shown.iter().zip(&source).skip(1).map(|(shown, source)| (shown.0 - source.0).abs());
            assert!(moved.fold(0.0, f64::max) < 0.002, "{what}");
        }
    }
}

/// The film of two seconds of pictures, a pause, and two more, all with B-frames.
fn paused(pause_s: i64) -> Film {
    let later = |(dts, pts, duration, sync): (i64, i64, u32, bool)| {
        let pause = |at: i64| if at >= 49 * 512 { pause_s * 12_800 } else { 0 };
        // As encoders do: the step lies where decoding times reach the pause.
        (dts + pause(dts), pts + pause(pts - 512), duration, sync)
    };
    let mut times: Vec<_> = frames(100, 512, 50, true).into_iter().map(later).collect();
    for place in 1..times.len() {
        times[place - 1].2 = (times[place].0 - times[place - 1].0) as u32;
    }
    Film::new(vec![video(12_800)], vec![samples(0, times)])
}

#[test]
fn no_fragment_begins_behind_a_pause() {
    let policy = CutPolicy { fragment_min_ms: 500, ..CutPolicy::default() };
    for pause_s in [6, 60, 600, 3600] {
        let stored = paused(pause_s).store_with(policy);
        let index = &stored.index;
        assert_eq!(index.duration_ns, (4 + pause_s as u64) * 1_000_000_000);
        let behind = 12_800 * (2 + pause_s as u64);
        let starts: Vec<u64> = index.tracks[0].fragments.iter().map(|fragment| fragment.time).collect();
        assert_eq!(starts, [0], "the next key frame would be at {behind}");
        let all: Vec<_> = isobmff::fragments(&stored.objects[0]).into_iter().flatten().collect();
        assert_eq!(all.len(), 100);
        assert!(all.iter().any(|sample| sample.pts as u64 == behind && sample.sync));
    }
    // A short one, and slides, which have no pauses.
    assert_eq!(paused(3).store_with(policy).index.tracks[0].fragments.len(), 2);
    let slides = (0..20).map(|n| (n * 30, n * 30, 30, true));
    let stored = Film::new(vec![video(1)], vec![samples(0, slides)]).store();
    assert_eq!(stored.index.tracks[0].fragments.len(), 19);
}

#[test]
fn a_title_whose_pictures_end_long_before_its_sound_ends_with_its_last_key_frames() {
    // Long enough for two fragments, if any picture could begin the second one.
    let lanes = vec![samples(0, frames(125, 512, 100, true)), samples(1, sound(2000, 1024, 0))];
    let film = Film::new(vec![video(12_800), audio(48_000, 0)], lanes);
    let (packaged, _) = film.package(CutPolicy::default()).unwrap();
    let told = "track 1: the pictures end at 00:00:05.000, and the title at 00:00:42.666";
    assert!(packaged.warnings.iter().any(|text| text.starts_with(told)), "{:?}", packaged.warnings);
    let stored = film.store();
    assert_all_last(&stored, "a film");
    let all: Vec<_> = isobmff::fragments(&stored.objects[0]).into_iter().flatten().collect();
    // Decoders keep up to 16 pictures back.
    assert_eq!((all.len(), all[100].sync), (125 + 17, true));
    assert!(all[125..].iter().all(|sample| sample.sync && sample.data == all[100].data));
    assert!(all[125].pts > 42 * 12_800, "just before the end");
    let last = stored.index.tracks[0].fragments.last().unwrap();
    assert_eq!(last.samples, 25 + 17, "with the last pictures before them");
    // Sound is cut as before.
    assert!(stored.index.tracks[1].fragments.len() > 9);
}

#[test]
fn a_film_may_begin_just_before_a_pause() {
    let film_dir = FilmDir::new();
    let two = "setpts=PTS+60/TB*gte(N\\,2)+60/TB*gte(N\\,51)";
    let pictures = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=4";
    let arguments = format!("{pictures} -vf {two} -fps_mode passthrough -c:v libx264 -bf 3 -g 25");
    for name in ["a.mp4", "a.mkv"] {
        let stored = store(&film_dir.make(name, &arguments));
        let track = &stored.index.tracks[0];
        assert_eq!(stored.index.duration_ns.div_ceil(1_000_000_000), 124, "{name}");
        // Late by some pictures, not by a minute.
        let late_ms = track.media_offset * 1000 / u64::from(track.track.timescale);
        assert!(late_ms <= 160, "{name}: {late_ms} ms");
    }
}
