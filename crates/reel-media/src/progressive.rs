//! The progressive form: a classic MP4 with its header first, as a virtual file.
//!
//! None of it is stored. The header is built from the index, its sample tables are slices of the
//! title's Tables object, and the media is the payload of the stored fragments: one chunk per
//! fragment and track.

use crate::cmaf::{
    Boxes, MovieHeader, TrackHeader, media_header, media_information, movie_header, sample_description,
    track_header,
};
use crate::index::rates::greatest_common_divisor;
use crate::{TitleIndex, Track, TrackIndex, TrackKind, hdr};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// One of the title's stored objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectRef {
    /// The Tables object of this number ([`TableRange::object`](crate::cmaf::TableRange::object)).
    Tables(u32),
    /// The track object of this number ([`TrackIndex::object`]).
    Track(u32),
}

/// A run of bytes of a virtual file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes in memory, shared by all slices of the file.
    Bytes(Arc<[u8]>, Range<usize>),
    /// Bytes of a stored object.
    Object {
        /// The object.
        object: ObjectRef,
        /// The bytes of it.
        range: Range<u64>,
    },
}

impl Part {
    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Part::Bytes(_, range) => range.len() as u64,
            Part::Object { range, .. } => range.end - range.start,
        }
    }

    /// The part without its first `front` and its last `back` bytes.
    fn trimmed(&self, front: u64, back: u64) -> Part {
        match self {
            Part::Bytes(bytes, range) => {
                Part::Bytes(bytes.clone(), range.start + front as usize..range.end - back as usize)
            }
            Part::Object { object, range } => {
                Part::Object { object: *object, range: range.start + front..range.end - back }
            }
        }
    }
}

/// A file that exists as a list of parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualFile {
    /// In file order, none of them empty.
    parts: Vec<Part>,
    /// Where each part starts.
    starts: Vec<u64>,
    bytes: u64,
}

impl VirtualFile {
    /// Exact length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All parts, in file order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The parts that make up `range` (cut to the length of the file), found by binary search.
    pub fn slice(&self, range: Range<u64>) -> Vec<Part> {
        let end = range.end.min(self.bytes);
        if range.start >= end {
            return Vec::new();
        }
        let first = self.starts.partition_point(|start| *start <= range.start) - 1;
        let last = self.starts.partition_point(|start| *start < end);
        (first..last)
            .map(|i| {
                let (start, part) = (self.starts[i], &self.parts[i]);
                part.trimmed(range.start.saturating_sub(start), (start + part.bytes()).saturating_sub(end))
            })
            .collect()
    }

    fn push(&mut self, part: Part) {
        let bytes = part.bytes();
        if bytes > 0 {
            self.starts.push(self.bytes);
            self.parts.push(part);
            self.bytes += bytes;
        }
    }
}

/// Why a progressive file cannot be laid out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// No track was chosen, or none of the chosen ones can be part of an MP4 file.
    #[error("no track to put into the file")]
    NoTracks,
    /// The chosen track does not exist or is text.
    #[error("track {0} of the title is not a video or audio track")]
    NotMedia(usize),
}

/// The default contents of the file: the best video rendition and all audio tracks.
pub fn default_selection(index: &TitleIndex) -> Vec<usize> {
    let quality = |track: &TrackIndex| {
        let (width, height) = track.display_size().unwrap_or_default();
        (u64::from(width) * u64::from(height), track.average_bps)
    };
    // Among equals the first one: `max_by_key` takes the last, so the position breaks the tie.
    let best =
        index.of_kind(TrackKind::Video).max_by_key(|(i, track)| (quality(track), std::cmp::Reverse(*i)));
    best.map(|(number, _)| number)
        .into_iter()
        .chain(index.of_kind(TrackKind::Audio).map(|(number, _)| number))
        .collect()
}

