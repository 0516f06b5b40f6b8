//! Stretches of media that an edit list cuts out of the middle of a film.
//!
//! Pictures of a cut on which shown ones depend are decoded: those between the key frame before its
//! end and its end, and those before its begin in decoding order only. They are not seen: all of
//! them together take less than a millisecond before the first picture after the cut, by the rule
//! of [`crate::unseen`]. Other pictures, and the sound of the cut, are left out. A frame of sound
//! belongs to the side on which its middle is. Cues end where a cut begins.
//!
//! A key frame of H.264 that is no IDR picture (an open group) may follow a cut. Decoders that miss
//! the pictures before it show it and some more late; ffmpeg does.

use super::edits::Cut;
use super::fragments::Fragments;
use super::plan::Walk;
use super::tables::RawSample;
use super::trak::MediaTrack;
use crate::codec::warm_up;
use crate::{MediaError, Source, TrackKind, unseen};
use std::sync::Arc;

/// The cuts of one track.
pub(super) struct Cuts {
    kind: TrackKind,
    list: Vec<Place>,
    /// Factor of the clock that hides pictures.
    pub(super) scale: u32,
}

/// A cut, with what its pictures need. Samples are numbered from 0 in decoding order.
struct Place {
    cut: Cut,
    /// The last picture before the cut, in decoding order.
    last: u64,
    /// The key frame from which the pictures after the cut are decoded, and its time.
    key: (u64, i64),
    /// The first picture after the cut, in decoding order, and its decoding time.
    shown: Option<(u64, i64)>,
    /// Times of the pictures that are decoded and not seen, ascending.
    hidden: Vec<i64>,
}

/// Where a time lies.
enum Side {
    /// So many cuts are before it.
    Between(usize),
    /// Within the cut of this number.
    Within(usize),
}

/// What becomes of the cuts of a track.
pub(super) enum Found {
    /// There are none.
    Nothing,
    Cuts(Cuts),
    /// More pictures than a clock can hide, in one cut.
    TooMany(u64),
}

impl Cuts {
    /// Looks for the pictures that the cuts of a track need. All samples are walked twice.
    pub(super) fn find(
        track: &MediaTrack,
        fragments: &Arc<Fragments>,
        source: &mut dyn Source,
    ) -> Result<Found, MediaError> {
        let kind = track.track.kind;
        if track.edit.cuts.is_empty() {
            return Ok(Found::Nothing);
        }
        let place = |cut: &Cut| Place { cut: *cut, last: 0, key: (0, 0), shown: None, hidden: Vec::new() };
        let mut cuts = Self { kind, list: track.edit.cuts.iter().map(place).collect(), scale: 1 };
        if kind == TrackKind::Audio
            && let Some(first) = cuts.list.first_mut().filter(|first| first.cut.from == Cut::BEGINNING)
        {
            // What the decoder needs before the first sound.
            first.cut.to -= warm_up::ticks(&track.track);
        }
        if kind != TrackKind::Video {
            return Ok(Found::Cuts(cuts));
        }
        let mut index = 0;
        let mut walk = Walk::new(track, fragments);
        while let Some(sample) = walk.next(source)? {
            cuts.see(index, &sample);
            index += 1;
        }
        // A key frame serves all cuts behind it, up to the next one.
        let mut key = (0, i64::MIN);
        for place in &mut cuts.list {
            key = key.max(place.key);
            place.key = key;
        }
        let (mut index, mut all) = (0, 0);
        let mut walk = Walk::new(track, fragments);
        while let Some(sample) = walk.next(source)? {
            all += u64::from(cuts.hide(index, &sample));
            if all > unseen::PICTURES_MAX as u64 {
                return Ok(Found::TooMany(all));
            }
            index += 1;
        }
        cuts.list.iter_mut().for_each(|place| place.hidden.sort_unstable());
        let most = cuts.list.iter().map(|place| place.hidden.len() as u64).max().unwrap_or(0);
        let Some(scale) = unseen::clock_factor(most, track.track.timescale) else {
            return Ok(Found::TooMany(most));
        };
        cuts.scale = if most > 0 { scale } else { 1 };
        Ok(Found::Cuts(cuts))
    }

    /// Notes the key frame before the end of each cut, and the last picture before its begin.
    fn see(&mut self, index: u64, sample: &RawSample) {
        let pts = sample.dts + i64::from(sample.reorder);
        if sample.sync {
            let behind = self.list.partition_point(|place| place.cut.to < pts);
            if let Some(place) = self.list.get_mut(behind) {
                place.key = (index, pts);
            }
        }
        if let Side::Between(number) = self.side(pts)
            && let Some(place) = self.list.get_mut(number)
        {
            place.last = index;
        }
    }

