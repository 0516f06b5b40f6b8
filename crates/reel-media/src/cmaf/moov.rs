//! The movie boxes that the init segment and the classic MP4 have in common (ISO/IEC 14496-12, 8.2
//! to 8.4).

use super::Boxes;
use crate::{Track, TrackKind, Video, language};

/// The contents of `mvhd`.
pub(crate) struct MovieHeader {
    /// Ticks per second of movie times.
    pub(crate) timescale: u32,
    /// Movie duration in those ticks; 0 when the movie is fragmented.
    pub(crate) duration: u64,
    /// First unused track number.
    pub(crate) next_track: u32,
}

/// The contents of `tkhd`.
pub(crate) struct TrackHeader {
    /// Track number in the file, from 1.
    pub(crate) number: u32,
    /// Played unless the viewer chooses otherwise.
    pub(crate) enabled: bool,
    /// Tracks of the same group other than 0 are alternatives of each other.
    pub(crate) alternate_group: u16,
    /// In movie ticks; 0 when the movie is fragmented.
    pub(crate) duration: u64,
}

pub(crate) fn movie_header(boxes: &mut Boxes, header: &MovieHeader) {
    let long = header.duration > u64::from(u32::MAX);
    boxes.full(b"mvhd", u8::from(long), 0, |b| {
        times(b, long, header.timescale, header.duration);
        b.u32(0x0001_0000); // rate 1.0
        b.u16(0x0100); // volume 1.0
        b.zeros(10);
        matrix(b, None);
        b.zeros(24);
        b.u32(header.next_track);
    });
}

pub(crate) fn track_header(boxes: &mut Boxes, track: &Track, header: &TrackHeader) {
    let long = header.duration > u64::from(u32::MAX);
    // track_in_movie and track_in_preview; a disabled track is an alternative.
    let flags = 0x6 | u32::from(header.enabled);
    boxes.full(b"tkhd", u8::from(long), flags, |b| {
        if long {
            b.zeros(16);
            b.u32(header.number);
            b.u32(0);
            b.u64(header.duration);
        } else {
            b.zeros(8);
            b.u32(header.number);
            b.u32(0);
            b.u32(header.duration as u32);
        }
        b.zeros(8);
        b.u16(0); // layer
        b.u16(header.alternate_group);
        b.u16(if track.kind == TrackKind::Audio { 0x0100 } else { 0 });
        b.u16(0);
        matrix(b, track.video.as_ref());
        let (width, height) = track.video.as_ref().map_or((0, 0), presentation_size);
        b.u32(width);
        b.u32(height);
    });
}

/// `mdhd`, `elng` and `hdlr`.
pub(crate) fn media_header(boxes: &mut Boxes, track: &Track, duration: u64) {
    let long = duration > u64::from(u32::MAX);
    boxes.full(b"mdhd", u8::from(long), 0, |b| {
        times(b, long, track.timescale, duration);
        let code = track.language.as_deref().map_or(*b"und", language::iso_639_2);
        b.u16(code.iter().fold(0, |packed, letter| packed << 5 | u16::from(letter - 0x60)));
        b.u16(0);
    });
    // `mdhd` has no room for more than three letters.
    if let Some(extended) = track.language.as_deref().filter(|tag| tag.len() > 3) {
        boxes.full(b"elng", 0, 0, |b| {
            b.raw(extended.as_bytes());
            b.u8(0);
        });
    }
    boxes.full(b"hdlr", 0, 0, |b| {
        b.u32(0);
        let (kind, default_name) = match track.kind {
            TrackKind::Video => (b"vide", "Video"),
            TrackKind::Audio => (b"soun", "Audio"),
            TrackKind::Subtitle => (b"text", "Text"),
        };
        b.raw(kind);
        b.zeros(12);
        let name = track.name.as_deref().unwrap_or(default_name);
        b.raw(name.split('\0').next().unwrap_or_default().as_bytes());
        b.u8(0);
    });
}

/// `vmhd` or `smhd`, then `dinf`: the media is in the same file.
pub(crate) fn media_information(boxes: &mut Boxes, kind: TrackKind) {
    match kind {
        TrackKind::Video => boxes.full(b"vmhd", 0, 1, |b| b.zeros(8)),
        TrackKind::Audio => boxes.full(b"smhd", 0, 0, |b| b.zeros(4)),
        TrackKind::Subtitle => boxes.full(b"nmhd", 0, 0, |_| ()),
    }
    boxes.plain(b"dinf", |b| {
        b.full(b"dref", 0, 0, |b| {
            b.u32(1);
            b.full(b"url ", 0, 1, |_| ());
        });
    });
}

fn times(boxes: &mut Boxes, long: bool, timescale: u32, duration: u64) {
    // Creation and modification times stay 0: the same input must give the same bytes.
    if long {
        boxes.zeros(16);
        boxes.u32(timescale);
        boxes.u64(duration);
    } else {
        boxes.zeros(8);
        boxes.u32(timescale);
        boxes.u32(duration as u32);
    }
}

/// Width and height in 16.16 fixed point, square pixels, before rotation.
fn presentation_size(video: &Video) -> (u32, u32) {
    let (horizontal, vertical) = (video.pixel_aspect.0.max(1), video.pixel_aspect.1.max(1));
    let width = (u128::from(video.width) << 16) * u128::from(horizontal) / u128::from(vertical);
    (width.min(u128::from(u32::MAX)) as u32, video.height.min(0xffff) << 16)
}

/// The transformation matrix: identity, or a clockwise rotation whose result stays in the first
/// quadrant.
fn matrix(boxes: &mut Boxes, video: Option<&Video>) {
    const ONE: i32 = 0x0001_0000;
    let (width, height) = video.map_or((0, 0), presentation_size);
    let (width, height) = (width as i32, height as i32);
    let (a, b, c, d, x, y) = match video.map_or(0, |video| video.rotation) {
        90 => (0, ONE, -ONE, 0, height, 0),
        180 => (-ONE, 0, 0, -ONE, width, height),
        270 => (0, -ONE, ONE, 0, 0, width),
        _ => (ONE, 0, 0, ONE, 0, 0),
    };
    for value in [a, b, 0, c, d, 0, x, y, 0x4000_0000] {
        boxes.i32(value);
    }
}