/// Lays out the file with the tracks of `selection` (numbers in the index), in that order.
///
/// # Errors
/// If no track is chosen, or one does not exist or is text.
pub fn layout(index: &TitleIndex, selection: &[usize]) -> Result<VirtualFile, LayoutError> {
    let tracks = selection
        .iter()
        .map(|number| {
            index
                .tracks
                .get(*number)
                .filter(|track| !track.fragments.is_empty())
                .ok_or(LayoutError::NotMedia(*number))
        })
        .collect::<Result<Vec<&TrackIndex>, _>>()?;
    if tracks.is_empty() {
        return Err(LayoutError::NoTracks);
    }
    let runs = interleave(&tracks);
    let payload_bytes: u64 = runs.iter().map(|run| run.bytes()).sum();
    let long_mdat = payload_bytes + 8 > u64::from(u32::MAX);
    let mdat_header_bytes = if long_mdat { 16 } else { 8 };

    // The size of the header depends on the width of chunk offsets, and that width depends on the
    // size.
    let mut wide = false;
    let mut offsets = chunk_offsets(&tracks, &runs, 0);
    let header = loop {
        let media_start = header(&tracks, &offsets, wide).total_bytes() + mdat_header_bytes;
        if !wide && media_start + payload_bytes > u64::from(u32::MAX) {
            wide = true;
            continue;
        }
        offsets = chunk_offsets(&tracks, &runs, media_start);
        break header(&tracks, &offsets, wide);
    };

    let mut file = VirtualFile::default();
    let holes = header.holes().to_vec();
    let mut header = header.into_vec();
    let header_bytes = header.len();
    if long_mdat {
        header.extend_from_slice(&1u32.to_be_bytes());
        header.extend_from_slice(b"mdat");
        header.extend_from_slice(&(payload_bytes + 16).to_be_bytes());
    } else {
        header.extend_from_slice(&(payload_bytes as u32 + 8).to_be_bytes());
        header.extend_from_slice(b"mdat");
    }
    debug_assert_eq!(header.len() - header_bytes, mdat_header_bytes as usize);
    let header: Arc<[u8]> = header.into();
    let mut at = 0;
    for hole in holes {
        file.push(Part::Bytes(header.clone(), at..hole.at));
        let tables = tracks[hole.filler].tables;
        file.push(Part::Object {
            object: ObjectRef::Tables(tables.object),
            range: tables.offset..tables.offset + tables.bytes,
        });
        at = hole.at;
    }
    file.push(Part::Bytes(header.clone(), at..header.len()));
    for run in &runs {
        file.push(Part::Object {
            object: ObjectRef::Track(tracks[run.track].object),
            range: run.range.clone(),
        });
    }
    Ok(file)
}

/// The payload of one fragment, which is one chunk.
struct Run {
    time_ns: u64,
    track: usize,
    range: Range<u64>,
}

