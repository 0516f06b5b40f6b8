//! Movie fragments (ISO/IEC 14496-12, 8.8): `moof` boxes, walked one at a time for each track.

use super::atom::{Atom, Fields, FourCc, malformed};
use super::notes::Notes;
use super::tables::RawSample;
use crate::{MediaError, Source, TrackKind, limits};
use std::sync::Arc;

/// The defaults of `trex` for samples whose fragment does not state a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults {
    pub(super) track_id: u32,
    pub(super) description: u32,
    pub(super) duration: u32,
    pub(super) bytes: u32,
    pub(super) flags: u32,
}

/// The fragments of a file.
#[derive(Default)]
pub(super) struct Fragments {
    /// Offset and length of the body of each `moof` that is played, in file order.
    pub(super) moofs: Vec<Moof>,
    /// The films in the file whose fragments are played; `None` for others.
    pub(super) films: Vec<Option<FilmOf>>,
    /// How times are moved, see [`Moof::part`].
    pub(super) parts: Vec<Part>,
    /// What is said of fragments that are not played.
    pub(super) notes: Notes,
    /// Offset from which a file that is cut off is left out.
    pub(super) cut_at: Option<u64>,
    /// The tracks that are looked for; the place of each is its bit in [`Moof::tracks`].
    pub(super) ids: Vec<u32>,
}

/// What the fragments of one film have in common.
#[derive(Default)]
pub(super) struct FilmOf {
    /// `trex` of every track.
    pub(super) defaults: Vec<Defaults>,
    /// Offset of the film.
    pub(super) start: u64,
    /// Offsets of data that are stated as places in the film are those of the `moof` boxes. A
    /// fragment may have been moved in the file.
    pub(super) counts_from_moof: bool,
    /// For each track, how many sample descriptions come before those of the film, and how many it
    /// has. Empty for the first film.
    pub(super) descriptions: Vec<(u32, u32)>,
    /// For each track, what its times need to have the origin of the first film.
    pub(super) shifts: Vec<i64>,
}

/// A stretch of fragments whose times are moved by the same time.
pub(super) struct Part {
    /// Their film.
    pub(super) film: u16,
    /// Ticks that are added, for each track.
    pub(super) moved: Vec<i64>,
}

/// One `moof` box.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moof {
    /// Offset of the box: sample offsets may count from here.
    pub(super) start: u64,
    /// Offset of its body.
    pub(super) body: u64,
    /// Length of its body.
    pub(super) bytes: u32,
    /// Number of its film.
    pub(super) film: u16,
    /// Number of its part.
    pub(super) part: u16,
    /// Pictures before it are missing, or belong to another part: its pictures begin with a key
    /// frame.
    pub(super) begins: bool,
    /// The tracks with samples in it, a bit for each: others need not read it.
    pub(super) tracks: u128,
}

/// Walks the samples of one track through all fragments.
#[derive(Clone)]
pub(super) struct FragmentCursor {
    fragments: Arc<Fragments>,
    track_id: u32,
    /// The place of the track in [`Fragments::ids`].
    line: Option<usize>,
    /// The bit of the track in [`Moof::tracks`].
    bit: u128,
    kind: TrackKind,
    part: u16,
    next_moof: usize,
    /// Body of the current `moof`.
    moof: Arc<Vec<u8>>,
    /// The track's runs in it that have not begun.
    runs: std::vec::IntoIter<SampleRun>,
    current: Option<SampleRun>,
    dts: i64,
    /// Samples that are left out at the beginning of a part.
    left_out: LeftOut,
    /// Duration of the last sample.
    last: u32,
    /// Ticks from the end of the last sample to the next one, if a frame may have been there.
    gap: u32,
}

/// What of a new part is not played.
#[derive(Clone, Copy)]
enum LeftOut {
    Nothing,
    /// Sound before the end of the sound that was played, whose frames last so long. The duration
    /// of a frame may have a gap in it.
    SoundBefore(i64, u32),
    /// Pictures before the first key frame.
    Undecodable,
    /// Pictures that are shown before the key frame and follow it.
    Leading(i64),
}

