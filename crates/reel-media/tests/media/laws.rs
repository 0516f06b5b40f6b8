//! Properties of every film: nothing is lost, times are exact, borders are where the policy says,
//! and every number in the index is right.
#![allow(clippy::unwrap_used, reason = "a test stops where it cannot continue")]

use crate::film;
use crate::film::{Film, audio, frames, samples, sound, video};
use crate::isobmff;
use proptest::prelude::*;
use reel_media::cmaf::CutPolicy;
use reel_media::{Change, Chapter, Hdr, Packet, Sample, TitleIndex, Track, TrackKind, Video, progressive};

/// (timescale, ticks of a frame)
const CLOCKS: [(u32, u32); 5] =
    [(12_800, 512), (30_000, 1001), (1000, 40), (90_000, 1500), (1_000_000_000, 41_708_333)];

prop_compose! {
    pub(crate) fn any_film()(
        clock in 0..CLOCKS.len(),
        count in 1..700usize,
        gop in 1..200usize,
        b_frames: bool,
        late_video in prop_oneof![Just(0i64), -3..40i64],
        sounds in prop::collection::vec((1..900usize, -2000..60_000i64), 0..3),
        order in prop_oneof![Just(0), Just(1), Just(2)],
        with_video in prop::bool::weighted(0.8),
    ) -> Film {
        let mut tracks = Vec::new();
        let mut lanes = Vec::new();
        if with_video || sounds.is_empty() {
            let (timescale, ticks) = CLOCKS[clock];
            let late = late_video * i64::from(ticks);
            tracks.push(video(timescale));
            let times = frames(count, ticks, gop, b_frames).into_iter();
            lanes.push(samples(0, times.map(|(dts, pts, duration, sync)| (dts + late, pts + late, duration, sync))));
        }
        for (count, start) in sounds {
            lanes.push(samples(tracks.len(), sound(count, 1024, start)));
            tracks.push(audio(48_000, start.min(0).unsigned_abs() as u32));
        }
        let mut film = Film::new(tracks, lanes);
        match order {
            // One track after the other, in either order: the worst possible interleaving.
            0 => film.packets.sort_by_key(|(packet, _)| packet.track),
            1 => film.packets.sort_by_key(|(packet, _)| std::cmp::Reverse(packet.track)),
            _ => {}
        }
        film
    }
}

/// As some writers of fragments make them: each fifth picture has the time of the one before it.
#[test]
fn pictures_at_one_time_are_shown_one_after_the_other() {
    let mut film = Film::usual();
    let mut before = None;
    for (number, (packet, _)) in film.packets.iter_mut().filter(|(packet, _)| packet.track == 0).enumerate() {
        if number % 5 == 4 {
            packet.sample.pts = before.expect("a picture before it");
        }
        before = Some(packet.sample.pts);
    }
    let (packaged, objects) = film.package(small()).expect("a valid film");
    assert!(
        packaged.warnings.iter().any(|text| text.contains("track 1: 60 pictures")),
        "{:?}",
        packaged.warnings
    );
    let seen: Vec<_> = isobmff::fragments(&objects[0]).into_iter().flatten().collect();
    for (seen, (packet, data)) in seen.iter().zip(film.of(0)) {
        let moved = seen.pts - packet.sample.pts;
        assert!((0..=1).contains(&moved) && &seen.data == data, "moved by {moved}");
    }
    let mut times: Vec<i64> = seen.iter().map(|sample| sample.pts).collect();
    times.sort_unstable();
    times.dedup();
    assert_eq!(times.len(), 300);
}

/// What is put where sound is missing, with two channels.
const SILENCE: [u8; 6] = [0x21, 0, 0, 0, 0, 0x1c];

