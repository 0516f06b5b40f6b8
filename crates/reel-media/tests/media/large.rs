//! Progressive files beyond 4 GiB, without the gigabytes: the index of a long film whose objects
//! exist only by their sizes.
#![allow(clippy::unwrap_used, reason = "a test stops where it cannot continue")]

use crate::film::{Film, audio, frames, samples, sound, video};
use crate::isobmff;
use reel_media::progressive::{self, ObjectRef, Part};
use reel_media::{TitleIndex, TrackIndex};

/// Makes the fragments `factor` times as large.
fn inflate(track: &mut TrackIndex, factor: u32) {
    let mut offset = u64::from(track.init_bytes);
    for fragment in &mut track.fragments {
        fragment.offset = offset;
        fragment.bytes *= factor;
        offset += u64::from(fragment.bytes);
    }
    track.bytes = offset;
}

fn long_film(factor: u32) -> (TitleIndex, Vec<u8>) {
    let film = Film::new(
        vec![video(12_800), audio(48_000, 1024)],
        vec![samples(0, frames(20_000, 512, 100, true)), samples(1, sound(37_500, 1024, -1024))],
    );
    let mut stored = film.store();
    inflate(&mut stored.index.tracks[0], factor);
    (stored.index, stored.tables)
}

#[test]
fn chunk_offsets_grow_to_64_bits() {
    for (factor, wide) in [(1, false), (5_000, false), (12_000, true)] {
        let (index, tables) = long_film(factor);
        assert_eq!(TitleIndex::decode(&index.encode().unwrap()).unwrap(), index);
        let file = progressive::layout(&index, &[0, 1]).unwrap();
        assert_eq!(file.bytes() > u64::from(u32::MAX), wide, "{} bytes", file.bytes());

        // Everything except the media is small: reads it, and finds where it places the media.
        let head: Vec<u8> = file
            .parts()
            .iter()
            .take_while(|part| !matches!(part, Part::Object { object: ObjectRef::Track(_), .. }))
            .flat_map(|part| match part {
                Part::Bytes(bytes, range) => bytes[range.clone()].to_vec(),
                Part::Object { range, .. } => tables[range.start as usize..range.end as usize].to_vec(),
            })
            .collect();
        let mdat_header = if wide { 16 } else { 8 };
        let head_boxes = isobmff::boxes(&head[..head.len() - mdat_header]);
        assert_eq!(head_boxes.iter().map(|b| b.0).collect::<Vec<_>>(), [*b"ftyp", *b"moov"]);
        let mdat = &head[head.len() - mdat_header..];
        let mdat_bytes = if wide { isobmff::u64_at(mdat, 8) } else { u64::from(isobmff::u32_at(mdat, 0)) };
        assert_eq!(mdat_bytes, file.bytes() - head.len() as u64 + mdat_header as u64);

        let traks = isobmff::boxes(head_boxes[1].1).into_iter().filter(|(kind, ..)| kind == b"trak");
        for (number, (_, trak, _)) in traks.enumerate() {
            let stbl = isobmff::find(trak, "mdia/minf/stbl").unwrap();
            let offsets: Vec<u64> = match isobmff::find(stbl, "stco") {
                Some(table) => table[8..].chunks(4).map(|c| u64::from(isobmff::u32_at(c, 0))).collect(),
                None => isobmff::find(stbl, "co64").unwrap()[8..]
                    .chunks(8)
                    .map(|c| isobmff::u64_at(c, 0))
                    .collect(),
            };
            let track = &index.tracks[number];
            assert_eq!(offsets.len(), track.fragments.len());
            for (offset, fragment) in offsets.iter().zip(&track.fragments) {
                let payload = fragment.offset + u64::from(fragment.header_bytes);
                let end = fragment.offset + u64::from(fragment.bytes);
                let expected = Part::Object { object: ObjectRef::Track(number as u32), range: payload..end };
                assert_eq!(file.slice(*offset..offset + end - payload), [expected]);
            }
        }
    }
}

#[test]
fn slices_at_the_edges() {
    let (index, _) = long_film(12_000);
    let file = progressive::layout(&index, &progressive::default_selection(&index)).unwrap();
    assert_eq!(file.slice(0..u64::MAX), file.parts());
    assert!(file.slice(5..5).is_empty());
    assert!(file.slice(file.bytes()..u64::MAX).is_empty());
    #[expect(clippy::reversed_empty_ranges, reason = "a careless caller may pass such a range")]
    let nothing = file.slice(9..3);
    assert!(nothing.is_empty());
    let last = file.slice(file.bytes() - 1..file.bytes());
    assert_eq!(last.iter().map(Part::bytes).collect::<Vec<_>>(), [1]);
    assert!(progressive::layout(&index, &[]).is_err());
    assert!(progressive::layout(&index, &[2]).is_err());
}