/// A `trun` with everything that it inherits.
#[derive(Clone)]
pub(super) struct SampleRun {
    /// Offset of its next sample.
    pub(super) offset: u64,
    pub(super) left: u32,
    /// Position of its rows in the body of the `moof`.
    row: usize,
    fields: u32,
    first_flags: Option<u32>,
    pub(super) defaults: Defaults,
    /// `tfdt`, on the first run of a track fragment.
    pub(super) decode_time: Option<u64>,
}

/// `trun` flags: which fields each row and the header have.
mod run_flag {
    pub(super) const DATA_OFFSET: u32 = 1;
    pub(super) const FIRST_FLAGS: u32 = 4;
    pub(super) const DURATION: u32 = 0x100;
    pub(super) const BYTES: u32 = 0x200;
    pub(super) const FLAGS: u32 = 0x400;
    pub(super) const REORDER: u32 = 0x800;
}

/// `tfhd` flags.
mod head_flag {
    pub(super) const BASE_OFFSET: u32 = 1;
    pub(super) const DESCRIPTION: u32 = 2;
    pub(super) const DURATION: u32 = 8;
    pub(super) const BYTES: u32 = 0x10;
    pub(super) const FLAGS: u32 = 0x20;
    pub(super) const BASE_IS_MOOF: u32 = 0x2_0000;
}

/// The header of the box with the data of a fragment.
const MDAT_HEADER_BYTES: u64 = 8;
/// Fragments without the track that are passed over in a unit of work.
const SKIPS_A_UNIT: usize = 16;

/// sample_is_non_sync_sample, and sample_depends_on = 1, which some writers set alone.
const NOT_SYNC: u32 = 0x0101_0000;

impl Defaults {
    /// Reads a `trex` box.
    pub(super) fn parse(trex: &Atom<'_>) -> Result<Self, MediaError> {
        let (_, _, mut fields) = trex.full()?;
        let [track_id, description, duration, bytes, flags] =
            [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
        Ok(Self { track_id, description, duration, bytes, flags })
    }
}

impl Fragments {
    /// The place of a track; `None` for one that is not looked for.
    pub(super) fn line(&self, track_id: u32) -> Option<usize> {
        self.ids.iter().position(|id| *id == track_id)
    }

    fn of_moof(&self, moof: &Moof) -> Option<(&Part, &FilmOf)> {
        let part = self.parts.get(usize::from(moof.part))?;
        Some((part, self.films.get(usize::from(part.film))?.as_ref()?))
    }
}

/// The bit of the track at this place.
pub(super) fn bit(line: Option<usize>) -> u128 {
    line.and_then(|line| 1_u128.checked_shl(line as u32)).unwrap_or(0)
}

impl Moof {
    /// Its body. The walk of the top level has checked that it lies in the file, and its length.
    pub(super) fn read(&self, source: &mut dyn Source) -> Result<Vec<u8>, MediaError> {
        let mut body = vec![0; self.bytes as usize];
        source.read_at(self.body, &mut body)?;
        Ok(body)
    }
}

impl FragmentCursor {
    /// Starts before the first fragment. The frames of sound last equally long: one without a
    /// duration after a gap of one frame takes the place of the gap. Writers of one fragment for
    /// each frame (ffmpeg 5.1) count the frame before twice.
    pub(super) fn new(fragments: Arc<Fragments>, track_id: u32, kind: TrackKind) -> Self {
        let line = fragments.line(track_id);
        Self {
            line,
            bit: bit(line),
            kind,
            part: 0,
            fragments,
            track_id,
            next_moof: 0,
            moof: Arc::default(),
            runs: Vec::new().into_iter(),
            current: None,
            dts: 0,
            left_out: LeftOut::Nothing,
            last: 0,
            gap: 0,
        }
    }

    /// Sets the decoding time at which the samples of the `moov` box end.
    pub(super) fn continue_at(&mut self, dts: i64) {
        self.dts = dts;
    }

