//! Merged titles: the pictures of one title with the sound of another, by their indexes alone.
//!
//! `dsplice` splits a stream and recombines its parts by name ("Quality of service and control
//! through the file interface", University of Maryland, 1996). Here the parts are tracks, which are
//! stored apart in any case, so nothing is copied to recombine them.

use super::{IndexError, TitleIndex, TrackIndex, check};
use crate::TrackKind;

/// The index of a merged title.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedIndex {
    /// The tracks of both parts. Their objects are numbered by position; sample tables are in
    /// object 0 for the part with the pictures, and in object 1 for the part with the sound
    /// ([`TableRange::object`](crate::cmaf::TableRange::object)).
    pub index: TitleIndex,
    /// For each object of a track: the part that has it, and its number there.
    pub objects: Vec<(MergedPart, u32)>,
}

/// A part of a merged title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergedPart {
    /// The title whose pictures are shown.
    Pictures,
    /// The title whose sound is heard.
    Sound,
}

/// Why two titles cannot be merged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The first one has no video track.
    #[error("the first one has no pictures")]
    NoPictures,
    /// The second one has no audio track.
    #[error("the second one has no sound")]
    NoSound,
    /// Together they are beyond a limit of titles, such as the number of tracks.
    #[error("together they are beyond what a title may have: {0}")]
    Index(IndexError),
}

impl TitleIndex {
    /// The video tracks of `pictures` with the audio tracks of `sound`, and the subtitles of both.
    /// Both parts begin at time 0, and no time changes. The merged title is as long as its longest
    /// track. Chapters are those of `pictures`.
    ///
    /// # Errors
    /// If there are no pictures or no sound, or more tracks than a title may have.
    pub fn merged(pictures: &TitleIndex, sound: &TitleIndex) -> Result<MergedIndex, MergeError> {
        let of_kind = |part: MergedPart, kind: TrackKind| {
            let index = if part == MergedPart::Pictures { pictures } else { sound };
            index.of_kind(kind).map(move |(_, track)| (part, track))
        };
        if of_kind(MergedPart::Pictures, TrackKind::Video).next().is_none() {
            return Err(MergeError::NoPictures);
        }
        if of_kind(MergedPart::Sound, TrackKind::Audio).next().is_none() {
            return Err(MergeError::NoSound);
        }
        let parts: Vec<(MergedPart, &TrackIndex)> = of_kind(MergedPart::Pictures, TrackKind::Video)
            .chain(of_kind(MergedPart::Sound, TrackKind::Audio))
            .chain(of_kind(MergedPart::Pictures, TrackKind::Subtitle))
            .chain(of_kind(MergedPart::Sound, TrackKind::Subtitle))
            .collect();
        let objects = parts.iter().map(|(part, track)| (*part, track.object)).collect();
        let tracks: Vec<TrackIndex> = parts
            .into_iter()
            .enumerate()
            .map(|(number, (part, track))| track.renumbered(part, number))
            .collect();
        let ends = tracks.iter().map(|track| track.nanoseconds(track.end));
        let duration_ns = ends.max().unwrap_or(0);
        let index = TitleIndex { duration_ns, tracks, chapters: pictures.chapters.clone() };
        check::title(&index).map_err(MergeError::Index)?;
        Ok(MergedIndex { index, objects })
    }
}

impl TrackIndex {
    /// The same track as number `number` of a merged title.
    fn renumbered(&self, part: MergedPart, number: usize) -> TrackIndex {
        let mut track = self.clone();
        track.object = number as u32;
        track.tables.object = u32::from(part == MergedPart::Sound);
        track
    }
}
