//! The init segment of a CMAF track (ISO/IEC 23000-19, 7.3.1).

use super::moov::{media_information, movie_header, track_header};
use super::{Boxes, MovieHeader, TrackHeader, media_header, sample_description};
use crate::{Track, hdr};

/// `ftyp` and `moov` of one track. `media_offset` ticks at the start of the media are decoded but
/// not presented: audio warm-up, or pictures that the first shown one depends on.
pub(crate) fn segment(track: &Track, media_offset: u64) -> Vec<u8> {
    let mut boxes = Boxes::default();
    boxes.plain(b"ftyp", |b| {
        b.raw(b"iso6");
        b.u32(0);
        for brand in [b"iso6", b"cmfc", b"mp41"] {
            b.raw(brand);
        }
        hdr::brands(track).into_iter().for_each(|brand| b.raw(brand.as_bytes()));
    });
    boxes.plain(b"moov", |b| {
        movie_header(b, &MovieHeader { timescale: track.timescale, duration: 0, next_track: 2 });
        b.plain(b"trak", |b| {
            track_header(
                b,
                track,
                &TrackHeader { number: 1, enabled: true, alternate_group: 0, duration: 0 },
            );
            edit_list(b, media_offset);
            b.plain(b"mdia", |b| {
                media_header(b, track, 0);
                b.plain(b"minf", |b| {
                    media_information(b, track.kind);
                    sample_tables(b, track);
                });
            });
        });
        b.plain(b"mvex", |b| {
            b.full(b"trex", 0, 0, |b| {
                b.u32(1); // track
                b.u32(1); // sample description
                b.zeros(12); // every fragment states its own defaults
            });
        });
    });
    boxes.into_vec()
}

/// One edit that starts the presentation `media_offset` into the media. Its duration of 0 means all
/// fragments that follow.
fn edit_list(boxes: &mut Boxes, media_offset: u64) {
    if media_offset == 0 {
        return;
    }
    boxes.plain(b"edts", |b| {
        let long = media_offset > i32::MAX as u64;
        b.full(b"elst", u8::from(long), 0, |b| {
            b.u32(1);
            if long {
                b.u64(0);
                b.u64(media_offset);
            } else {
                b.u32(0);
                b.u32(media_offset as u32);
            }
            b.u32(0x0001_0000); // rate 1.0
        });
    });
}

fn sample_tables(boxes: &mut Boxes, track: &Track) {
    boxes.plain(b"stbl", |b| {
        sample_description(b, std::slice::from_ref(track));
        b.full(b"stts", 0, 0, |b| b.u32(0));
        b.full(b"stsc", 0, 0, |b| b.u32(0));
        b.full(b"stsz", 0, 0, |b| b.zeros(8));
        b.full(b"stco", 0, 0, |b| b.u32(0));
    });
}
