//! Changes of decoder configuration: fragments, init segments, playlists, manifests, files.
#![allow(clippy::unwrap_used, reason = "a test stops where it cannot continue")]

use crate::film::{Film, Stored, audio, cue, frames, samples, sound, subtitle, video};
use crate::oracle::{Memory, drain};
use proptest::prelude::*;
use reel_media::cmaf::{CutPolicy, PackError, Packager};
use reel_media::{Description, TitleIndex, TrackKind, dash, hls, progressive};

const VIDEO_SCALE: u32 = 12_800;
const SOUND_SCALE: u32 = 48_000;

/// Twelve seconds with a key frame every two; the tracks change at the sample shown at or after
/// these times in seconds, alternately to a second description and back.
fn film(pictures_s: &[f64], sound_s: &[f64]) -> Film {
    let mut film = Film::new(
        vec![video(VIDEO_SCALE), audio(SOUND_SCALE, 0), subtitle()],
        vec![samples(0, frames(300, 512, 50, true)), samples(1, sound(563, 1024, 0)), cue(2, "Bonjour")],
    );
    let mut small = film.tracks[0].video.clone().unwrap();
    (small.width, small.height) = (320, 180);
    let (config, track) = (vec![1, 0x4d, 0, 0x0d, 0xff, 0xe1, 0, 1, 0x67, 1, 0, 1, 0x68], 0);
    let of = |film: &Film, track: usize| Description {
        config: film.tracks[track].config.clone(),
        video: film.tracks[track].video.clone(),
        audio: film.tracks[track].audio.clone(),
    };
    let other = Description { config, video: Some(small), audio: None };
    let forms = [of(&film, 0), other];
    change(&mut film, track, f64::from(VIDEO_SCALE), pictures_s, &forms);
    let mut six = film.tracks[1].audio.clone().unwrap();
    six.channels = 6;
    let forms = [of(&film, 1), Description { config: vec![0x11, 0xb0], video: None, audio: Some(six) }];
    change(&mut film, 1, f64::from(SOUND_SCALE), sound_s, &forms);
    film
}

fn change(film: &mut Film, track: usize, scale: f64, times_s: &[f64], forms: &[Description; 2]) {
    for (number, time_s) in times_s.iter().enumerate() {
        let mut of_track = film.packets.iter_mut().map(|(packet, _)| packet);
        let first = of_track
            .find(|packet| {
                packet.track == track && packet.sample.sync && packet.sample.pts as f64 >= time_s * scale
            })
            .unwrap();
        first.change = Some(Box::new(forms[(number + 1) % 2].clone()));
    }
}

/// The address and the init segment of each segment of a playlist.
fn listed(text: &str) -> Vec<(String, String)> {
    assert!(!text.contains("DISCONTINUITY"), "times continue");
    let (mut init, mut segments) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(uri) = line.strip_prefix("#EXT-X-MAP:URI=") {
            init = uri.trim_matches('"').to_owned();
        } else if !line.starts_with('#') {
            segments.push((line.to_owned(), init.clone()));
        }
    }
    segments
}

fn starts_s(index: &TitleIndex, track: usize) -> Vec<f64> {
    let track = &index.tracks[track];
    let scale = f64::from(track.track.timescale);
    track.fragments.iter().map(|fragment| fragment.time as f64 / scale).collect()
}

#[test]
fn a_change_of_sound_begins_an_init_segment() {
    let stored = film(&[], &[5.0]).store();
    let index = &stored.index;
    assert_eq!(starts_s(index, 0), [0.0, 4.0, 6.0, 10.0], "cut at the nearest key frame");
    let sound_s = starts_s(index, 1);
    let change = &index.tracks[1].changes[0];
    assert!((sound_s[change.fragment as usize] - 5.0).abs() < 0.03, "{sound_s:?}");
    let init = index.tracks[1].init_range(2).unwrap();
    let first = index.tracks[1].fragments[change.fragment as usize];
    assert_eq!((init.end, init.end - init.start), (first.offset, u64::from(change.init_bytes)));
    let init = &stored.objects[1][init.start as usize..init.end as usize];
    let entry = init.windows(4).position(|window| window == b"mp4a").unwrap();
    assert_eq!((&init[4..8], init[entry + 21]), (&b"ftyp"[..], 6), "six channels");
    assert_eq!((index.tracks[1].init_range(3), index.tracks[1].init_range(0)), (None, None));

    for (number, _) in listed(&hls::media(index, 0).unwrap()).iter().enumerate() {
        let pictures = (format!("{}.m4s", number + 1), "init.mp4".to_owned());
        assert_eq!(listed(&hls::media(index, 0).unwrap())[number], pictures);
        assert_eq!(listed(&hls::iframes(index, 0).unwrap())[number], pictures);
    }
    let sound = listed(&hls::media(index, 1).unwrap());
    let (before, after) = sound.split_at(change.fragment as usize);
    assert!(before.iter().all(|(_, init)| init == "init.mp4"));
    assert!(!after.is_empty() && after.iter().all(|(_, init)| init == "init-2.mp4"));
}

