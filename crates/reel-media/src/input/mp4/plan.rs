//! Which samples of a track are kept, and how their times become presentation times.
//!
//! The rules for what an edit list cuts off:
//! - Video begins with the last sync sample that is shown at or before zero. Samples before it are
//!   dropped. Samples after it are needed to decode the picture at zero, and keep their negative
//!   times. Pictures that come after that sync sample but are shown before it (leading pictures)
//!   are dropped, as nothing depends on them.
//! - Without such a sync sample, video begins with its first sync sample.
//! - Sound keeps what its decoder needs before zero to warm up, with negative times. The kept part
//!   is stated as priming.
//! - At the end, everything after the last sample in decoding order that begins before the edit's
//!   end is dropped.
//! - All cues are kept: the packager cuts them at zero, and counts those that are left out.

use super::atom::malformed;
use super::cuts::Cuts;
use super::fragments::{FragmentCursor, Fragments};
use super::tables::{RawSample, TableCursor};
use super::trak::MediaTrack;
use crate::codec::warm_up;
use crate::input::metered::SampleBudget;
use crate::{MediaError, Source, TrackKind, limits};
use std::sync::Arc;

/// Walks all samples of a track: those of the `moov` box, then those of the fragments.
#[derive(Clone)]
pub(super) struct Walk {
    table: Option<TableCursor>,
    fragments: FragmentCursor,
    cuts: Option<Arc<Cuts>>,
    /// Number of the next sample of the media.
    index: u64,
    /// Samples that the tables count but do not place.
    missing: u32,
}

/// What is kept of a track. Samples are numbered from 0 in decoding order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    /// The first sample kept.
    pub(super) first: u64,
    /// The first sample that is not kept.
    pub(super) end: u64,
    /// Added to the times of the media.
    pub(super) shift: i64,
    /// Subtracted from decoding times, so that none is after its presentation time.
    pub(super) early: i64,
    /// Samples shown before this time are leading pictures of the first one.
    pub(super) leading_before: Option<i64>,
    /// Presentation time of the first sample kept (or the earliest, for video).
    pub(super) start: i64,
    /// Presentation time at which the last shown of the samples kept ends.
    pub(super) until: i64,
    /// Bytes of all samples of the track.
    pub(super) bytes: u64,
    /// Duration of the samples kept, in ticks.
    pub(super) duration: u64,
    /// Samples without bytes, which are skipped.
    pub(super) empty: u64,
    /// Presentation time of the first of them.
    pub(super) empty_at: i64,
    /// Pictures before the first sync sample, which cannot be decoded.
    pub(super) undecodable: u64,
    /// Presentation time of that sync sample, if there is one.
    pub(super) decodable_at: Option<i64>,
    /// Samples that the tables count but do not place.
    pub(super) missing: u32,
    /// Some sample needs a sample description that cannot follow the others.
    pub(super) mixed: bool,
    /// Times at which the sample description changes.
    pub(super) changes: usize,
    /// The form of the latest sample, see [`MediaTrack::forms`].
    form: Option<usize>,
}

impl Walk {
    pub(super) fn new(track: &MediaTrack, fragments: &Arc<Fragments>) -> Self {
        let table = TableCursor::new(Arc::clone(&track.tables));
        let fragments = FragmentCursor::new(Arc::clone(fragments), track.id, track.track.kind);
        Self { table: Some(table), fragments, cuts: track.cuts.clone(), index: 0, missing: 0 }
    }

    /// Where the samples of the tables end, if there are any: the next decoding time, that of the
    /// last sample, and the end of its presentation.
    pub(super) fn table_end(
        track: &MediaTrack,
        source: &mut dyn Source,
    ) -> Result<Option<(i64, i64, i64)>, MediaError> {
        let mut table = TableCursor::new(Arc::clone(&track.tables));
        let mut end: Option<(i64, i64, i64)> = None;
        while let Some(sample) = table.next() {
            source.work(1)?;
            let shown = sample.dts + i64::from(sample.reorder) + i64::from(sample.duration);
            let shown = end.map_or(shown, |(.., before)| shown.max(before));
            end = Some((table.dts(), sample.dts, shown));
        }
        Ok(end)
    }

    /// The next sample that is not cut out.
    pub(super) fn next(&mut self, source: &mut dyn Source) -> Result<Option<RawSample>, MediaError> {
        while let Some(sample) = self.of_media(source)? {
            let index = self.index;
            self.index += 1;
            let Some(cuts) = &self.cuts else { return Ok(Some(sample)) };
            if let Some(sample) = cuts.place(index, sample) {
                return Ok(Some(sample));
            }
        }
        Ok(None)
    }

    fn of_media(&mut self, source: &mut dyn Source) -> Result<Option<RawSample>, MediaError> {
        source.work(1)?;
        if let Some(table) = &mut self.table {
            if let Some(sample) = table.next() {
                return Ok(Some(sample));
            }
            self.missing = table.missing();
            self.fragments.continue_at(table.dts());
            self.table = None;
        }
        self.fragments.next(source)
    }
}

/// A sample at which a track can begin.
#[derive(Clone, Copy)]
struct Beginning {
    index: u64,
    pts: i64,
    /// Duration of all samples before it, in ticks.
    elapsed: u64,
}

