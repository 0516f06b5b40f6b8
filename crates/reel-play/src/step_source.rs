//! What a title gives to a set of streams that are in step: itself as one file, or one of its
//! tracks.

mod times;

pub use times::{Cut, StepTimes};

use crate::offers::{FilePart, file_demand};
use crate::playable::Playable;
use crate::title::PlayableTitle;
use crate::{Form, PlainFile};
use reel_admit::Choices;
use reel_cache::Body;
use reel_media::{TrackIndex, TrackKind, progressive};
use reel_qos::Demand;
use std::ops::Range;
use std::sync::Arc;

/// Which part of a title a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TitlePart {
    /// The title as one file.
    File,
    /// The track of this kind that is played unless another one is chosen.
    Kind(TrackKind),
    /// The track of this number.
    Track(usize),
}

/// What is read of a title from a media time on.
pub struct StepSource {
    /// Its bytes. First `head_bytes` that are needed to play what follows.
    pub body: Body,
    /// How many bytes of the file's beginning are at the beginning of `body`.
    pub head_bytes: u64,
    /// The position in the file of the first byte of `body` after those; at least `head_bytes`.
    pub from: u64,
    /// Length of the whole file.
    pub file_bytes: u64,
    /// The media times of the bytes of the file.
    pub times: StepTimes,
    /// What its viewer needs; `None` if it is too long to be promised.
    pub demand: Option<Arc<Demand>>,
}

impl TitlePart {
    /// The title and the part of it that a name stands for: `film`, `film#video`, `film#audio`,
    /// `film#text`, `film#3`. `None` if it names no part. Names of titles have no `#`.
    pub fn of_name(name: &str) -> Option<(&str, TitlePart)> {
        let Some((title, part)) = name.split_once('#') else { return Some((name, TitlePart::File)) };
        let part = match part {
            "video" => TitlePart::Kind(TrackKind::Video),
            "audio" => TitlePart::Kind(TrackKind::Audio),
            "text" => TitlePart::Kind(TrackKind::Subtitle),
            number => TitlePart::Track(number.parse().ok()?),
        };
        Some((title, part))
    }
}

impl PlayableTitle {
    /// A part of the title from a media time on. `None` if the title has no such part. A track with
    /// a long list of fragments takes some milliseconds.
    pub fn step_source(&self, part: TitlePart, from_ns: u64) -> Option<StepSource> {
        if self.is_poured() {
            return None;
        }
        let index = self.title().index();
        let number = match part {
            TitlePart::File => return self.file_source(from_ns),
            TitlePart::Track(number) => number,
            TitlePart::Kind(TrackKind::Subtitle) => index.of_kind(TrackKind::Subtitle).next()?.0,
            TitlePart::Kind(kind) => {
                let of_kind = |number: &usize| index.tracks[*number].track.kind == kind;
                let selected = progressive::default_selection(index).into_iter().filter(of_kind);
                let is_default = |number: &usize| index.tracks[*number].track.default;
                let first = selected.clone().next();
                selected.clone().find(is_default).or(first)?
            }
        };
        self.track_source(index.tracks.get(number)?, from_ns)
    }

    fn file_source(&self, from_ns: u64) -> Option<StepSource> {
        let file = self.file()?;
        let from = self.file_offset_at(file, from_ns);
        let demand = self.choices(Form::File).and_then(|choices| choices.demands.first().cloned());
        let file_bytes = file.body.bytes();
        let body = file.body.slice(from..file_bytes);
        let times = StepTimes::of_file(Arc::clone(&file.times));
        Some(StepSource { body, head_bytes: 0, from, file_bytes, times, demand })
    }

    /// Where the file has everything from a media time on: fragments of several tracks lie in turns
    /// there, each at its own time.
    fn file_offset_at(&self, file: &PlainFile, from_ns: u64) -> u64 {
        if from_ns == 0 {
            return 0;
        }
        let index = self.title().index();
        let tracks = progressive::default_selection(index).into_iter().map(|number| &index.tracks[number]);
        let earliest_ns = tracks.filter_map(|track| begin_of_fragment_ns(track, from_ns)).min();
        // A stored transport stream has no tracks here: its stretches are all there is.
        let until_ns = earliest_ns.unwrap_or(from_ns).min(from_ns);
        let after = file.times.partition_point(|(_, shown_ns)| *shown_ns <= until_ns);
        after.checked_sub(1).map_or(0, |stretch| file.times[stretch].0)
    }

