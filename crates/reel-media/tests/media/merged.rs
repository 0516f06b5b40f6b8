//! Merged titles: the samples of both parts with their bytes and times, wherever they are read.
#![allow(clippy::unwrap_used, reason = "a test stops where it cannot continue")]

use crate::film::{Film, Stored};
use crate::isobmff;
use crate::laws::{any_film, small};
use proptest::prelude::*;
use reel_media::index::{IndexError, MergeError, MergedPart};
use reel_media::progressive::{self, ObjectRef, Part, VirtualFile};
use reel_media::{Chapter, TitleIndex, TrackIndex, TrackKind, dash, hls};

/// The film, stored. `mark` changes all bytes of its samples: those of two films differ.
fn stored(mut film: Film, mark: u8) -> Stored {
    film.packets.iter_mut().for_each(|(_, data)| data.iter_mut().for_each(|byte| *byte ^= mark));
    film.store_with(small())
}

/// A merged title whose parts are in memory.
struct Merged<'a> {
    pictures: &'a Stored,
    sound: &'a Stored,
    index: TitleIndex,
    objects: Vec<(MergedPart, u32)>,
}

impl<'a> Merged<'a> {
    fn new(pictures: &'a Stored, sound: &'a Stored) -> Result<Self, MergeError> {
        let merged = TitleIndex::merged(&pictures.index, &sound.index)?;
        Ok(Self { pictures, sound, index: merged.index, objects: merged.objects })
    }

    fn part(&self, part: MergedPart) -> &'a Stored {
        if part == MergedPart::Pictures { self.pictures } else { self.sound }
    }

    /// The part that a track is of, and its number there.
    fn origin(&self, track: &TrackIndex) -> (&'a Stored, usize) {
        let (part, object) = self.objects[track.object as usize];
        let stored = self.part(part);
        let own = stored.index.tracks.iter().position(|own| own.object == object);
        (stored, own.expect("a track of the part"))
    }

    fn object(&self, object: ObjectRef) -> &'a [u8] {
        match object {
            ObjectRef::Tables(0) => &self.pictures.tables,
            ObjectRef::Tables(_) => &self.sound.tables,
            ObjectRef::Track(number) => {
                let (part, object) = self.objects[number as usize];
                &self.part(part).objects[object as usize]
            }
        }
    }

    fn read(&self, file: &VirtualFile) -> Vec<u8> {
        let bytes = |part: &Part| match part {
            Part::Bytes(bytes, range) => bytes[range.clone()].to_vec(),
            Part::Object { object, range } => {
                self.object(*object)[range.start as usize..range.end as usize].to_vec()
            }
        };
        file.parts().iter().flat_map(bytes).collect()
    }
}