/// Looks for the first sample to keep.
struct Beginnings {
    kind: TrackKind,
    /// Ticks before zero that sound keeps.
    warm_up: i64,
    /// The best beginning so far.
    chosen: Option<Beginning>,
    first_sync: Option<Beginning>,
    /// Earliest presentation time of all samples.
    earliest: i64,
}

impl Beginnings {
    fn see(&mut self, sample: &RawSample, at: Beginning) {
        self.earliest = self.earliest.min(at.pts);
        if sample.sync && self.first_sync.is_none() {
            self.first_sync = Some(at);
        }
        let end = at.pts + i64::from(sample.duration);
        let begins = match self.kind {
            TrackKind::Video => sample.sync && at.pts <= 0,
            TrackKind::Audio => self.chosen.is_none() && end > -self.warm_up,
            TrackKind::Subtitle => self.chosen.is_none(),
        };
        if begins {
            self.chosen = Some(at);
        }
    }
}

impl Plan {
    /// Walks all samples of the track, which take their part of the budget of the file.
    pub(super) fn make(
        track: &MediaTrack,
        fragments: &Arc<Fragments>,
        budget: &mut SampleBudget,
        source: &mut dyn Source,
    ) -> Result<Self, MediaError> {
        let kind = track.track.kind;
        let warm_up = warm_up::ticks(&track.track);
        let mut plan = Self { shift: track.edit.shift, ..Self::default() };
        let mut walk = Walk::new(track, fragments);
        let mut count = 0;
        let mut beginnings = Beginnings { kind, warm_up, chosen: None, first_sync: None, earliest: i64::MAX };
        let mut elapsed = 0u64;
        while let Some(sample) = walk.next(source)? {
            let index = count;
            count += 1;
            if count > limits::MP4_SAMPLES {
                let what = "the number of samples of a track";
                return Err(MediaError::Limit { what, value: count, limit: limits::MP4_SAMPLES });
            }
            plan.add(track, &sample, source.bytes())?;
            budget.add(sample.bytes.into())?;
            let pts = sample.dts + i64::from(sample.reorder) + plan.shift;
            beginnings.see(&sample, Beginning { index, pts, elapsed });
            elapsed += u64::from(sample.duration);
            if track.edit.end.is_none_or(|end| pts < end) {
                plan.end = index + 1;
                plan.duration = elapsed;
                plan.until = plan.until.max(pts.saturating_add(i64::from(sample.duration)));
            }
        }
        plan.missing = walk.missing;
        plan.begin(&beginnings, count);
        Ok(plan)
    }

    /// Checks a sample and counts it.
    fn add(&mut self, track: &MediaTrack, sample: &RawSample, file_bytes: u64) -> Result<(), MediaError> {
        check(sample, track.track.kind == TrackKind::Subtitle, file_bytes)?;
        self.bytes += u64::from(sample.bytes);
        if self.bytes > file_bytes {
            let what = format!("the samples of track {} claim more bytes than the file has", track.id);
            return Err(malformed(sample.offset, what));
        }
        if sample.bytes == 0 && self.empty == 0 {
            self.empty_at = sample.dts + i64::from(sample.reorder) + self.shift;
        }
        self.empty += u64::from(sample.bytes == 0);
        let form = track.form(sample);
        if self.form.is_some() && self.form != form {
            self.changes += 1;
            self.mixed |= track.track.kind == TrackKind::Video && !sample.sync;
        }
        self.mixed |= form.is_none() || self.changes > limits::OUT_CHANGES;
        self.form = form;
        self.early = self.early.max(-i64::from(sample.reorder));
        Ok(())
    }

    /// Sets where the track of `count` samples begins.
    fn begin(&mut self, beginnings: &Beginnings, count: u64) {
        let Beginnings { kind, mut chosen, first_sync, earliest, .. } = *beginnings;
        if kind == TrackKind::Video {
            if chosen.is_none() {
                chosen = first_sync;
                self.undecodable = first_sync.map_or(count, |at| at.index);
                self.decodable_at = first_sync.map(|at| at.pts);
            } else {
                self.leading_before = chosen.map(|at| at.pts);
            }
        }
        if let Some(Beginning { index, pts, elapsed }) = chosen {
            self.first = index;
            self.start = if kind == TrackKind::Video && pts > 0 { earliest } else { pts };
            self.duration = self.duration.saturating_sub(elapsed);
        } else {
            self.end = 0;
            self.duration = 0;
        }
    }
}

fn check(sample: &RawSample, text: bool, file_bytes: u64) -> Result<(), MediaError> {
    let limit = if text { limits::MP4_TEXT_BYTES } else { limits::SAMPLE_BYTES };
    if u64::from(sample.bytes) > limit {
        let what = if text { "the number of bytes of a cue" } else { "the number of bytes of a sample" };
        return Err(MediaError::Limit { what, value: sample.bytes.into(), limit });
    }
    if sample.offset.checked_add(sample.bytes.into()).is_none_or(|end| end > file_bytes) {
        return Err(MediaError::Truncated { container: "MP4", offset: file_bytes });
    }
    Ok(())
}
