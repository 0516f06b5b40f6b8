//! The samples of one track that become its next fragment, and the facts about its earlier
//! fragments.

use super::fragment::{self, Entry};
use super::steps::Steps;
use super::tables::Tables;
use super::{PackError, Piece, init};
use crate::index::{Change, Fragment, RateMeter};
use crate::{Description, Packet, Sample, Track, TrackKind, limits, times, unseen};
use std::cmp::Ordering;
use std::collections::VecDeque;

/// An instant of one track, comparable with instants of others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instant {
    pub(super) ticks: i64,
    pub(super) timescale: u32,
}

impl Instant {
    /// The last tick of a clock at or before it.
    pub(super) fn in_clock(self, timescale: u32) -> i64 {
        // Fits: times were checked when the samples were added.
        (i128::from(self.ticks) * i128::from(timescale) / i128::from(self.timescale)) as i64
    }

    pub(super) fn order(self, other: Instant) -> Ordering {
        let left = i128::from(self.ticks) * i128::from(other.timescale);
        left.cmp(&(i128::from(other.ticks) * i128::from(self.timescale)))
    }

    /// The time as warnings write it.
    pub(super) fn text(self) -> String {
        times::at(self.ticks, self.timescale)
    }

    /// Milliseconds between two instants.
    pub(super) fn apart_ms(self, other: Instant) -> u64 {
        let ms = |at: Instant| i128::from(at.ticks) * 1000 / i128::from(at.timescale);
        (ms(self) - ms(other)).unsigned_abs() as u64
    }
}

/// The track as it is coded according to a description.
fn described(track: &Track, description: &Description) -> Track {
    let mut described = track.clone();
    described.describe(description.clone());
    described
}

/// A sample whose bytes lie in the lane's payload.
#[derive(Clone, Copy, Debug)]
struct Record {
    dts: i64,
    pts: i64,
    duration: u32,
    bytes: u32,
    sync: bool,
}

/// How decoding times become media times; fixed with the first fragment.
#[derive(Clone, Copy, Debug)]
struct Origin {
    first_dts: i64,
    /// Media time of presentation time 0, the same for decoding times. The init segment's edit list
    /// subtracts it again.
    media_offset: i64,
    /// What the edit list of every init segment of the track subtracts.
    edit: u64,
}

/// What is left of a lane at the end.
pub(super) struct Finished {
    pub(super) track: Track,
    pub(super) bytes: u64,
    pub(super) init_bytes: u32,
    pub(super) media_offset: u64,
    pub(super) first_dts: i64,
    pub(super) media_duration: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) samples: u64,
    pub(super) independent: bool,
    pub(super) fragments: Vec<Fragment>,
    pub(super) changes: Vec<Change>,
    pub(super) meter: RateMeter,
    pub(super) tables: Tables,
}

pub(super) struct Lane {
    /// Counted from 1, for messages.
    number: usize,
    track: Track,
    records: VecDeque<Record>,
    payload: Vec<u8>,
    /// Memory of a payload that was written. The next fragment is gathered in it, because fresh
    /// memory of that size costs a page fault every 4 KiB.
    spare: Vec<u8>,
    /// Instants at or after which this lane is to be cut, ascending.
    borders: VecDeque<Instant>,
    /// Records before this one are known to lie before the first border.
    scanned: usize,
    /// Where other tracks change: this lane is to be cut at the nearest possible sample. Ascending.
    wanted: VecDeque<Instant>,
    /// Begins with the next fragment.
    description: Option<Box<Description>>,
    /// Presentation time of the latest change.
    changed_at: Option<i64>,
    origin: Option<Origin>,
    object_bytes: u64,
    init_bytes: u32,
    fragments: Vec<Fragment>,
    changes: Vec<Change>,
    meter: RateMeter,
    tables: Tables,
    last_dts: Option<i64>,
    media_duration: u64,
    shown: Shown,
    steps: Steps,
    samples: u64,
    independent: bool,
}