/// All of a track but where its objects are.
fn without_places(track: &TrackIndex) -> TrackIndex {
    let mut track = track.clone();
    (track.object, track.tables.object) = (0, 0);
    track
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn a_merged_title_has_exactly_the_samples_of_its_parts(a in any_film(), b in any_film()) {
        let clocks: Vec<u32> = a.tracks.iter().chain(&b.tracks).map(|track| track.timescale).collect();
        let (a, b) = (stored(a, 0), stored(b, 0x80));
        let count = |index: &TitleIndex, kind| index.of_kind(kind).count();
        let merged = match Merged::new(&a, &b) {
            Ok(merged) => merged,
            Err(error) => {
                let expected = if count(&a.index, TrackKind::Video) == 0 {
                    MergeError::NoPictures
                } else {
                    prop_assert_eq!(count(&b.index, TrackKind::Audio), 0);
                    MergeError::NoSound
                };
                prop_assert_eq!(error, expected);
                return Ok(());
            }
        };
        prop_assert_eq!(count(&merged.index, TrackKind::Video), count(&a.index, TrackKind::Video));
        prop_assert_eq!(count(&merged.index, TrackKind::Audio), count(&b.index, TrackKind::Audio));
        for (number, track) in merged.index.tracks.iter().enumerate() {
            let (part, own) = merged.origin(track);
            let expected = if track.track.kind == TrackKind::Audio { &b } else { &a };
            prop_assert!(std::ptr::eq(part, expected), "track {} is of the other part", number);
            prop_assert_eq!(track.object as usize, number);
            prop_assert_eq!(without_places(track), without_places(&part.index.tracks[own]));
        }
        let numbers = progressive::default_selection(&merged.index);
        let file = merged.read(&progressive::layout(&merged.index, &numbers).unwrap());
        let seen = isobmff::classic(&file);
        prop_assert_eq!(seen.len(), numbers.len());
        for (number, seen) in numbers.into_iter().zip(seen) {
            let track = &merged.index.tracks[number];
            let (part, own) = merged.origin(track);
            let alone = progressive::layout(&part.index, &[own]).unwrap();
            let alone = isobmff::classic(&part.read(&alone, 0..alone.bytes())).remove(0);
            prop_assert_eq!(seen.len(), alone.len());
            // Edits count in ticks of the movie, which cannot be those of all clocks if one of them
            // counts nanoseconds.
            let rounding = if clocks.contains(&1_000_000_000) { track.track.timescale / 40_000 } else { 0 };
            for (seen, alone) in seen.iter().zip(&alone) {
                prop_assert!(seen.pts.abs_diff(alone.pts) <= u64::from(rounding), "{:?} for {:?}", seen, alone);
                prop_assert_eq!((seen.dts, seen.duration, seen.sync), (alone.dts, alone.duration, alone.sync));
                prop_assert_eq!(&seen.data, &alone.data);
            }
        }
    }

    #[test]
    fn a_seek_gives_each_part_at_that_time(a in any_film(), b in any_film(), at in 0..40_000_u64) {
        let (a, b) = (stored(a, 0), stored(b, 0x80));
        let Ok(merged) = Merged::new(&a, &b) else { return Ok(()) };
        for track in &merged.index.tracks {
            let ticks = at * u64::from(track.track.timescale) / 1000;
            let number = track.segment_at(ticks);
            let fragment = &track.fragments[number - 1];
            let inside = (track.start..track.end).contains(&ticks);
            prop_assert_eq!(inside, (fragment.time..fragment.time + fragment.duration).contains(&ticks));
            let range = track.segment_range(number).unwrap();
            let range = range.start as usize..range.end as usize;
            let segment = &merged.object(ObjectRef::Track(track.object))[range];
            let (part, own) = merged.origin(track);
            let expected = isobmff::fragments(&part.objects[own]).swap_remove(number - 1);
            let earliest = expected.iter().map(|sample| sample.pts).min().unwrap();
            prop_assert_eq!(fragment.time as i64, earliest.max(0));
            let boxes = isobmff::boxes(segment);
            prop_assert_eq!(boxes.iter().map(|found| found.0).collect::<Vec<_>>(), vec![*b"moof", *b"mdat"]);
            let samples: Vec<u8> = expected.into_iter().flat_map(|sample| sample.data).collect();
            prop_assert_eq!(boxes[1].1, &samples);
        }
    }
}

#[test]
fn the_longer_part_gives_the_duration_and_the_first_one_its_chapters() {
    let film = |seconds: usize| {
        let lanes = vec![
            crate::film::samples(0, crate::film::frames(25 * seconds, 512, 25, true)),
            crate::film::samples(1, crate::film::sound(48_000 * seconds / 1024, 1024, 0)),
            crate::film::cue(2, "Bonjour"),
        ];
        let tracks = vec![crate::film::video(12_800), crate::film::audio(48_000, 0), crate::film::subtitle()];
        let mut stored = stored(Film::new(tracks, lanes), 0);
        stored.index.chapters = vec![Chapter { start_ns: 0, name: format!("{seconds} s") }];
        stored
    };
    let (short, long) = (film(6), film(16));
    for (pictures, sound) in [(&short, &long), (&long, &short)] {
        let merged = Merged::new(pictures, sound).unwrap();
        let ends = [(pictures, 0), (sound, 1)].map(|(part, number)| {
            let track = &part.index.tracks[number];
            track.nanoseconds(track.end)
        });
        assert_eq!(merged.index.duration_ns, ends[0].max(ends[1]));
        assert_eq!(merged.index.chapters, pictures.index.chapters);
        let kinds: Vec<TrackKind> = merged.index.tracks.iter().map(|track| track.track.kind).collect();
        use TrackKind::{Audio, Subtitle, Video};
        assert_eq!(kinds, [Video, Audio, Subtitle, Subtitle]);
        let text = hls::master(&merged.index);
        assert!(text.contains("NAME=\"Sous-titres 'complets' (2)\""), "{text}");
        assert!(dash::manifest(&merged.index).contains("<MPD"));
        // It names objects of two titles, and is stored nowhere.
        let refused = merged.index.encode();
        assert!(matches!(refused, Err(IndexError::Contradiction { track: 1, .. })), "{refused:?}");
    }
}

#[test]
fn tracks_of_both_parts_are_within_the_limit_of_a_title() {
    let mut a = stored(Film::usual(), 0);
    let text = a.index.tracks.iter().position(|track| track.track.kind == TrackKind::Subtitle).unwrap();
    let text = a.index.tracks[text].clone();
    a.index.tracks.resize(150, text);
    let error = TitleIndex::merged(&a.index, &a.index).unwrap_err();
    assert!(matches!(&error, MergeError::Index(IndexError::Limit { .. })), "{error}");
}