/// The samples of a track as they are packaged, without silence: a first picture that is late is
/// shown from zero on, and a last one until the end of the title: if that is far away, the last key
/// frame follows some times just before it.
fn packaged(film: &Film, number: usize) -> Vec<(Packet, Vec<u8>)> {
    let mut all: Vec<_> = film.of(number).into_iter().cloned().collect();
    if film.tracks[number].kind != TrackKind::Video {
        return all;
    }
    let timescale = film.tracks[number].timescale;
    // Ends in the clock of the track, rounded down.
    let end_of = |(packet, _): &(Packet, Vec<u8>)| {
        let end = i128::from(packet.sample.pts) + i128::from(packet.sample.duration);
        (end * i128::from(timescale) / i128::from(film.tracks[packet.track].timescale)) as i64
    };
    let end = film.packets.iter().map(end_of).max().unwrap();
    let missing = end - all.iter().map(end_of).max().unwrap();
    let first = &mut all[0].0.sample;
    let late = first.pts;
    if late > i64::from(timescale) * 200 / 1000 {
        (first.dts, first.pts, first.duration) = (first.dts - late, 0, first.duration + late as u32);
    }
    let (mut key, data) = all.iter().rfind(|(packet, _)| packet.sample.sync).unwrap().clone();
    let first = end - i64::from(timescale) * 50 / 1000;
    let last = &mut all.last_mut().unwrap().0.sample;
    // Durations have 32 bits.
    let until = u32::try_from(end - last.pts);
    if missing > 5 * i64::from(timescale) && first - key.sample.dts <= i64::from(u32::MAX) {
        last.duration = (first - last.pts) as u32;
        let (dts, duration) = (last.dts + i64::from(last.duration), timescale.div_ceil(1000));
        for later in (0..17).map(|n| n * i64::from(duration)) {
            key.sample = Sample { dts: dts + later, pts: first + later, duration, sync: true };
            all.push((key.clone(), data.clone()));
        }
    } else if missing * 2 > i64::from(timescale)
        && let Ok(duration) = until
    {
        last.duration = duration;
    }
    all
}