/// How far a track is shown.
///
/// The duration of a sample is the step to the next decoding time. For reordered pictures it can be
/// the step over a pause that lies elsewhere in the order of presentation. So the sample shown last
/// is taken to last as long as the shortest sample from it to the end in decoding order. If it is
/// also the last one in that order, as for sound, this is its own duration.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    /// Largest presentation time; `None` before the first sample.
    last: Option<i64>,
    /// Duration of the sample with that time.
    ticks: u32,
}

impl Shown {
    fn add(&mut self, pts: i64, duration: u32) {
        if self.last.is_none_or(|last| pts >= last) {
            *self = Shown { last: Some(pts), ticks: duration };
        } else if duration > 0 {
            self.ticks = self.ticks.min(duration);
        }
    }

    /// What is shown last is shown until then.
    fn extend(&mut self, end: i64) {
        let longer = self.last.and_then(|last| u32::try_from(end - last).ok());
        self.ticks = self.ticks.max(longer.unwrap_or(0));
    }

    fn end(self) -> i64 {
        self.last.map_or(0, |last| last + i64::from(self.ticks))
    }
}

impl Record {
    /// Whether a fragment may begin with it. A sample without a duration, which the last of a file
    /// may be, cannot: alone it would be a segment without a duration, which a manifest cannot
    /// state.
    fn begins(self) -> bool {
        self.sync && self.duration > 0
    }
}

impl Lane {
    pub(super) fn new(number: usize, track: Track) -> Lane {
        let steps = Steps::new(track.timescale);
        Lane {
            number,
            track,
            records: VecDeque::new(),
            payload: Vec::new(),
            spare: Vec::new(),
            borders: VecDeque::new(),
            scanned: 0,
            wanted: VecDeque::new(),
            description: None,
            changed_at: None,
            origin: None,
            object_bytes: 0,
            init_bytes: 0,
            fragments: Vec::new(),
            changes: Vec::new(),
            meter: RateMeter::default(),
            tables: Tables::default(),
            last_dts: None,
            media_duration: 0,
            shown: Shown::default(),
            steps,
            samples: 0,
            independent: true,
        }
    }

    pub(super) fn track(&self) -> &Track {
        &self.track
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.tables.bytes()
    }

    /// Memory held by the unfinished fragment, and its presentation ticks up to the newest sample.
    pub(super) fn held(&self) -> (usize, u64) {
        let first = self.records.front().map_or(0, |r| r.pts);
        let last = self.records.back().map_or(0, |r| r.pts);
        (self.payload.len() + self.records.len() * size_of::<Record>(), (last - first).max(0) as u64)
    }

    /// Presentation ticks of the unfinished fragment without its pauses.
    pub(super) fn played(&self) -> u64 {
        self.steps.played(self.held().1)
    }

    /// Presentation time of the first sample of the unfinished fragment.
    pub(super) fn start(&self) -> Option<Instant> {
        self.records.front().map(|first| self.instant(first.pts))
    }

    /// Presentation end of all samples so far.
    pub(super) fn end(&self) -> Instant {
        self.instant(self.shown.end())
    }

    /// Refuses times that are so late that they must be a mistake, and whose sums in nanoseconds
    /// would overflow.
    pub(super) fn check_times(&self, sample: &Sample) -> Result<(), PackError> {
        let seconds = |time: i64| time.unsigned_abs() / u64::from(self.track.timescale);
        let (value, limit) = (seconds(sample.dts).max(seconds(sample.pts)), limits::OUT_SECONDS);
        if value > limit {
            return Err(PackError::Limit {
                track: self.number,
                what: "a sample's time in seconds",
                value,
                limit,
            });
        }
        Ok(())
    }

