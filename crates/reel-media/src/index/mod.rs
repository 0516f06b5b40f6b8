//! The index of a title: what playlists, manifests, headers and admission need to know about its
//! stored objects, so that they need not read them.

mod binary;
mod check;
mod merged;
pub(crate) mod periods;
pub(crate) mod rates;

pub use binary::IndexError;
pub use merged::{MergeError, MergedIndex, MergedPart};
pub(crate) use rates::RateMeter;

use crate::cmaf::{Packaged, TableRange};
use crate::{Audio, Chapter, Track, TrackKind, Video, webvtt};
use std::ops::Range;

/// The index of one title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TitleIndex {
    /// Presentation duration: the end of the last shown picture or sound. No cue ends later (the
    /// packager cuts them off).
    pub duration_ns: u64,
    /// All tracks of all renditions. A track's position here is the track number in URLs.
    pub tracks: Vec<TrackIndex>,
    /// By start.
    pub chapters: Vec<Chapter>,
}

/// What is stored for one track.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackIndex {
    /// The description, with the decoder configuration. All times below are in ticks of its
    /// timescale.
    pub track: Track,
    /// Number of the track's object in the title.
    pub object: u32,
    /// Size of the object.
    pub bytes: u64,
    /// Size of the init segment at its start (0 for subtitles: their object is a WebVTT file).
    pub init_bytes: u32,
    /// Media time of presentation time 0 in the stored form; more than 0 if there is decoder
    /// warm-up.
    pub media_offset: u64,
    /// Decoding time of the first sample.
    pub first_dts: i64,
    /// Sum of all sample durations.
    pub media_duration: u64,
    /// Earliest presentation time.
    pub start: u64,
    /// Presentation end.
    pub end: u64,
    /// Number of samples (cues for subtitles).
    pub samples: u64,
    /// Whether every segment can be decoded without the one before it. This is false for open
    /// groups of pictures, where the pictures shown just before a key frame need earlier ones.
    pub independent: bool,
    /// Pictures per second, for video.
    pub frame_rate: Option<FrameRate>,
    /// Bytes of all fragments over their time.
    pub average_bps: u64,
    /// Peak segment bit rate as RFC 8216, section 4.1 defines it.
    pub peak_bps: u64,
    /// The sample tables of the classic MP4 form.
    pub tables: TableRange,
    /// In object order, without gaps between them in bytes (except for the init segments of
    /// `changes`) or time.
    pub fragments: Vec<Fragment>,
    /// Where the decoder must be set up again, by fragment. The codec, the timescale and
    /// `media_offset` stay those of the track.
    pub changes: Vec<Change>,
}

/// A change of decoder configuration in the course of a track. An init segment of its own lies
/// directly before its first fragment.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its first fragment, from 0; never the first one of the track.
    pub fragment: u32,
    /// Size of its init segment.
    pub init_bytes: u32,
    /// Decoder configuration from there on.
    pub config: Vec<u8>,
    /// For [`TrackKind::Video`].
    pub video: Option<Video>,
    /// For [`TrackKind::Audio`].
    pub audio: Option<Audio>,
}

/// One fragment, which is one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// First byte in the object.
    pub offset: u64,
    /// Earliest presentation time.
    pub time: u64,
    /// Until the next fragment's `time`; the last one's until the end of the track.
    pub duration: u64,
    /// Size, header and payload.
    pub bytes: u32,
    /// Number of samples.
    pub samples: u32,
    /// Size of `moof` and of the start of `mdat`; the samples follow.
    pub header_bytes: u32,
    /// Size up to and with the first sample, which is a key frame.
    pub key_bytes: u32,
}

/// Pictures per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    /// Pictures in `denominator` seconds.
    pub numerator: u32,
    /// Seconds.
    pub denominator: u32,
    /// Whether every picture is shown for the same time, within the rounding of the file's clock.
    /// If not, the rate is the average.
    pub constant: bool,
}

impl TitleIndex {
    /// Makes one title from the renditions that were ingested: all their tracks, one after another,
    /// and the Tables object for them. Objects are numbered in the same order.
    pub fn assemble(renditions: Vec<Packaged>) -> (TitleIndex, Vec<u8>) {
        let mut index = TitleIndex::default();
        let mut tables = Vec::new();
        for rendition in renditions {
            for mut track in rendition.tracks.into_iter().flatten() {
                track.object = index.tracks.len() as u32;
                track.tables.offset += tables.len() as u64;
                index.duration_ns = index.duration_ns.max(track.nanoseconds(track.end));
                index.tracks.push(track);
            }
            tables.extend_from_slice(&rendition.tables);
        }
        (index, tables)
    }