    fn track_source(&self, track: &TrackIndex, from_ns: u64) -> Option<StepSource> {
        if track.track.kind == TrackKind::Subtitle {
            return self.text_source(track);
        }
        let number = track.fragments.partition_point(|fragment| track.nanoseconds(fragment.time) <= from_ns);
        let first = number.saturating_sub(1);
        // The decoder is set up as it is at that fragment.
        let init = track.init_range(track.init_of(first))?;
        let (head_bytes, from) = match first {
            0 => (0, 0),
            _ => (init.end - init.start, track.fragments.get(first)?.offset),
        };
        let head = self.slice(track, if first == 0 { 0..0 } else { init })?;
        let body = head.then(self.slice(track, from..track.bytes)?);
        let parts = track.fragments.iter().map(|fragment| {
            let range = fragment.offset..fragment.offset + u64::from(fragment.bytes);
            (range, track.nanoseconds(fragment.time))
        });
        let demand = self.track_demand(track, parts);
        let (file_bytes, times) = (track.bytes, StepTimes::of_track(track));
        Some(StepSource { body, head_bytes, from, file_bytes, times, demand })
    }

    /// All cues of a title are some kilobytes, which are due at the beginning.
    fn text_source(&self, track: &TrackIndex) -> Option<StepSource> {
        let body = self.slice(track, 0..track.bytes)?;
        let times = StepTimes::of_file(Arc::from([(0, 0)]));
        let demand = self.track_demand(track, [(0..track.bytes, 0)]);
        Some(StepSource { body, head_bytes: 0, from: 0, file_bytes: track.bytes, times, demand })
    }

    /// What a viewer of these parts of a track needs, with their media times.
    fn track_demand(
        &self,
        track: &TrackIndex,
        parts: impl IntoIterator<Item = (Range<u64>, u64)>,
    ) -> Option<Arc<Demand>> {
        let map = self.title().track_map(track.object)?;
        let parts = parts.into_iter().map(|(range, shown_ns)| FilePart { map, range, shown_ns });
        file_demand(map.geometry().members(), self.depth?, parts).map(Arc::new)
    }

    /// What is played in step. Nothing else can be played with it; its sessions are
    /// promised what all of them need, if all of them can be promised.
    pub fn of_step(name: &str, sources: &[StepSource]) -> Self {
        let demands: Option<Vec<&Demand>> = sources.iter().map(|source| source.demand.as_deref()).collect();
        let sum = demands.map(|demands| Arc::new(Demand::sum_of(&demands)));
        Self::of_file_demand(name, sum.map(|sum| Choices::from(Arc::from([sum]))))
    }
}

/// When the fragment of a track begins that is shown at this time.
fn begin_of_fragment_ns(track: &TrackIndex, at_ns: u64) -> Option<u64> {
    let after = track.fragments.partition_point(|fragment| track.nanoseconds(fragment.time) <= at_ns);
    Some(track.nanoseconds(track.fragments.get(after.saturating_sub(1))?.time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_are_read() {
        let kind = |kind| Some(("film", TitlePart::Kind(kind)));
        assert_eq!(TitlePart::of_name("a+b"), Some(("a+b", TitlePart::File)));
        assert_eq!(TitlePart::of_name("film#video"), kind(TrackKind::Video));
        assert_eq!(TitlePart::of_name("film#audio"), kind(TrackKind::Audio));
        assert_eq!(TitlePart::of_name("film#text"), kind(TrackKind::Subtitle));
        assert_eq!(TitlePart::of_name("film#12"), Some(("film", TitlePart::Track(12))));
        for wrong in ["film#", "film#sound", "film#-1", "film#1#2", "film#99999999999999999999999"] {
            assert_eq!(TitlePart::of_name(wrong), None, "{wrong}");
        }
    }
}