    pub(super) fn append(&mut self, packet: &Packet, data: &[u8]) -> Result<(), PackError> {
        let sample = packet.sample;
        if let Some(last) = self.last_dts
            && !(0..=i64::from(u32::MAX)).contains(&(sample.dts - last))
        {
            return Err(PackError::DecodingOrder {
                track: self.number,
                from: last,
                to: sample.dts,
                timescale: self.track.timescale,
            });
        }
        if i32::try_from(sample.pts - sample.dts).is_err() {
            return Err(self.composition(sample.dts, sample.pts));
        }
        if self.samples == 0 && self.track.kind == TrackKind::Video && !sample.sync {
            return Err(PackError::NoKeyFrameFirst { track: self.number });
        }
        let bytes = u32::try_from(data.len()).map_err(|_| PackError::Limit {
            track: self.number,
            what: "the size of a sample",
            value: data.len() as u64,
            limit: u64::from(u32::MAX),
        })?;
        self.last_dts = Some(sample.dts);
        self.shown.add(sample.pts, sample.duration);
        self.steps.add(sample.pts);
        self.samples += 1;
        // Sound can be decoded from any sample, whatever the container marks.
        let sync = sample.sync || self.track.kind == TrackKind::Audio;
        self.records.push_back(Record {
            dts: sample.dts,
            pts: sample.pts,
            duration: sample.duration,
            bytes,
            sync,
        });
        self.payload.extend_from_slice(data);
        Ok(())
    }

    /// Notes that this lane is to be cut at the first possible sample at or after `border`, unless
    /// it was cut for a change of its own near there.
    pub(super) fn expect(&mut self, border: Instant) {
        let near = |at: i64| self.instant(at).apart_ms(border) < limits::CHANGE_NEAR_MS;
        if !self.changed_at.is_some_and(near) {
            self.borders.push_back(border);
        }
    }

    /// The number of held samples that form the next fragment, if its border is known and reached.
    pub(super) fn cut_by_border(&mut self) -> Option<usize> {
        while let Some(border) = self.borders.front().copied() {
            let reached = |r: &Record| self.instant(r.pts).order(border).is_ge();
            match (self.scanned..self.records.len())
                .find(|i| self.records[*i].begins() && reached(&self.records[*i]))
            {
                // The fragment already starts at or after this border (a gap, or a late track).
                Some(0) => {
                    self.borders.pop_front();
                    self.scanned = 0;
                }
                Some(count) => return Some(count),
                None => {
                    self.scanned = self.records.len();
                    return None;
                }
            }
        }
        None
    }

    /// The next sample begins a new description; the samples before it have been closed.
    pub(super) fn describe(&mut self, sample: &Sample, description: &Description) -> Instant {
        if self.fragments.is_empty() {
            self.track = described(&self.track, description);
        } else {
            self.description = Some(Box::new(description.clone()));
            self.changed_at = Some(sample.pts);
        }
        self.instant(sample.pts)
    }

    /// Notes that another track changes at this instant.
    pub(super) fn want(&mut self, at: Instant) {
        self.wanted.push_back(at);
    }

    /// The number of held samples before the one that can start a fragment nearest to a change of
    /// another track, once it is known which one that is: a possible sample at or after the change
    /// has come, or (`last`) none will come. Such a sample is the newest one, except after
    /// [`Lane::want`] (`all`).
    pub(super) fn cut_by_change(&mut self, all: bool, last: bool) -> Option<usize> {
        while let Some(at) = self.wanted.front().copied() {
            let reaches = |r: &Record| self.instant(r.pts).order(at).is_ge();
            let newest = self.records.len().saturating_sub(1);
            let from = if all || last { 0 } else { newest };
            let after =
                (from..self.records.len()).find(|i| self.records[*i].begins() && reaches(&self.records[*i]));
            if after.is_none() && !last {
                return None;
            }
            self.wanted.pop_front();
            let before = (0..after.unwrap_or(self.records.len())).rfind(|i| self.records[*i].begins());
            let apart = |i: &usize| self.instant(self.records[*i].pts).apart_ms(at);
            if let Some(count) = before.into_iter().chain(after).min_by_key(apart).filter(|i| *i > 0) {
                return Some(count);
            }
        }
        None
    }