    /// Keeps the chapters that begin before the end. Returns a warning about the others, for the
    /// person who ingests. `chapters` come by start.
    pub fn set_chapters(&mut self, mut chapters: Vec<Chapter>) -> Option<String> {
        let kept = chapters.partition_point(|chapter| chapter.start_ns < self.duration_ns);
        let late = chapters.len() - kept;
        chapters.truncate(kept);
        self.chapters = chapters;
        let end = webvtt::time(self.duration_ns / 1_000_000);
        (late > 0).then(|| format!("chapters that begin after the end ({end}) are left out: {late}"))
    }

    /// The stored form (versioned, checksummed).
    ///
    /// # Errors
    /// If the index exceeds the limits or contradicts itself.
    pub fn encode(&self) -> Result<Vec<u8>, IndexError> {
        check::title(self)?;
        check::stored(self)?;
        Ok(binary::encode(self))
    }

    /// Reads the stored form. Any bytes are safe.
    ///
    /// # Errors
    /// If the bytes are damaged, of another version or not an index, exceed a limit or contradict
    /// themselves.
    pub fn decode(bytes: &[u8]) -> Result<TitleIndex, IndexError> {
        let index = binary::decode(bytes)?;
        check::title(&index)?;
        Ok(index)
    }

    /// Tracks of a kind with their numbers.
    pub fn of_kind(&self, kind: TrackKind) -> impl Iterator<Item = (usize, &TrackIndex)> {
        self.tracks.iter().enumerate().filter(move |(_, track)| track.track.kind == kind)
    }

    /// Bytes of a track that are due in each round of `round_ns`, from the start of the
    /// presentation. A fragment's bytes are spread evenly over its time; init segment and subtitles
    /// are due at once. The sum is the size of the track's object. `None` if there is no such track
    /// or `round_ns` is 0.
    pub fn demand(&self, track: usize, round_ns: u64) -> Option<Vec<u32>> {
        let track = self.tracks.get(track)?;
        (round_ns > 0).then(|| rates::demand(track, round_ns))
    }
}

impl TrackIndex {
    /// The bytes of init segment `number`, counted from 1: that of the track, then those of its
    /// changes. `None` if there are not so many.
    pub fn init_range(&self, number: usize) -> Option<Range<u64>> {
        if number == 1 {
            return Some(0..u64::from(self.init_bytes));
        }
        let change = self.changes.get(number.checked_sub(2)?)?;
        let end = self.fragments.get(change.fragment as usize)?.offset;
        Some(end.checked_sub(u64::from(change.init_bytes))?..end)
    }

    /// The number of the init segment that a fragment (from 0) needs.
    pub fn init_of(&self, fragment: usize) -> usize {
        1 + self.changes.partition_point(|change| change.fragment as usize <= fragment)
    }

    /// The track as init segment `number` describes it.
    pub(crate) fn described(&self, number: usize) -> Track {
        let change = number.checked_sub(2).and_then(|place| self.changes.get(place)).cloned();
        change.map_or_else(
            || self.track.clone(),
            |Change { config, video, audio, .. }| Track { config, video, audio, ..self.track.clone() },
        )
    }

    /// The bytes of segment `number`, counted from 1 as in URLs.
    pub fn segment_range(&self, number: usize) -> Option<Range<u64>> {
        let fragment = self.fragments.get(number.checked_sub(1)?)?;
        Some(fragment.offset..fragment.offset + u64::from(fragment.bytes))
    }

    /// The number (from 1) of the segment shown at `time` ticks. Outside the track's time it is the
    /// first or the last one.
    pub fn segment_at(&self, time: u64) -> usize {
        self.fragments.partition_point(|fragment| fragment.time <= time).max(1)
    }

    /// Ticks of this track as nanoseconds, rounded to the nearest.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        let scale = u128::from(self.track.timescale.max(1));
        ((u128::from(ticks) * 1_000_000_000 + scale / 2) / scale) as u64
    }

    /// The size for display at the beginning: square pixels, rotation applied.
    pub fn display_size(&self) -> Option<(u32, u32)> {
        self.track.display_size()
    }
}

impl Track {
    /// The size for display: square pixels, rotation applied.
    pub(crate) fn display_size(&self) -> Option<(u32, u32)> {
        let video = self.video.as_ref()?;
        let (horizontal, vertical) =
            (u64::from(video.pixel_aspect.0.max(1)), u64::from(video.pixel_aspect.1.max(1)));
        let width = (u64::from(video.width) * horizontal + vertical / 2) / vertical;
        let (width, height) = (width.min(u64::from(u32::MAX)) as u32, video.height);
        Some(if matches!(video.rotation, 90 | 270) { (height, width) } else { (width, height) })
    }
}
