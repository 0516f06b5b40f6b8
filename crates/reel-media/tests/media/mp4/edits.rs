//! Edit lists of several pieces, as editors that do not encode again write them.

use super::boxes::{boxed, full, rewrite, words};
use super::files::{H264, film};
use super::movie::{Trak, movie};
use super::sources::{Memory, Read, read};
use super::stored;
use proptest::prelude::*;
use reel_media::TrackKind;
use std::fs;
use std::path::PathBuf;

const PICTURE: &[&str] = &["-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25:duration=6"];
const NOISE: &[&str] = &["-f", "lavfi", "-i", "anoisesrc=sample_rate=48000:duration=6:seed=1"];
const AAC: &[&str] = &["-c:a", "aac"];
const NORMAL: u32 = 0x1_0000;

/// Duration and begin in the media in milliseconds, and rate. Minus one is an empty edit.
type Edits<'a> = &'a [(u32, i32, u32)];

/// Films whose pictures are coded in several ways, and the media time at which each begins.
fn films() -> Vec<(PathBuf, i32)> {
    let hevc = &["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error:keyint=20"];
    let vp9 = &["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "40"];
    vec![
        (film("mp4", &[PICTURE, NOISE, H264, AAC]), 80),
        (film("mp4", &[PICTURE, NOISE, hevc, &["-tag:v", "hvc1"], AAC]), 80),
        (film("mp4", &[PICTURE, NOISE, vp9, AAC]), 0),
    ]
}

/// The film with these lists for its pictures and its sound, whose times are those of the pictures
/// from their first one on and of the sound from its priming on.
fn edited(film: &[u8], first_ms: i32, pictures: Edits<'_>, sound: Edits<'_>) -> Vec<u8> {
    let mut lists = [(pictures, first_ms, 12_800), (sound, 0, 48_000)].into_iter();
    rewrite(film, &mut |kind, _| {
        if kind != b"edts" {
            return None;
        }
        let (edits, first, timescale) = lists.next().expect("two tracks");
        let priming = if timescale == 48_000 { 1024 } else { 0 };
        let list = edits.iter().flat_map(|(duration, ms, rate)| {
            let ticks = match ms {
                -1 => -1,
                ms => (i64::from(ms + first) * timescale / 1000) as i32 + priming,
            };
            words(&[*duration, ticks as u32, *rate])
        });
        let elst = [words(&[edits.len() as u32]), list.collect()].concat();
        Some(boxed(b"edts", &full(b"elst", 0, 0, &elst)))
    })
}

fn taken(file: &[u8]) -> Read {
    read(Memory(file.to_vec())).expect("a valid file")
}

/// The pictures of a film as ffmpeg decodes what is stored of it. Those that are replaced within a
/// millisecond are not seen.
fn seen(read: &Read) -> Vec<(i64, String)> {
    let object =
        stored::store(read).into_iter().find(|(kind, _)| *kind == TrackKind::Video).expect("pictures");
    let file = tempfile::Builder::new().suffix(".mp4").tempfile().expect("a temporary file");
    fs::write(file.path(), object.1).expect("a temporary file can be written");
    let all = stored::pictures(file.path());
    let is_seen = |at: usize| all.get(at + 1).is_none_or(|next| next.0 > all[at].0 + 1);
    (0..all.len()).filter(|at| is_seen(*at)).map(|at| all[at].clone()).collect()
}

/// Milliseconds at which sound begins, and the sound.
fn heard(read: &Read) -> Vec<(f64, Vec<u8>)> {
    let track = read.tracks.iter().position(|track| track.kind == TrackKind::Audio).expect("sound");
    read.of(track).iter().map(|(packet, data)| (packet.sample.pts as f64 / 48.0, data.clone())).collect()
}

/// Checks pictures and sound against pieces of the whole film: begin, end and new begin, in ms.
fn assert_pieces(what: &str, read: &Read, whole: &Read, pieces: &[(i64, i64, i64)]) {
    let (all, mut shown) = (seen(whole), seen(read));
    // A picture after the end may be needed by those before it.
    let end = pieces.last().map_or(0, |(from, to, at)| to - from + at);
    let more = shown.iter().filter(|(ms, _)| *ms >= end).count();
    assert!(more <= 2, "{what}: {more} pictures after the end");
    shown.retain(|(ms, _)| *ms < end);
    let mut due: Vec<(i64, String)> = pieces
        .iter()
        .flat_map(|(from, to, at)| {
            let inside = all.iter().filter(move |(ms, _)| (*from..*to).contains(ms));
            inside.map(move |(ms, sum)| (ms - from + at, sum.clone()))
        })
        .collect();
    // The first picture of a late track is shown from the start.
    if due[0].0 > 200 && shown[0].0 == 0 {
        due[0].0 = 0;
    }
    let times = |list: &[(i64, String)]| list.iter().map(|(ms, _)| *ms).collect::<Vec<_>>();
    assert_eq!(times(&shown), times(&due), "{what}");
    let others = shown.iter().zip(&due).filter(|(shown, due)| shown != due).map(|(shown, _)| shown.0);
    assert_eq!(others.collect::<Vec<_>>(), [0; 0], "{what}: other pictures");
    assert!(read.packets.iter().all(|(packet, _)| packet.sample.dts <= packet.sample.pts), "{what}");
    let (all, sound) = (heard(whole), heard(read));
    let mut last = f64::MIN;
    for (at, data) in &sound {
        assert!(*at > last, "{what}: {at} ms after {last}");
        last = *at;
        let (own, _) = all.iter().find(|(_, of)| of == data).expect("sound of the film");
        let is_due = |(from, to, new): &(i64, i64, i64)| {
            (at - own - (new - from) as f64).abs() < 0.1
                && *own > *from as f64 - 25.0
                && *own < *to as f64 + 22.0
        };
        assert!(pieces.iter().any(is_due), "{what}: sound of {own} ms at {at} ms");
    }
    // All of the sound, to a frame at each border.
    let due: i64 = pieces.iter().map(|(from, to, _)| to - from).sum();
    let missing = due as f64 - sound.len() as f64 * 1024.0 / 48.0;
    assert!(missing.abs() < 22.0 * (pieces.len() + 1) as f64, "{what}: {missing} ms of sound are missing");
}

#[test]
fn pieces_in_order_are_shown_exactly() {
    for (path, first) in films() {
        let file = fs::read(&path).expect("the film was made");
        let whole = taken(&file);
        for (edits, pieces) in [
            // A cut to a place between key frames, and one within a group of pictures.
            (&[(1000, 0, NORMAL), (1600, 3400, NORMAL)][..], &[(0, 1000, 0), (3400, 5000, 1000)][..]),
            (&[(1000, 0, NORMAL), (1000, 1200, NORMAL)], &[(0, 1000, 0), (1200, 2200, 1000)]),
            (&[(1040, 0, NORMAL), (1000, 1080, NORMAL)], &[(0, 1040, 0), (1080, 2080, 1040)]),
            // Not from the beginning, twice, and with a piece of three pictures.
            (
                &[(800, 600, NORMAL), (120, 2040, NORMAL), (2000, 3640, NORMAL)],
                &[(600, 1400, 0), (2040, 2160, 800), (3640, 5640, 920)],
            ),
            // Pauses: within the film, and where something is cut out.
            (
                &[(1000, 0, NORMAL), (3000, -1, NORMAL), (2000, 1000, NORMAL)],
                &[(0, 1000, 0), (1000, 3000, 4000)],
            ),
            (
                &[(400, -1, NORMAL), (1000, 440, NORMAL), (600, -1, NORMAL), (2000, 2520, NORMAL)],
                &[(440, 1440, 400), (2520, 4520, 2000)],
            ),
            // One film in two pieces.
            (&[(1000, 0, NORMAL), (3000, 1000, NORMAL)], &[(0, 4000, 0)]),
        ] {
            let what = format!("{} {edits:?}", path.display());
            let read = taken(&edited(&file, first, edits, edits));
            assert!(read.warnings.is_empty(), "{what}: {:?}", read.warnings);
            assert_pieces(&what, &read, &whole, pieces);
        }
    }
}

#[test]
fn what_is_not_followed_ends_picture_and_sound_together() {
    let (path, first) = films().remove(0);
    let file = fs::read(&path).expect("the film was made");
    let whole = taken(&file);
    let one = &[(6000, 0, NORMAL)][..];
    for (pictures, sound, pieces, warning) in [
        (
            &[(2000, 0, NORMAL), (1500, 0, NORMAL)][..],
            &[(2000, 0, NORMAL), (1500, 0, NORMAL)][..],
            &[(0, 2000, 0)][..],
            "the edit list shows media again or in another order from 00:00:02.000 on: the rest, 1.500 s, is left out",
        ),
        (
            &[(2000, 0, NORMAL), (1000, 3000, NORMAL), (1000, 1000, NORMAL)],
            one,
            &[(0, 2000, 0), (3000, 4000, 2000)],
            "the edit list shows media again or in another order from 00:00:03.000 on: the rest, 1.000 s, is left out",
        ),
        (
            one,
            &[(2000, 0, NORMAL), (1000, 2000, 2 * NORMAL)],
            &[(0, 2000, 0)],
            "the edit list plays media faster or slower from 00:00:02.000 on: the rest, 1.000 s, is left out",
        ),
        (
            &[(3000, 0, 2 * NORMAL)],
            one,
            &[(0, 6000, 0)],
            "the edit list plays media faster or slower, from the beginning on: all of the media is shown, at its own speed",
        ),
    ] {
        let read = taken(&edited(&file, first, pictures, sound));
        assert!(
            matches!(&read.warnings[..], [one] if one.starts_with(warning)),
            "{warning}: {:?}",
            read.warnings
        );
        // What only one of the tracks cuts out is in the other.
        if pictures == sound || pieces.len() == 1 {
            assert_pieces(warning, &read, &whole, pieces);
        } else {
            let end = seen(&read).last().map(|(ms, _)| *ms);
            assert_eq!(end, Some(2960), "{warning}");
            let end = heard(&read).last().map_or(0.0, |(ms, _)| *ms);
            assert!((2970.0..3000.0).contains(&end), "{warning}: {end}");
        }
    }
}

#[test]
fn a_held_picture_is_a_pause() {
    let (path, first) = films().remove(0);
    let file = fs::read(&path).expect("the film was made");
    let whole = taken(&file);
    let held = &[(2000, 0, 0), (3000, 0, NORMAL)];
    let read = taken(&edited(&file, first, held, held));
    assert_eq!(
        read.warnings,
        [1, 2].map(|track| format!(
            "track {track}: the edit list holds a picture from 00:00:00.000 to 00:00:02.000, which becomes a pause"
        ))
    );
    assert_pieces("held", &read, &whole, &[(0, 3000, 2000)]);
    // A list of one entry without a rate is that of a careless writer.
    let read = taken(&edited(&file, first, &[(3000, 0, 0)], &[(3000, 0, 0)]));
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    assert_pieces("no rate", &read, &whole, &[(0, 3000, 0)]);
}

#[test]
fn cues_of_a_cut_film() {
    let cues: Vec<Vec<u8>> = ["a", "b", "c", "d"].map(|text| [b"\0\x01", text.as_bytes()].concat()).to_vec();
    let text = boxed(b"tx3g", &[0; 38]);
    let edits = vec![(700, 0), (1000, 1300)];
    let text = Trak { samples: cues, edits: edits.clone(), ..Trak::new(2, b"sbtl", text, 1000, 500, 0) };
    let file = movie(b"isom", &[Trak { edits, ..Trak::video(1, 50) }, text]);
    let read = taken(&file);
    // 0 to 500, 500 to 1000, 1000 to 1500 and 1500 to 2000 of the media.
    let shown: Vec<_> = read
        .of(1)
        .iter()
        .map(|(packet, data)| (packet.sample.pts, packet.sample.duration, data.clone()))
        .collect();
    let due = [(0, 500, "a"), (500, 200, "b"), (700, 200, "c"), (900, 500, "d")];
    assert_eq!(shown, due.map(|(at, duration, text)| (at, duration, text.as_bytes().to_vec())));
}

#[test]
fn cuts_with_more_pictures_than_a_clock_can_hide() {
    let edits = vec![(400, 0), (400, 10_100 * 40)];
    let pictures = Trak { syncs: Some(vec![1]), edits: edits.clone(), ..Trak::video(1, 10_120) };
    let sound = Trak { edits: vec![(400, 0), (400, 10_100 * 48 * 40)], ..Trak::audio(2, 19_000) };
    let read = taken(&movie(b"isom", &[pictures, sound]));
    assert_eq!((read.of(0).len(), read.of(1).len()), (10, 19));
    assert_eq!(
        read.warnings,
        [
            "the edit list cuts out 10001 pictures on which shown ones depend, too many: what comes after 00:00:00.400 \
          is left out"
        ]
    );
}

fn any_edits() -> impl Strategy<Value = Vec<(u32, i32, u32)>> {
    let time = prop_oneof![3 => 0i32..2400, 1 => Just(-1), 1 => -5i32..i32::MAX - 1];
    let duration = prop_oneof![6 => 0u32..900, 1 => any::<u32>()];
    let rate = prop_oneof![8 => Just(NORMAL), 1 => Just(0), 1 => any::<u32>()];
    prop::collection::vec((duration, time, rate), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Whatever a list says, samples are in order, and decoded before they are shown.
    #[test]
    fn any_edit_list_leaves_samples_in_order(
        pictures in any_edits(),
        in_order in any::<bool>(),
        group in 1usize..20,
    ) {
        let mut pictures = pictures;
        if in_order {
            pictures.sort_by_key(|(_, time, _)| *time);
        }
        // Groups of I P B B.
        let shown = |at: usize| at - at % 4 + [0, 3, 1, 2][at % 4];
        let reorder = (0..60).map(|at| (shown(at) as i32 - at as i32 + 2) * 512).collect();
        let syncs = (0..60).step_by(4 * group).map(|at| at + 1).collect();
        let video = Trak { reorder, syncs: Some(syncs), edits: vec![(1, 0)], timescale: 12_800, duration: 512, ..Trak::video(1, 60) };
        let sound = Trak { edits: vec![(1, 0)], ..Trak::audio(2, 110) };
        let file = edited(&movie(b"isom", &[video, sound]), 0, &pictures, &pictures);
        if let Ok(read) = read(Memory(file)) {
            for track in 0..read.tracks.len() {
                let samples: Vec<_> = read.of(track).iter().map(|(packet, _)| packet.sample).collect();
                prop_assert!(samples.is_sorted_by_key(|sample| sample.dts), "{samples:?}");
                let is_early = |sample: &reel_media::Sample| sample.dts <= sample.pts;
                prop_assert!(samples.iter().all(is_early), "{samples:?}");
                let mut times: Vec<_> = samples.iter().map(|sample| sample.pts).collect();
                times.sort_unstable();
                times.dedup();
                prop_assert_eq!(times.len(), samples.len(), "no two at one time");
            }
        }
    }
}