    /// Notes a picture of a cut that is decoded, or the first one after it. Returns whether it is
    /// one that is not seen.
    fn hide(&mut self, index: u64, sample: &RawSample) -> bool {
        let pts = sample.dts + i64::from(sample.reorder);
        match self.side(pts) {
            Side::Within(number) if self.list[number].needs(index, pts) && sample.bytes > 0 => {
                self.list[number].hidden.push(pts);
                true
            }
            Side::Between(number) if number > 0 => {
                let place = &mut self.list[number - 1];
                place.shown = place.shown.or(Some((index, sample.dts)));
                false
            }
            _ => false,
        }
    }

    /// The sample with its times after the cuts; `None` if it is left out.
    pub(super) fn place(&self, index: u64, sample: RawSample) -> Option<RawSample> {
        match self.kind {
            TrackKind::Video => self.picture(index, sample),
            TrackKind::Audio => self.sound(sample),
            TrackKind::Subtitle => self.cue(sample),
        }
    }

    fn picture(&self, index: u64, mut sample: RawSample) -> Option<RawSample> {
        let pts = sample.dts + i64::from(sample.reorder);
        let (dts, pts) = match self.side(pts) {
            Side::Between(number) => (sample.dts + self.moved_at(sample.dts), pts + self.moved(number)),
            Side::Within(number) => {
                let place = &self.list[number];
                let (first, shown_dts) = place.shown.filter(|_| place.needs(index, pts))?;
                let rank = place.hidden.partition_point(|hidden| *hidden < pts);
                let before = u32::try_from(place.hidden.len() - rank).unwrap_or(u32::MAX);
                let (dts, left) = match index < place.last {
                    true => (sample.dts + self.moved_at(sample.dts), 0),
                    false => (shown_dts + self.moved_at(shown_dts), first.saturating_sub(index)),
                };
                sample.unseen = (before, u32::try_from(left).unwrap_or(u32::MAX));
                (dts, place.cut.to + place.cut.moved)
            }
        };
        Some(at(sample, dts, pts))
    }

    fn sound(&self, sample: RawSample) -> Option<RawSample> {
        let pts = sample.dts + i64::from(sample.reorder);
        match self.side(pts + i64::from(sample.duration / 2)) {
            Side::Between(number) => {
                let moved = self.moved(number);
                Some(at(sample, sample.dts + moved, pts + moved))
            }
            Side::Within(_) => None,
        }
    }

    fn cue(&self, sample: RawSample) -> Option<RawSample> {
        let pts = sample.dts + i64::from(sample.reorder);
        let end = pts + i64::from(sample.duration);
        let (begin, number) = match self.side(pts) {
            Side::Between(number) => (pts, number),
            Side::Within(number) => (self.list[number].cut.to, number + 1),
        };
        let end = self.list.get(number).map_or(end, |next| end.min(next.cut.from));
        let duration = u32::try_from(end - begin).ok().filter(|duration| *duration > 0)?;
        let moved = self.moved(number);
        Some(at(RawSample { duration, ..sample }, begin + moved, begin + moved))
    }

    fn side(&self, time: i64) -> Side {
        let begun = self.list.partition_point(|place| place.cut.from <= time);
        match begun.checked_sub(1) {
            Some(number) if time < self.list[number].cut.to => Side::Within(number),
            _ => Side::Between(begun),
        }
    }

    /// What is added to the times behind so many cuts.
    fn moved(&self, number: usize) -> i64 {
        number.checked_sub(1).map_or(0, |last| self.list[last].cut.moved)
    }

    /// What is added to a decoding time.
    fn moved_at(&self, dts: i64) -> i64 {
        self.moved(self.list.partition_point(|place| place.cut.from <= dts))
    }
}

impl Place {
    /// Whether a picture of the cut is decoded.
    fn needs(&self, index: u64, pts: i64) -> bool {
        let (key, key_pts) = self.key;
        // Leading pictures of the key frame are not needed.
        index < self.last || (index >= key && pts >= key_pts)
    }
}

fn at(sample: RawSample, dts: i64, pts: i64) -> RawSample {
    let reorder = i32::try_from(pts - dts).unwrap_or(if pts < dts { i32::MIN } else { i32::MAX });
    RawSample { dts, reorder, ..sample }
}