    /// The next sample of the track; `None` after the last fragment.
    pub(super) fn next(&mut self, source: &mut dyn Source) -> Result<Option<RawSample>, MediaError> {
        loop {
            match &mut self.current {
                Some(run) if run.left > 0 => {
                    let Some(mut sample) = run.sample(&self.moof, self.dts) else {
                        return Err(malformed(run.offset, "a `trun` box is shorter than its samples"));
                    };
                    let gap = std::mem::take(&mut self.gap);
                    if sample.duration == 0 {
                        sample.dts -= i64::from(gap);
                        sample.duration = gap;
                    }
                    self.last = sample.duration;
                    self.dts = (sample.dts + i64::from(sample.duration)).min(limits::MP4_TICKS);
                    if self.left_out.takes(&sample) {
                        source.work(1)?;
                        continue;
                    }
                    return Ok(Some(sample));
                }
                _ => {}
            }
            if let Some(run) = self.runs.next() {
                if let Some(time) = run.decode_time {
                    self.go_to(time)?;
                }
                self.current = Some(run);
                continue;
            }
            self.current = None;
            let Some(moof) = self.fragments.moofs.get(self.next_moof).copied() else { return Ok(None) };
            self.next_moof += 1;
            if moof.tracks & self.bit == 0 {
                if self.next_moof.is_multiple_of(SKIPS_A_UNIT) {
                    source.work(1)?;
                }
                continue;
            }
            self.enter(&moof, source)?;
        }
    }

    /// Begins with a fragment that has samples of the track.
    fn enter(&mut self, moof: &Moof, source: &mut dyn Source) -> Result<(), MediaError> {
        self.moof = Arc::new(moof.read(source)?);
        let Some((part, film)) = self.fragments.of_moof(moof) else { return Ok(()) };
        let of_track = |track_id| track_id == self.track_id;
        let mut runs = runs(&self.moof, moof, film, of_track, source)?;
        if let Some(line) = self.line {
            let moved = part.moved.get(line).copied().unwrap_or(0);
            for run in &mut runs {
                // Checked when the part was found.
                run.decode_time = run.decode_time.and_then(|time| time.checked_add_signed(moved));
                run.defaults.description = film.description(line, run.defaults.description);
            }
        }
        let is_next_part = std::mem::replace(&mut self.part, moof.part) != moof.part;
        match self.kind {
            TrackKind::Audio if is_next_part => self.left_out = LeftOut::SoundBefore(self.dts, self.last),
            TrackKind::Video if moof.begins => self.left_out = LeftOut::Undecodable,
            _ => {}
        }
        self.runs = runs.into_iter();
        Ok(())
    }