pub(crate) fn small() -> CutPolicy {
    CutPolicy { ahead_max_bytes: 1 << 30, ..CutPolicy::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn samples_are_unchanged_by_packaging(film in any_film()) {
        let stored = film.store_with(small());
        for (number, track) in stored.index.tracks.iter().enumerate() {
            let expected = packaged(&film, number);
            let seen: Vec<_> = isobmff::fragments(&stored.objects[number]).into_iter().flatten().collect();
            prop_assert_eq!(seen.len() as u64, track.samples);
            let seen: Vec<_> = seen.into_iter().filter(|sample| sample.data != SILENCE).collect();
            prop_assert_eq!(seen.len(), expected.len());
            let shift = seen[0].dts - expected[0].0.sample.dts;
            for (seen, (packet, data)) in seen.iter().zip(&expected) {
                prop_assert_eq!(seen.pts, packet.sample.pts);
                prop_assert_eq!(seen.dts - shift, packet.sample.dts);
                prop_assert_eq!(seen.duration, packet.sample.duration);
                prop_assert_eq!(seen.sync, packet.sample.sync);
                prop_assert_eq!(&seen.data, data);
            }
        }
    }

    #[test]
    fn the_progressive_file_holds_the_same(film in any_film(), cut in any::<[prop::sample::Index; 2]>()) {
        let stored = film.store_with(small());
        let all: Vec<usize> = (0..stored.index.tracks.len()).collect();
        let file = progressive::layout(&stored.index, &all).expect("a layout");
        let bytes = stored.read(&file, 0..file.bytes());
        prop_assert_eq!(bytes.len() as u64, file.bytes());
        for (number, seen) in isobmff::classic(&bytes).into_iter().enumerate() {
            let expected = packaged(&film, number);
            let seen: Vec<_> = seen.into_iter().filter(|sample| sample.data != SILENCE).collect();
            prop_assert_eq!(seen.len(), expected.len());
            for (seen, (packet, data)) in seen.iter().zip(&expected) {
                // Edits count in movie ticks: nanoseconds beside other clocks are rounded to some
                // 20 microseconds.
                let rounding = u64::from(film.tracks[number].timescale / 40_000);
                prop_assert!(seen.pts.abs_diff(packet.sample.pts) <= rounding, "{seen:?}");
                prop_assert_eq!(seen.sync, packet.sample.sync);
                prop_assert_eq!((seen.duration, &seen.data), (packet.sample.duration, data));
            }
        }
        let (a, b) = (cut[0].index(bytes.len() + 1), cut[1].index(bytes.len() + 1));
        let range = a.min(b)..a.max(b);
        prop_assert_eq!(stored.read(&file, range.start as u64..range.end as u64), &bytes[range]);
    }

    #[test]
    fn borders_are_where_the_policy_says(film in any_film()) {
        let stored = film.store_with(small());
        let seconds = |ticks: i64, scale: u32| ticks as f64 / f64::from(scale);
        let scale_0 = film.tracks[0].timescale;
        let leading = isobmff::fragments(&stored.objects[0]);
        // The last key frame may be repeated at the end of the title.
        let last = film.of(0).iter().map(|(p, _)| p.sample.pts).max().unwrap();
        for pair in leading.windows(2) {
            prop_assert!(pair[1][0].sync);
            let length = pair[1][0].pts - pair[0][0].pts;
            prop_assert!(length >= 4 * i64::from(scale_0), "a fragment of {length} ticks");
            // No earlier key frame would have been enough.
            let missed = pair[0].iter().skip(1).find(|s| s.sync && s.pts <= last && s.pts - pair[0][0].pts >= 4 * i64::from(scale_0));
            prop_assert!(missed.is_none());
        }
        let borders: Vec<f64> = leading.iter().skip(1).map(|f| seconds(f[0].pts, scale_0)).collect();
        let end = film.of(0).iter().map(|(p, _)| p.sample.pts + i64::from(p.sample.duration)).max().unwrap();
        for number in 1..film.tracks.len() {
            let scale = film.tracks[number].timescale;
            for pair in isobmff::fragments(&stored.objects[number]).windows(2) {
                let (before, start) = (seconds(pair[0].last().unwrap().pts, scale), seconds(pair[1][0].pts, scale));
                let at_border = borders.iter().any(|border| before < *border && *border <= start);
                prop_assert!(at_border || start >= seconds(end, scale_0), "cut between {before} and {start}");
            }
            // And at every border that the track crosses.
            let starts: Vec<f64> =
                isobmff::fragments(&stored.objects[number]).iter().map(|f| seconds(f[0].pts, scale)).collect();
            let all: Vec<f64> = film.of(number).iter().map(|(p, _)| seconds(p.sample.pts, scale)).collect();
            for border in &borders {
                if let Some(first) = all.iter().find(|t| *t >= border) {
                    prop_assert!(starts.contains(first), "no cut at {border}");
                }
            }
        }
    }

    #[test]
    fn the_index_is_right_and_round_trips(film in any_film(), round_ns in 1_000_000..3_000_000_000u64) {
        let stored = film.store_with(small());
        let index = &stored.index;
        let encoded = index.encode().expect("an index within the limits");
        prop_assert_eq!(&TitleIndex::decode(&encoded).expect("what was encoded"), index);
        for (number, track) in index.tracks.iter().enumerate() {
            let object = &stored.objects[number];
            let fragments = isobmff::fragments(object);
            prop_assert_eq!(track.bytes, object.len() as u64);
            prop_assert_eq!(fragments.len(), track.fragments.len());
            for (i, (samples, entry)) in fragments.iter().zip(&track.fragments).enumerate() {
                let range = track.segment_range(i + 1).unwrap();
                let bytes = &object[range.start as usize..range.end as usize];
                let found = isobmff::boxes(bytes);
                prop_assert_eq!(found.iter().map(|b| b.0).collect::<Vec<_>>(), vec![*b"moof", *b"mdat"]);
                prop_assert_eq!(found[1].2, entry.header_bytes as usize);
                prop_assert_eq!(entry.key_bytes as usize, found[1].2 + samples[0].data.len());
                prop_assert_eq!(entry.samples as usize, samples.len());
                let earliest = samples.iter().map(|s| s.pts).min().unwrap();
                prop_assert_eq!(entry.time as i64, earliest.max(0));
                prop_assert_eq!(track.segment_at(entry.time), i + 1);
            }
            let demand = index.demand(number, round_ns).unwrap();
            prop_assert_eq!(demand.iter().map(|b| u64::from(*b)).sum::<u64>(), track.bytes);
            prop_assert_eq!(demand.len() as u64, track.nanoseconds(track.end).div_ceil(round_ns).max(1));
        }
    }

    #[test]
    fn no_bytes_make_the_index_reader_panic(
        film in any_film(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end in any::<prop::sample::Index>(),
        repair_sums: bool,
    ) {
        let stored = film.store_with(small());
        let mut bytes = stored.index.encode().unwrap();
        let whole = bytes.clone();
        for (at, value) in &edits {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        if repair_sums && bytes.len() > 4 {
            // With a correct checksum, so that the checks after it are reached.
            let end = bytes.len() - 4;
            let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[..end]) as u32;
            bytes[end..].copy_from_slice(&sum.to_le_bytes());
        }
        if let Ok(index) = TitleIndex::decode(&bytes) {
            if !repair_sums { prop_assert_eq!(&bytes, &whole); }
            // What is accepted can be used.
            // An index of an older version is written in the newest one.
            let encoded = index.encode().unwrap();
            if encoded[..12] == bytes[..12] { prop_assert_eq!(&encoded, &bytes); }
            prop_assert_eq!(&TitleIndex::decode(&encoded).unwrap(), &index);
            let _ = (reel_media::hls::master(&index), reel_media::dash::manifest(&index));
            for track in 0..index.tracks.len() {
                let _ = (reel_media::hls::media(&index, track), reel_media::hls::iframes(&index, track));
            }
            let _ = progressive::layout(&index, &progressive::default_selection(&index));
        }
    }

    #[test]
    fn random_bytes_are_not_an_index(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(TitleIndex::decode(&bytes).is_err());
    }
}

#[test]
fn the_leader_is_the_first_video() {
    let film = Film::usual();
    let stored = film.store();
    let kinds: Vec<TrackKind> = stored.index.tracks.iter().map(|track| track.track.kind).collect();
    assert_eq!(kinds, [TrackKind::Video, TrackKind::Audio, TrackKind::Subtitle]);
    let counts: Vec<usize> = stored.index.tracks.iter().map(|track| track.fragments.len()).collect();
    assert_eq!(counts, [3, 3, 0]);
    assert_eq!(stored.index.duration_ns, 12_010_666_667);
    // The warm-up is in the object, but not in the presentation.
    assert_eq!((stored.index.tracks[1].media_offset, stored.index.tracks[1].start), (1024, 0));
}

#[test]
fn sound_ahead_of_the_pictures_is_written_early() {
    let lanes = vec![samples(0, frames(2000, 512, 50, false)), samples(1, sound(8000, 1024, 0))];
    let mut film = Film::new(vec![video(12_800), audio(48_000, 0)], lanes);
    film.packets.sort_by_key(|(packet, _)| std::cmp::Reverse(packet.track));
    let policy = CutPolicy { ahead_max_bytes: 40_000, ..CutPolicy::default() };
    let mut packager = reel_media::cmaf::Packager::new(film.tracks.clone(), policy).unwrap();
    let (mut given, mut taken) = (0, 0);
    for (packet, data) in &film.packets {
        packager.push(packet, data).unwrap();
        given += data.len();
        taken += packager.take().iter().map(|piece| piece.bytes.len()).sum::<usize>();
        assert!(given < taken + 60_000, "{given} bytes in, {taken} out");
    }
    let stored = film.store_with(policy);
    let longest = stored.index.tracks[1].fragments.iter().map(|f| f.duration).max().unwrap();
    assert!(longest < 48_000 * 21 / 5 + 1024 * 2, "{longest}");
    let seen: usize = isobmff::fragments(&stored.objects[1]).iter().map(Vec::len).sum();
    assert_eq!(seen, 8000);
}

#[test]
fn many_tracks_share_the_memory() {
    let lanes = (1..=8).map(|track| samples(track, sound(8000, 1024, 0)));
    let mut film = Film::new(
        std::iter::once(video(12_800)).chain((0..8).map(|_| audio(48_000, 0))).collect(),
        std::iter::once(samples(0, frames(50, 512, 50, false))).chain(lanes).collect(),
    );
    film.packets.sort_by_key(|(packet, _)| packet.track == 0);
    let policy = CutPolicy { ahead_max_bytes: 160_000, ..CutPolicy::default() };
    let mut packager = reel_media::cmaf::Packager::new(film.tracks.clone(), policy).unwrap();
    let (mut given, mut taken) = (0, 0);
    for (packet, data) in &film.packets {
        packager.push(packet, data).unwrap();
        given += data.len();
        taken += packager.take().iter().map(|piece| piece.bytes.len()).sum::<usize>();
        assert!(given < taken + 160_000, "{given} bytes in, {taken} out");
    }
}

#[test]
fn sound_longer_than_the_pictures_continues_in_fragments() {
    let lanes = vec![samples(0, frames(50, 512, 50, false)), samples(1, sound(2000, 1024, 0))];
    let stored = Film::new(vec![video(12_800), audio(48_000, 0)], lanes).store();
    let fragments = &stored.index.tracks[1].fragments;
    assert_eq!(fragments.len(), 12);
    assert_eq!(fragments[1].time, 96_256, "the first sample after the last picture");
    assert!(fragments.iter().all(|f| f.duration < 5 * 48_000));
}

#[test]
fn a_group_of_pictures_beyond_the_limits_is_refused() {
    let film = Film::new(vec![video(12_800)], vec![samples(0, frames(1000, 512, 1000, false))]);
    let policy = CutPolicy { fragment_max_ms: 30_000, ..CutPolicy::default() };
    let error = film.package(policy).unwrap_err().to_string();
    assert!(error.contains("no key frame follows the one at 0 s within 30 s"), "{error}");
    assert!(error.contains("-g 96"), "{error}");
    let policy = CutPolicy { fragment_max_bytes: 20_000, ..CutPolicy::default() };
    let error = film.package(policy).unwrap_err().to_string();
    assert!(error.contains("limits: 600 s, 20000 bytes"), "{error}");
    // More key frames than needed end a fragment early when it grows large.
    let film = Film::new(vec![video(12_800)], vec![samples(0, frames(1000, 512, 10, false))]);
    let stored = film.store_with(CutPolicy { fragment_max_bytes: 4000, ..CutPolicy::default() });
    assert!(stored.index.tracks[0].fragments.len() > 15);
}

#[test]
fn broken_samples_are_refused_with_the_reason() {
    let refusal = |times: Vec<(i64, i64, u32, bool)>| {
        let film = Film { tracks: vec![video(1000)], packets: samples(0, times) };
        film.package(CutPolicy::default()).unwrap_err().to_string()
    };
    assert!(refusal(vec![(0, 0, 40, false)]).contains("does not start with a key frame"));
    assert!(refusal(vec![(40, 40, 40, true), (0, 80, 40, false)]).contains("goes from 40 to 0"));
    assert!(refusal(vec![(0, 0, 40, true), (1 << 34, 1 << 34, 40, true)]).contains("goes from 0 to"));
    assert!(refusal(vec![(0, 1 << 34, 40, true)]).contains("further away"));
    assert!(refusal(vec![(i64::MIN, 0, 40, true)]).contains("more than the limit"));
    assert!(refusal(vec![(0, i64::MAX, 40, true)]).contains("more than the limit"));

    let stray = Film { tracks: vec![video(1000)], packets: samples(3, [(0, 0, 40, true)]) };
    assert!(stray.package(CutPolicy::default()).unwrap_err().to_string().contains("track 4"));
    let mut unscaled = video(0);
    assert!(Film { tracks: vec![unscaled.clone()], packets: vec![] }.package(CutPolicy::default()).is_err());
    unscaled.timescale = 1;
    unscaled.video = None;
    assert!(Film { tracks: vec![unscaled], packets: vec![] }.package(CutPolicy::default()).is_err());
}

/// Later than 64 bits of nanoseconds can express, though no step is longer than a sample may last.
#[test]
fn times_of_centuries_are_refused() {
    let ticks = i32::MAX as u32;
    let times = || frames(12, ticks, 1, false);
    let cues = samples(0, times());
    for (track, packets) in
        [(video(1), samples(0, times())), (Track { timescale: 1, ..film::subtitle() }, cues)]
    {
        let film = Film { tracks: vec![track], packets };
        let refusal = film.package(CutPolicy::default()).unwrap_err().to_string();
        assert!(
            refusal.contains("time in seconds is 2147483647, more than the limit of 31622400"),
            "{refusal}"
        );
    }
}

/// Some writers give the last picture no duration. A manifest must not state a segment without one.
#[test]
fn no_segment_begins_with_a_last_sample_of_no_duration() {
    let mut times = frames(101, 40, 1, false);
    times.last_mut().unwrap().2 = 0;
    let film = Film::new(vec![video(1000)], vec![samples(0, times)]);
    let stored = film.store();
    let durations: Vec<_> =
        stored.index.tracks[0].fragments.iter().map(|f| (f.duration, f.samples)).collect();
    assert_eq!(durations, [(4000, 101)]);
}

#[test]
fn tracks_without_samples_have_no_index() {
    let film = Film::new(vec![video(1000), audio(48_000, 0)], vec![samples(0, frames(10, 40, 10, false))]);
    let (packaged, objects) = film.package(CutPolicy::default()).unwrap();
    assert_eq!(packaged.tracks.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    assert!(objects[1].is_empty());
}

#[test]
fn the_same_film_gives_the_same_bytes() {
    let (a, b) = (Film::usual().store(), Film::usual().store());
    assert_eq!((a.objects, a.tables, a.index), (b.objects, b.tables, b.index));
}

/// Titles that were stored before chapters and changes existed stay readable.
#[test]
fn an_index_of_version_1_is_read() {
    let index = TitleIndex::decode(include_bytes!("stored/index-version-1")).expect("an index");
    assert_eq!(index, Film::usual().store().index);
}

#[test]
fn changes_and_chapters_are_kept() {
    let mut index = Film::usual().store().index;
    index.chapters = vec![
        Chapter { start_ns: 0, name: String::new() },
        Chapter { start_ns: 7, name: "The \u{e9}nd".to_owned() },
    ];
    let hdr = Hdr { mastering: Some([3; 24]), light: Some((1000, 400)), dolby_vision: Some([5; 24]) };
    let track = &mut index.tracks[0];
    let video = Video { hdr, ..track.track.video.clone().expect("pictures") };
    track.changes =
        vec![Change { fragment: 2, init_bytes: 9, config: vec![1, 2], video: Some(video), audio: None }];
    track.bytes += 9;
    track.fragments.iter_mut().skip(2).for_each(|fragment| fragment.offset += 9);
    let encoded = index.encode().expect("an index within the limits");
    assert_eq!(TitleIndex::decode(&encoded).as_ref(), Ok(&index));
    let track = &index.tracks[0];
    let demand = index.demand(0, 1_000_000_000).expect("a track");
    assert_eq!(demand.iter().map(|bytes| u64::from(*bytes)).sum::<u64>(), track.bytes);

    for fragment in [0, track.fragments.len() as u32] {
        let mut wrong = index.clone();
        wrong.tracks[0].changes[0].fragment = fragment;
        assert!(wrong.encode().is_err(), "a change at fragment {fragment}");
    }
    index.chapters.swap(0, 1);
    assert!(index.encode().is_err(), "chapters out of order");
}