#[test]
fn codecs_of_all_descriptions_are_listed() {
    let index = film(&[4.0, 8.0], &[]).store().index;
    let master = hls::master(&index);
    assert!(master.contains("CODECS=\"avc1.64001F,avc1.4D000D,mp4a.40.2\""), "{master}");
    assert!(master.contains("CODECS=\"avc1.64001F,avc1.4D000D\",RESOLUTION"), "{master}");
}

#[test]
fn every_change_begins_a_period() {
    let index = film(&[4.0], &[4.0, 9.9]).store().index;
    let mpd = dash_mpd_core::parse(&dash::manifest(&index)).unwrap();
    assert_eq!(mpd.periods.len(), 3, "changes at the same splice are one");
    let starts: Vec<f64> = mpd.periods.iter().map(|period| period.start.unwrap().as_secs_f64()).collect();
    assert!(
        starts[0] == 0.0 && (starts[1] - 4.011).abs() < 1e-9 && (starts[2] - 10.0).abs() < 1e-9,
        "{starts:?}"
    );
    let mut next = [1, 1];
    for (period, start_s) in mpd.periods.iter().zip(&starts) {
        assert_eq!(period.adaptations.len(), 3, "pictures, sound and subtitles");
        for (track, set) in period.adaptations[..2].iter().enumerate() {
            let template = set.representations[0].SegmentTemplate.as_ref().unwrap();
            let scale = template.timescale.unwrap() as f64;
            let offset_s = template.presentationTimeOffset.unwrap_or(0) as f64 / scale;
            assert!((offset_s - start_s).abs() < 0.001);
            assert_eq!(template.startNumber, Some(next[track]));
            let timeline = template.SegmentTimeline.as_ref().unwrap();
            let first = timeline.segments[0].t.unwrap() as f64 / scale;
            assert!((-0.1..0.2).contains(&(first - start_s)), "{first} {start_s}");
            next[track] += timeline.segments.iter().map(|s| s.r.unwrap_or(0) as u64 + 1).sum::<u64>();
        }
    }
    let fragments = |track: usize| index.tracks[track].fragments.len() as u64;
    assert_eq!(next, [fragments(0) + 1, fragments(1) + 1], "every segment is in one period");
    let set = &mpd.periods[1].adaptations[0].representations[0];
    assert_eq!((set.width, set.codecs.as_deref()), (Some(320), Some("avc1.4D000D")));
    let template = set.SegmentTemplate.as_ref().unwrap();
    assert_eq!(template.initialization.as_deref(), Some("$RepresentationID$/init-2.mp4"));
    let back = &mpd.periods[2].adaptations[1].representations[0];
    let template = back.SegmentTemplate.as_ref().unwrap();
    assert_eq!(template.initialization.as_deref(), Some("$RepresentationID$/init-3.mp4"));
}

#[test]
fn changes_between_two_key_frames_divide_the_title_once() {
    let index = film(&[], &[5.2, 5.6]).store().index;
    let sound = listed(&hls::media(&index, 1).unwrap());
    let inits: Vec<&str> = sound.iter().map(|(_, init)| init.as_str()).collect();
    assert!(inits.contains(&"init-2.mp4") && inits.contains(&"init-3.mp4"), "{inits:?}");
    assert_eq!(dash_mpd_core::parse(&dash::manifest(&index)).unwrap().periods.len(), 2);
}

#[test]
fn impossible_changes_are_refused() {
    let film = film(&[4.0], &[]);
    let mut packager = Packager::new(film.tracks.clone(), CutPolicy::default()).unwrap();
    let mut refused = film.packets.iter().find(|(packet, _)| packet.change.is_some()).unwrap().clone();
    packager.push(&film.packets[0].0, &film.packets[0].1).unwrap();
    refused.0.sample.sync = false;
    assert!(matches!(packager.push(&refused.0, &refused.1), Err(PackError::Track { track: 1, .. })));
}