    /// The number of held samples before the first one that can start a fragment `ticks` after the
    /// current start.
    pub(super) fn cut_after(&self, ticks: u64) -> Option<usize> {
        let start = self.records.front()?.pts;
        (1..self.records.len())
            .find(|i| self.records[*i].begins() && self.records[*i].pts.saturating_sub(start) >= ticks as i64)
    }

    /// The number of held samples before the newest one, if that one can start a fragment.
    pub(super) fn newest_start(&self) -> Option<usize> {
        let last = self.records.len().checked_sub(1).filter(|last| *last > 0)?;
        (self.records[last].begins() && !self.steps.is_after_pause).then_some(last)
    }

    /// The longest of the latest steps from one shown picture to the next, in milliseconds.
    pub(super) fn step_ms(&self) -> u64 {
        self.steps.longest().unsigned_abs().saturating_mul(1000) / u64::from(self.track.timescale)
    }

    /// Whether anything has been added.
    pub(super) fn has_samples(&self) -> bool {
        self.samples > 0
    }

    /// The last picture of the unfinished fragment that can be decoded alone: its times and bytes.
    pub(super) fn newest_key(&self) -> Option<(Sample, &[u8])> {
        let place = self.records.iter().rposition(|record| record.sync)?;
        let Record { dts, pts, duration, bytes, sync } = self.records[place];
        let offset: usize = self.records.range(..place).map(|record| record.bytes as usize).sum();
        let data = self.payload.get(offset..offset + bytes as usize)?;
        Some((Sample { dts, pts, duration, sync }, data))
    }

    /// How long before its presentation the newest sample is decoded.
    pub(super) fn newest_ahead(&self) -> i64 {
        self.records.back().map_or(0, |record| record.pts - record.dts)
    }

    /// The last sample is shown until this time of the track.
    pub(super) fn extend(&mut self, end: i64) {
        let Some(last) = self.records.back_mut() else { return };
        let Ok(duration) = u32::try_from(end - last.pts) else { return };
        last.duration = last.duration.max(duration);
        self.shown.extend(end);
    }

    /// Turns the first `count` held samples into a fragment.
    pub(super) fn close(&mut self, count: usize, pieces: &mut Vec<Piece>) -> Result<(), PackError> {
        let origin = match self.origin {
            Some(origin) => origin,
            None => self.begin(count, pieces),
        };
        if let Some(description) = self.description.take() {
            self.change(*description, origin, pieces);
        }
        let mut entries = Vec::with_capacity(count);
        let mut payload_bytes = 0;
        let mut earliest = i64::MAX;
        for i in 0..count {
            let record = self.records[i];
            let next = self.records.get(i + 1);
            let duration = next.map_or(record.duration, |next| (next.dts - record.dts) as u32);
            // The steps between pictures that are not shown say nothing about the rate.
            if next.is_some() && (self.track.kind != TrackKind::Video || record.pts >= 0) {
                self.meter.step(duration);
            }
            // In range: checked when the sample was added.
            let composition = (record.pts - record.dts) as i32;
            entries.push(Entry { duration, bytes: record.bytes, sync: record.sync, composition });
            self.tables.push(duration, composition, record.bytes, record.sync);
            self.media_duration += u64::from(duration);
            payload_bytes += record.bytes as usize;
            earliest = earliest.min(record.pts);
        }
        self.independent &= earliest == self.records[0].pts;
        let sequence = self.fragments.len() as u32 + 1;
        // Not negative: the first decoding time is not, and no other is smaller.
        let decode_time = (self.records[0].dts + origin.media_offset).max(0) as u64;
        let header = fragment::header(sequence, decode_time, &entries, payload_bytes as u32);
        self.note(earliest, &entries, header.len(), payload_bytes);

        self.records.drain(..count);
        let mut rest = std::mem::take(&mut self.spare);
        rest.extend_from_slice(&self.payload[payload_bytes..]);
        self.payload.truncate(payload_bytes);
        let payload = std::mem::replace(&mut self.payload, rest);
        self.scanned = 0;
        self.steps.finish_fragment();
        let track = self.number - 1;
        pieces.push(Piece { track, bytes: header });
        pieces.push(Piece { track, bytes: payload });
        Ok(())
    }