impl Run {
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// All chunks of all tracks, by time.
fn interleave(tracks: &[&TrackIndex]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::with_capacity(tracks.iter().map(|track| track.fragments.len()).sum());
    for (number, track) in tracks.iter().enumerate() {
        runs.extend(track.fragments.iter().map(|fragment| Run {
            time_ns: track.nanoseconds(fragment.time),
            track: number,
            range: fragment.offset + u64::from(fragment.header_bytes)
                ..fragment.offset + u64::from(fragment.bytes),
        }));
    }
    // A stable sort: fragments of a track stay in order, and tracks at the same time stay in the
    // chosen order.
    runs.sort_by_key(|run| run.time_ns);
    runs
}

/// For each track, where its chunks start in the file if the first of all is at `media_start`.
fn chunk_offsets(tracks: &[&TrackIndex], runs: &[Run], media_start: u64) -> Vec<Vec<u64>> {
    let mut offsets: Vec<Vec<u64>> =
        tracks.iter().map(|track| Vec::with_capacity(track.fragments.len())).collect();
    let mut at = media_start;
    for run in runs {
        offsets[run.track].push(at);
        at += run.bytes();
    }
    offsets
}

/// `ftyp` and `moov`, with holes for the sample tables.
fn header(tracks: &[&TrackIndex], offsets: &[Vec<u64>], wide: bool) -> Boxes {
    let movie_scale = movie_timescale(tracks);
    let movie_ticks = |track: &TrackIndex, ticks: u64| {
        (u128::from(ticks) * u128::from(movie_scale)).div_ceil(u128::from(track.track.timescale)) as u64
    };
    let duration = tracks.iter().map(|track| movie_ticks(track, track.end)).max().unwrap_or(0);
    // One of several audio tracks is heard: the one marked so, else the first.
    let audio = || tracks.iter().enumerate().filter(|(_, track)| track.track.kind == TrackKind::Audio);
    let heard = audio().find(|(_, track)| track.track.default).or_else(|| audio().next()).map(|(i, _)| i);
    let several = audio().count() > 1;

    let mut boxes = Boxes::default();
    boxes.plain(b"ftyp", |b| {
        b.raw(b"isom");
        b.u32(0x200);
        for brand in [b"isom", b"iso2", b"iso6", b"mp41"] {
            b.raw(brand);
        }
        let brands: BTreeSet<&str> = tracks.iter().flat_map(|track| hdr::brands(&track.track)).collect();
        brands.into_iter().for_each(|brand| b.raw(brand.as_bytes()));
    });
    boxes.plain(b"moov", |b| {
        let next_track = tracks.len() as u32 + 1;
        movie_header(b, &MovieHeader { timescale: movie_scale, duration, next_track });
        for (i, track) in tracks.iter().enumerate() {
            let is_audio = track.track.kind == TrackKind::Audio;
            let header = TrackHeader {
                number: i as u32 + 1,
                enabled: !is_audio || heard == Some(i),
                alternate_group: u16::from(is_audio && several),
                duration: movie_ticks(track, track.end),
            };
            b.plain(b"trak", |b| {
                track_header(b, &track.track, &header);
                edit_list(b, track, movie_ticks(track, track.start), movie_ticks(track, track.end));
                b.plain(b"mdia", |b| {
                    media_header(b, &track.track, track.media_duration);
                    b.plain(b"minf", |b| {
                        media_information(b, track.track.kind);
                        b.plain(b"stbl", |b| {
                            sample_description(b, &entries(track).0);
                            b.hole(i, track.tables.bytes);
                            samples_of_chunks(b, track);
                            chunk_table(b, &offsets[i], wide);
                        });
                    });
                });
            });
        }
    });
    boxes
}

/// A timescale in which edits of all tracks are exact, if durations then still fit 32 bits (old
/// players read only those). Otherwise the finest one for which they do.
fn movie_timescale(tracks: &[&TrackIndex]) -> u32 {
    let scales = || tracks.iter().map(|track| u64::from(track.track.timescale));
    let common = scales().try_fold(1u64, |all, scale| {
        (all / greatest_common_divisor(all, scale))
            .checked_mul(scale)
            .filter(|all| *all <= u64::from(u32::MAX))
    });
    let seconds =
        tracks.iter().map(|track| track.end / u64::from(track.track.timescale) + 1).max().unwrap_or(1);
    let fits = |scale: &u64| scale.saturating_mul(seconds) <= u64::from(u32::MAX);
    let fallbacks = scales().chain([90_000]).filter(fits);
    common.filter(fits).or_else(|| fallbacks.max()).unwrap_or(1000).max(1000) as u32
}

/// Edits that put the media at the times of the index: nothing until `start`, then the media
/// without its warm-up. Compositions are counted from the first decoding time, as `ctts` cannot
/// start with negative offsets.
fn edit_list(boxes: &mut Boxes, track: &TrackIndex, start: u64, end: u64) {
    let media_time = (track.start as i64).saturating_sub(track.first_dts).max(0) as u64;
    if start == 0 && media_time == 0 {
        return;
    }
    let long = [end, media_time].iter().any(|value| *value > i32::MAX as u64);
    boxes.plain(b"edts", |b| {
        b.full(b"elst", u8::from(long), 0, |b| {
            b.u32(1 + u32::from(start > 0));
            let mut entry = |duration: u64, media_time: i64| {
                if long {
                    b.u64(duration);
                    b.i64(media_time);
                } else {
                    b.u32(duration as u32);
                    b.i32(media_time as i32);
                }
                b.u32(0x0001_0000); // rate 1.0
            };
            if start > 0 {
                entry(start, -1);
            }
            entry(end - start, media_time as i64);
        });
    });
}

/// Each description of a track once, and the sample entry (from 1) that each init segment stands
/// for.
fn entries(track: &TrackIndex) -> (Vec<Track>, Vec<u32>) {
    let (mut different, mut of_init): (Vec<Track>, Vec<u32>) = (Vec::new(), Vec::new());
    for number in 1..track.changes.len() + 2 {
        let described = track.described(number);
        let place = different.iter().position(|other| *other == described).unwrap_or_else(|| {
            different.push(described);
            different.len() - 1
        });
        of_init.push(place as u32 + 1);
    }
    (different, of_init)
}

/// `stsc`: runs of chunks with the same number of samples and the same sample entry.
fn samples_of_chunks(boxes: &mut Boxes, track: &TrackIndex) {
    let (_, of_init) = entries(track);
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for (i, fragment) in track.fragments.iter().enumerate() {
        let entry = of_init[track.init_of(i) - 1];
        if runs.last().is_none_or(|(_, samples, of)| (*samples, *of) != (fragment.samples, entry)) {
            runs.push((i as u32 + 1, fragment.samples, entry));
        }
    }
    boxes.full(b"stsc", 0, 0, |b| {
        b.u32(runs.len() as u32);
        for (first_chunk, samples, entry) in runs {
            b.u32(first_chunk);
            b.u32(samples);
            b.u32(entry);
        }
    });
}

fn chunk_table(boxes: &mut Boxes, offsets: &[u64], wide: bool) {
    boxes.full(if wide { b"co64" } else { b"stco" }, 0, 0, |b| {
        b.u32(offsets.len() as u32);
        for offset in offsets {
            if wide { b.u64(*offset) } else { b.u32(*offset as u32) }
        }
    });
}