/// The bytes of the whole file.
fn whole(stored: &Stored, tracks: &[usize]) -> Vec<u8> {
    let file = progressive::layout(&stored.index, tracks).unwrap();
    stored.read(&file, 0..file.bytes())
}

fn box_at<'a>(bytes: &'a [u8], name: &[u8; 4]) -> &'a [u8] {
    let at = bytes.windows(4).position(|window| window == name).unwrap();
    let size = u32::from_be_bytes(bytes[at - 4..at].try_into().unwrap()) as usize;
    &bytes[at + 4..at - 4 + size]
}

#[test]
fn the_file_has_each_description_once() {
    let stored = film(&[], &[3.0, 9.0]).store();
    let bytes = whole(&stored, &[1]);
    let stsd = box_at(&bytes, b"stsd");
    assert_eq!(stsd[4..8], 2u32.to_be_bytes(), "the third is like the first");
    let stsc = box_at(&bytes, b"stsc");
    let entries: Vec<(u32, u32)> = stsc[8..]
        .chunks(12)
        .map(|run| {
            let number = |at: usize| u32::from_be_bytes(run[at..at + 4].try_into().unwrap());
            (number(0), number(8))
        })
        .collect();
    let track = &stored.index.tracks[1];
    for (place, _) in track.fragments.iter().enumerate() {
        let entry = entries.iter().rfind(|(chunk, _)| *chunk as usize <= place + 1).unwrap().1;
        let changed = track.changes.iter().filter(|change| change.fragment as usize <= place).count();
        assert_eq!(entry as usize, 1 + changed % 2, "chunk {place}");
    }
}

#[test]
fn a_file_with_several_descriptions_is_read() {
    let film = film(&[], &[3.0, 9.0]);
    let bytes = whole(&film.store(), &[1]);
    let mut demux = reel_media::open(Box::new(Memory(bytes))).unwrap();
    assert_eq!(demux.warnings(), [""; 0]);
    let read = drain(demux.as_mut()).unwrap();
    let source = film.of(1);
    assert_eq!(read.len(), source.len());
    for (read, (packet, data)) in read.iter().zip(source) {
        assert_eq!((&read.packet.change, &read.data), (&packet.change, data));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn wherever_tracks_change(
        pictures in proptest::collection::btree_set(1u32..6, 0..4),
        sound in proptest::collection::btree_set(1u32..115, 0..8),
        fragment_min_ms in prop_oneof![Just(500u32), Just(4000), Just(60_000)],
    ) {
        let pictures: Vec<f64> = pictures.iter().map(|n| f64::from(*n) * 2.0).collect();
        let sound: Vec<f64> = sound.iter().map(|n| f64::from(*n) / 10.0).collect();
        let film = film(&pictures, &sound);
        let stored = film.store_with(CutPolicy { fragment_min_ms, ..CutPolicy::default() });
        let index = TitleIndex::decode(&stored.index.encode().unwrap()).unwrap();
        prop_assert_eq!(index.tracks[0].changes.len(), pictures.len());
        prop_assert_eq!(index.tracks[1].changes.len(), sound.len());
        for (number, track) in index.tracks.iter().enumerate() {
            if track.track.kind == TrackKind::Subtitle { continue }
            prop_assert_eq!(track.bytes, stored.objects[number].len() as u64);
            let segments = listed(&hls::media(&index, number).unwrap());
            prop_assert_eq!(segments.len(), track.fragments.len());
            for (place, (_, init)) in segments.iter().enumerate() {
                let changed = track.changes.iter().filter(|change| change.fragment as usize <= place).count();
                let name = if changed == 0 { "init.mp4".to_owned() } else { format!("init-{}.mp4", changed + 1) };
                prop_assert_eq!(init, &name);
            }
            for number in 2..track.changes.len() + 2 {
                let range = track.init_range(number).unwrap();
                prop_assert_eq!(&stored.objects[usize::from(track.track.kind == TrackKind::Audio)]
                    [range.start as usize + 4..range.start as usize + 8], b"ftyp");
            }
        }
        let channels = if sound.is_empty() { 2 } else { 6 };
        let master = hls::master(&index);
        prop_assert!(master.contains(&format!(",CHANNELS=\"{channels}\"")), "{}", master);
        let mpd = dash_mpd_core::parse(&dash::manifest(&index)).unwrap();
        // Pictures can always be divided where they change.
        prop_assert!(mpd.periods.len() > pictures.len() && mpd.periods.len() <= 1 + pictures.len() + sound.len());
        for period in &mpd.periods {
            prop_assert_eq!(period.adaptations.len(), 3);
        }
    }
}