    /// Takes back the memory of a piece that was written.
    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() > self.spare.capacity() {
            bytes.clear();
            self.spare = bytes;
        }
    }

    pub(super) fn held_samples(&self) -> usize {
        self.records.len()
    }

    /// Changes of description, with one that has no fragment yet.
    pub(super) fn changes(&self) -> usize {
        self.changes.len() + usize::from(self.description.is_some())
    }

    pub(super) fn fragments(&self) -> usize {
        self.fragments.len()
    }

    pub(super) fn finish(mut self) -> Option<Finished> {
        let origin = self.origin?;
        let start = self.fragments.first()?.time;
        let end = (self.shown.end().max(0) as u64).max(self.fragments.last()?.time);
        if let Some(last) = self.fragments.last_mut() {
            last.duration = end - last.time;
        }
        Some(Finished {
            track: self.track,
            bytes: self.object_bytes,
            init_bytes: self.init_bytes,
            media_offset: origin.media_offset as u64,
            first_dts: origin.first_dts,
            media_duration: self.media_duration,
            start,
            end,
            samples: self.samples,
            independent: self.independent,
            fragments: self.fragments,
            changes: self.changes,
            meter: self.meter,
            tables: self.tables,
        })
    }

    /// Fixes the origin from the first fragment and writes the init segment.
    fn begin(&mut self, count: usize, pieces: &mut Vec<Piece>) -> Origin {
        let first = self.records[0];
        let earliest = self.records.iter().take(count).map(|r| r.pts).min().unwrap_or(first.pts);
        // Decoding times cannot be negative in a fragment. Composition offsets of either sign could
        // start both times at 0, but ffmpeg and related programs show such pictures late by the
        // largest negative offset.
        let media_offset = (-earliest.min(first.dts)).max(0);
        let is_video = self.track.kind == TrackKind::Video;
        let delay = if is_video { unseen::delay(earliest, self.track.timescale) } else { 0 };
        let edit = (media_offset - delay) as u64;
        let origin = Origin { first_dts: first.dts, media_offset, edit };
        self.origin = Some(origin);
        let init = init::segment(&self.track, edit);
        self.init_bytes = init.len() as u32;
        self.object_bytes = init.len() as u64;
        pieces.push(Piece { track: self.number - 1, bytes: init });
        origin
    }

    /// Writes the init segment of a new description.
    fn change(&mut self, description: Description, origin: Origin, pieces: &mut Vec<Piece>) {
        let init = init::segment(&described(&self.track, &description), origin.edit);
        let Description { config, video, audio } = description;
        let (fragment, init_bytes) = (self.fragments.len() as u32, init.len() as u32);
        self.changes.push(Change { fragment, init_bytes, config, video, audio });
        self.object_bytes += u64::from(init_bytes);
        pieces.push(Piece { track: self.number - 1, bytes: init });
    }

    fn note(&mut self, earliest: i64, entries: &[Entry], header_bytes: usize, payload_bytes: usize) {
        let time = earliest.max(0) as u64;
        let time = self.fragments.last().map_or(time, |last| time.max(last.time));
        if let Some(last) = self.fragments.last_mut() {
            last.duration = time - last.time;
        }
        let bytes = (header_bytes + payload_bytes) as u32;
        self.fragments.push(Fragment {
            offset: self.object_bytes,
            time,
            duration: 0,
            bytes,
            samples: entries.len() as u32,
            header_bytes: header_bytes as u32,
            key_bytes: header_bytes as u32 + entries[0].bytes,
        });
        self.object_bytes += u64::from(bytes);
    }

    fn instant(&self, ticks: i64) -> Instant {
        Instant { ticks, timescale: self.track.timescale }
    }

    fn composition(&self, dts: i64, pts: i64) -> PackError {
        PackError::Composition { track: self.number, dts, pts, timescale: self.track.timescale }
    }
}