    /// The next sample is decoded at this time.
    fn go_to(&mut self, time: u64) -> Result<(), MediaError> {
        let dts =
            i64::try_from(time).ok().filter(|time| *time <= limits::MP4_TICKS).ok_or(MediaError::Limit {
                what: "the decode time of a fragment (tfdt)",
                value: time,
                limit: limits::MP4_TICKS as u64,
            })?;
        let gap = u32::try_from(dts - self.dts).unwrap_or(0);
        self.gap = if self.kind == TrackKind::Audio && gap <= self.last { gap } else { 0 };
        self.dts = dts;
        Ok(())
    }
}

impl LeftOut {
    /// Whether a sample is left out.
    fn takes(&mut self, sample: &RawSample) -> bool {
        let pts = sample.dts + i64::from(sample.reorder);
        match *self {
            Self::Nothing => return false,
            Self::SoundBefore(end, step) if sample.dts + i64::from(sample.duration.min(step) / 2) < end => {
                return true;
            }
            Self::Undecodable if sample.sync => {
                *self = Self::Leading(pts);
                return false;
            }
            Self::Undecodable => return true,
            Self::Leading(key) if pts < key => return true,
            _ => {}
        }
        *self = Self::Nothing;
        false
    }
}

impl FilmOf {
    /// The number of a sample description of a track among those of all films. One that the film
    /// does not have is taken for its first.
    fn description(&self, line: usize, number: u32) -> u32 {
        match self.descriptions.get(line) {
            Some((before, count)) if (1..=*count).contains(&number) => before + number,
            Some((before, _)) => before + 1,
            None => number,
        }
    }
}

impl SampleRun {
    /// Its next sample, decoded at `dts`; `None` if its table is too short.
    pub(super) fn sample(&mut self, moof: &[u8], dts: i64) -> Option<RawSample> {
        let mut row = moof.get(self.row..self.row + row_bytes(self.fields))?.chunks_exact(4);
        let mut field = |flag: u32| -> Option<u32> {
            let bytes = if self.fields & flag == 0 { None } else { row.next() }?;
            Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        // Rows have these fields in this order.
        let duration = field(run_flag::DURATION).unwrap_or(self.defaults.duration);
        let bytes = field(run_flag::BYTES).unwrap_or(self.defaults.bytes);
        let flags = field(run_flag::FLAGS);
        // Signed in version 1. Version 0 is unsigned by the standard, but writers put negative
        // numbers there too.
        let reorder = field(run_flag::REORDER).unwrap_or(0) as i32;
        let flags = self.first_flags.take().or(flags).unwrap_or(self.defaults.flags);
        let sample = RawSample {
            offset: self.offset,
            bytes,
            dts,
            reorder,
            duration,
            sync: flags & NOT_SYNC == 0,
            description: self.defaults.description,
            unseen: (0, 0),
        };
        self.row += row_bytes(self.fields);
        self.left -= 1;
        self.offset = self.offset.saturating_add(bytes.into());
        Some(sample)
    }
}

/// The runs of the wanted tracks in a fragment. All tracks must be visited, because data may follow
/// that of the track before.
pub(super) fn runs(
    body: &[u8],
    moof: &Moof,
    film: &FilmOf,
    wanted: impl Fn(u32) -> bool,
    source: &mut dyn Source,
) -> Result<Vec<SampleRun>, MediaError> {
    let mut found = Vec::new();
    let mut seen = 0;
    let mut end_of_data = moof.start;
    let atom = Atom { kind: FourCc(*b"moof"), body, offset: moof.body };
    for traf in atom.children() {
        source.work(1)?;
        let traf = traf?;
        if traf.kind.0 != *b"traf" {
            continue;
        }
        let (head, base) = head(&traf, moof, film, end_of_data)?;
        let mut decode_time = match traf.child(b"tfdt")? {
            Some(tfdt) => {
                let (version, _, mut fields) = tfdt.full()?;
                Some(fields.u32_or_u64(version == 1)?)
            }
            None => None,
        };
        end_of_data = base;
        for trun in traf.children() {
            source.work(1)?;
            let trun = trun?;
            if trun.kind.0 != *b"trun" {
                continue;
            }
            seen += 1;
            if seen > limits::MP4_RUNS {
                let (value, limit) = (seen as u64, limits::MP4_RUNS as u64);
                return Err(MediaError::Limit {
                    what: "the number of sample runs in a fragment",
                    value,
                    limit,
                });
            }
            let mut run = run(&trun, moof, head, base, end_of_data)?;
            // The sizes of its samples are added up, which costs less than a visit to each.
            source.work(u64::from(run.left) * u64::from(run.row_bytes()) / 64)?;
            end_of_data = run.offset.saturating_add(run.bytes(body));
            if wanted(head.track_id) {
                run.decode_time = decode_time.take();
                found.push(run);
            }
        }
    }
    Ok(found)
}

/// Whether the first `moof` box of a film counts the places of its data from itself, although it
/// states places in the film: they then begin in the `mdat` box behind it.
pub(super) fn counts_from_moof(body: &[u8], moof: &Moof) -> bool {
    let atom = Atom { kind: FourCc(*b"moof"), body, offset: moof.body };
    let first = || {
        let traf = atom.child(b"traf").ok()??;
        let (_, of_head, _) = traf.child(b"tfhd").ok()??.full().ok()?;
        let (_, of_run, mut fields) = traf.child(b"trun").ok()??.full().ok()?;
        fields.skip(4).ok()?;
        let is_stated = of_head & head_flag::BASE_OFFSET != 0 && of_run & run_flag::DATA_OFFSET != 0;
        is_stated.then(|| fields.u32().ok())?
    };
    let end = moof.body - moof.start + u64::from(moof.bytes);
    first().is_some_and(|offset| u64::from(offset) == end + MDAT_HEADER_BYTES)
}

/// The number of a fragment (`mfhd`), if it states one.
pub(super) fn number(body: &[u8]) -> Option<u32> {
    let atom = Atom { kind: FourCc(*b"moof"), body, offset: 0 };
    atom.child(b"mfhd").ok()??.full().ok()?.2.u32().ok()
}

/// `tfhd`: what the samples of this track fragment inherit, and the base of their offsets.
fn head(
    traf: &Atom<'_>,
    moof: &Moof,
    film: &FilmOf,
    end_of_data: u64,
) -> Result<(Defaults, u64), MediaError> {
    let (_, flags, mut fields) = traf.required(b"tfhd")?.full()?;
    let track_id = fields.u32()?;
    let mut head = film.defaults.iter().find(|trex| trex.track_id == track_id).copied().unwrap_or_default();
    head.track_id = track_id;
    let mut base = if flags & head_flag::BASE_IS_MOOF != 0 { moof.start } else { end_of_data };
    if flags & head_flag::BASE_OFFSET != 0 {
        let stated = fields.u64()?.saturating_add(film.start);
        base = if film.counts_from_moof { moof.start } else { stated };
    }
    for (flag, field) in [
        (head_flag::DESCRIPTION, &mut head.description),
        (head_flag::DURATION, &mut head.duration),
        (head_flag::BYTES, &mut head.bytes),
        (head_flag::FLAGS, &mut head.flags),
    ] {
        if flags & flag != 0 {
            *field = fields.u32()?;
        }
    }
    Ok((head, base))
}

fn run(
    trun: &Atom<'_>,
    moof: &Moof,
    head: Defaults,
    base: u64,
    end_of_data: u64,
) -> Result<SampleRun, MediaError> {
    let (_, flags, mut fields) = trun.full()?;
    let count = fields.u32()?;
    let offset = if flags & run_flag::DATA_OFFSET != 0 {
        let relative = i64::from(fields.i32()?);
        base.checked_add_signed(relative)
            .ok_or_else(|| malformed(trun.offset, format!("data offset {relative} points before the file")))?
    } else {
        end_of_data
    };
    let first_flags = if flags & run_flag::FIRST_FLAGS != 0 { Some(fields.u32()?) } else { None };
    check_rows(&fields, flags, count, head)?;
    Ok(SampleRun {
        offset,
        left: count,
        row: (fields.offset() - moof.body) as usize,
        fields: flags,
        first_flags,
        defaults: head,
        decode_time: None,
    })
}

/// Refuses counts for which the box is too short, and samples that take no bytes anywhere.
fn check_rows(fields: &Fields<'_>, flags: u32, count: u32, head: Defaults) -> Result<(), MediaError> {
    let row = row_bytes(flags);
    if row > 0 && fields.rest().len() / row < count as usize {
        let room = fields.rest().len() / row;
        let what = format!("`trun` claims {count} samples where there is room for {room}");
        return Err(malformed(fields.offset(), what));
    }
    if row == 0 && head.bytes == 0 && count > 0 {
        return Err(malformed(fields.offset(), format!("`trun` claims {count} samples of no size")));
    }
    Ok(())
}

impl SampleRun {
    /// Bytes of a row of its table; 0 if all samples are alike.
    fn row_bytes(&self) -> u32 {
        row_bytes(self.fields) as u32
    }

    /// Bytes of all its samples.
    pub(super) fn bytes(&self, moof: &[u8]) -> u64 {
        if self.fields & run_flag::BYTES == 0 {
            return u64::from(self.left) * u64::from(self.defaults.bytes);
        }
        let column = if self.fields & run_flag::DURATION == 0 { 0 } else { 4 };
        let row = row_bytes(self.fields);
        let rows = &moof[self.row..self.row + row * self.left as usize];
        rows.chunks_exact(row)
            .map(|row| {
                u64::from(u32::from_be_bytes([
                    row[column],
                    row[column + 1],
                    row[column + 2],
                    row[column + 3],
                ]))
            })
            .sum()
    }
}

fn row_bytes(fields: u32) -> usize {
    let all = [run_flag::DURATION, run_flag::BYTES, run_flag::FLAGS, run_flag::REORDER];
    all.iter().filter(|flag| fields & **flag != 0).count() * 4
}
