//! Where the fragments of a file lie on one time line.
//!
//! A file may be joined from several, with or without a `moov` box for each, and downloads may have
//! lost, cut off or repeated a fragment. The rules, in the order of the file:
//!
//! - A fragment that contradicts itself, or whose data is cut off, is left out.
//! - A fragment that was there before, with the same time and the same data, is left out.
//! - Times that go back begin a new part, and so does another film whose times do not continue
//!   those before it. All its tracks are moved by one amount, the least with which the pictures
//!   continue after their end and the sound about there, so both keep their distance.
//! - Where numbers of fragments are missing, or one was left out, a gap in the times is a loss.
//!   Other gaps are pauses.
//! - After a loss and in a new part, pictures begin with a key frame.

use super::fragments::{FilmOf, Fragments, Moof, Part, SampleRun, bit, counts_from_moof, number, runs};
use super::layout::Layout;
use super::notes::{Hole, What};
use crate::{MediaError, Source, TrackKind, limits};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A track, as far as its fragments are placed.
pub(super) struct Line {
    /// track_ID.
    pub(super) id: u32,
    pub(super) timescale: u32,
    pub(super) kind: TrackKind,
    /// Where the next sample is due, in ticks; `None` before the first.
    pub(super) end: Option<i64>,
    /// Decoding time of the last sample.
    pub(super) last: i64,
    /// End of the presentation of its latest sample.
    pub(super) shown: i64,
    /// It has samples in the newest part.
    joined: bool,
    /// The latest reason for a loss that was compared with its times.
    cause: u64,
    /// Why pictures are left out up to the next key frame.
    lost: Option<u64>,
}

/// The samples of a track in one fragment, in ticks from the first.
struct Span {
    line: usize,
    /// `tfdt`.
    start: Option<i64>,
    ticks: i64,
    /// Decoding time of the last sample.
    last: i64,
    /// When the earliest begins to be shown, and the latest ends.
    shown: (i64, i64),
    /// When the first key frame is shown.
    key: Option<i64>,
}

/// The walk over all fragments.
struct Scan<'a> {
    source: &'a mut dyn Source,
    layout: &'a Layout,
    lines: Vec<Line>,
    out: Fragments,
    /// The fragments of the newest part, by a hash of their `moof` boxes.
    seen: HashMap<u64, usize>,
    /// Bytes that were compared to find repeated fragments.
    compared: u64,
    /// Film and number of the latest fragment.
    number: Option<(u16, u32)>,
    /// Offset of the first of the damaged fragments before the next one, and how many they are.
    damaged: Option<(u64, u64)>,
    /// Reasons for losses so far.
    cause: u64,
    /// Why the first damaged fragment is.
    error: Option<MediaError>,
    /// The film that was left out latest.
    film_left: Option<u16>,
}

/// Sound that is left out at most where a new part begins, so that pictures continue without a gap:
/// a part of a second.
const SOUND_CUT: i64 = 5;
/// Times of sound that come so much before its end are inaccurate only: a part of a second.
const SOUND_BACK: i64 = 10;
/// The times of another film continue those before it up to such a gap.
const JUMP_S: i64 = 10;
/// Fragments that are looked at for the first times of all tracks in a new part.
const AHEAD: usize = 8;
/// Samples whose times are looked at in a unit of work.
const SAMPLES_A_UNIT: u64 = 8;

/// Places all fragments of the `films` that are played.
pub(super) fn place(
    layout: &Layout,
    films: Vec<Option<FilmOf>>,
    lines: Vec<Line>,
    source: &mut dyn Source,
) -> Result<Fragments, MediaError> {
    let ids: Vec<u32> = lines.iter().map(|line| line.id).collect();
    let first = Part { film: first_film(&films), moved: vec![0; ids.len()] };
    let out = Fragments { films, ids, parts: vec![first], cut_at: layout.cut_at, ..Fragments::default() };
    let mut scan = Scan {
        source,
        layout,
        lines,
        out,
        seen: HashMap::new(),
        compared: 0,
        number: None,
        damaged: None,
        cause: 0,
        error: None,
        film_left: None,
    };
    scan.read_bases()?;
    let count = scan.whole()?;
    for at in 0..count {
        scan.take(at)?;
    }
    scan.finish()
}

impl Line {
    /// Before its first sample.
    pub(super) fn new(id: u32, timescale: u32, kind: TrackKind) -> Self {
        Self { id, timescale, kind, end: None, last: 0, shown: 0, joined: true, cause: 0, lost: None }
    }

    /// Whether samples from `at` on can follow in the same part.
    fn follows(&self, at: i64) -> bool {
        let Some(end) = self.end else { return true };
        match self.kind {
            TrackKind::Video => at >= self.last,
            TrackKind::Audio => at - end >= -(i64::from(self.timescale) / SOUND_BACK).max(end - self.last),
            TrackKind::Subtitle => true,
        }
    }

    /// What must be added to the times of samples so that they begin after its end.
    fn needs(&self, first: &Span, at: i64, beside_pictures: bool) -> Option<i64> {
        let end = self.end?;
        match self.kind {
            TrackKind::Video => Some((end - at).max(self.shown - at - first.shown.0)),
            TrackKind::Audio if beside_pictures => Some(end - at - i64::from(self.timescale) / SOUND_CUT),
            TrackKind::Audio => Some(end - at),
            TrackKind::Subtitle => None,
        }
    }
}

impl Scan<'_> {
    /// Finds how the fragments of each film state the places of their data.
    fn read_bases(&mut self) -> Result<(), MediaError> {
        let mut seen = vec![false; self.out.films.len()];
        for moof in &self.layout.moofs {
            let film = usize::from(moof.film);
            let (Some(seen), Some(Some(film))) = (seen.get_mut(film), self.out.films.get_mut(film)) else {
                continue;
            };
            if !std::mem::replace(seen, true) {
                film.counts_from_moof = counts_from_moof(&moof.read(self.source)?, moof);
            }
        }
        Ok(())
    }

    /// How many fragments a file has before those at its end that are cut off with it.
    fn whole(&mut self) -> Result<usize, MediaError> {
        let layout = self.layout;
        for (at, moof) in layout.moofs.iter().enumerate().rev() {
            let Some(Some(film)) = self.out.films.get(usize::from(moof.film)) else { return Ok(at + 1) };
            let body = moof.read(self.source)?;
            let all = match runs(&body, moof, film, |_| true, self.source) {
                Err(MediaError::Malformed { .. }) => return Ok(at + 1),
                all => all?,
            };
            if all.iter().all(|run| run.offset.saturating_add(run.bytes(&body)) <= self.source.bytes()) {
                return Ok(at + 1);
            }
            self.out.cut_at = Some(moof.start);
        }
        Ok(0)
    }

    fn take(&mut self, at: usize) -> Result<(), MediaError> {
        let moof = self.layout.moofs[at];
        let Some(Some(film)) = self.out.films.get(usize::from(moof.film)) else {
            self.leave_film(moof.film);
            return Ok(());
        };
        let body = moof.read(self.source)?;
        let found = match runs(&body, &moof, film, |_| true, self.source) {
            Err(error @ MediaError::Malformed { .. }) => {
                self.error = self.error.take().or(Some(error));
                None
            }
            found => Some(found?).filter(|runs| self.is_whole(runs, &body)),
        };
        let spans = match &found {
            Some(runs) => self.spans(runs, &body)?,
            None => None,
        };
        let (Some(runs), Some(spans)) = (found, spans) else {
            self.damage(&moof);
            return Ok(());
        };
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let hash = hasher.finish();
        let is_timed = !spans.is_empty() && spans.iter().all(|span| span.start.is_some());
        if is_timed && self.is_repeated(hash, &moof, &body, &runs)? {
            self.repeat(&spans, moof.film);
            return Ok(());
        }
        if !self.are_possible(&spans, moof.film) || self.is_misplaced(at, &spans)? {
            self.damage(&moof);
            return Ok(());
        }
        self.follow_number(&moof, number(&body));
        self.find_part(at, &spans)?;
        if is_timed {
            self.seen.insert(hash, self.out.moofs.len());
        }
        self.keep(moof, &spans);
        Ok(())
    }

    /// The fragment is played.
    fn keep(&mut self, mut moof: Moof, spans: &[Span]) {
        // At most as many as the limit on parts.
        moof.part = (self.out.parts.len() - 1) as u16;
        for span in spans {
            moof.begins |= self.advance(span);
            moof.tracks |= bit(Some(span.line));
        }
        self.out.moofs.push(moof);
    }

    /// The fragment was there before.
    fn repeat(&mut self, spans: &[Span], film: u16) {
        let hole = spans.first().map(|span| {
            let start = span.start.unwrap_or(0) + self.moved(film, span.line);
            let from = start.saturating_add(span.shown.0);
            Hole { line: span.line, from, to: from }
        });
        self.out.notes.repeat(hole);
    }

    fn damage(&mut self, moof: &Moof) {
        let (from, count) = self.damaged.unwrap_or((moof.start, 0));
        self.damaged = Some((from, count + 1));
    }

    /// The fragment belongs to a film that is not played.
    fn leave_film(&mut self, number: u16) {
        if self.film_left.replace(number) == Some(number) {
            return;
        }
        let films = &self.layout.films;
        let Some(film) = films.get(usize::from(number)) else { return };
        let end = films.get(usize::from(number) + 1).map_or(self.source.bytes(), |next| next.start);
        let hole = self.end();
        self.out.notes.add(What::Film { at: film.start, bytes: end - film.start }, hole);
    }

    /// Where the first track that has samples ends.
    fn end(&self) -> Option<Hole> {
        let line = self.lines.iter().position(|line| line.end.is_some())?;
        let shown = self.lines[line].shown;
        Some(Hole { line, from: shown, to: shown })
    }

    /// Whether the data of a fragment is there, and in one piece.
    fn is_whole(&self, runs: &[SampleRun], body: &[u8]) -> bool {
        let resumed = &self.layout.resumed;
        runs.iter().all(|run| {
            let end = run.offset.saturating_add(run.bytes(body));
            let next = resumed.partition_point(|resumed| *resumed <= run.offset);
            end <= self.source.bytes() && resumed.get(next).is_none_or(|resumed| *resumed >= end)
        })
    }

    /// The samples of each track; `None` if their times are impossible.
    fn spans(&mut self, runs: &[SampleRun], body: &[u8]) -> Result<Option<Vec<Span>>, MediaError> {
        let mut spans: Vec<Span> = Vec::new();
        for run in runs {
            let Some(line) = self.out.line(run.defaults.track_id) else { continue };
            self.source.work(u64::from(run.left) / SAMPLES_A_UNIT)?;
            let start = match run.decode_time.map(i64::try_from) {
                None => None,
                Some(Ok(start)) if start <= limits::MP4_TICKS => Some(start),
                Some(_) => return Ok(None),
            };
            let at = spans.iter().position(|span| span.line == line).unwrap_or_else(|| {
                spans.push(Span { line, start, ticks: 0, last: 0, shown: (i64::MAX, 0), key: None });
                spans.len() - 1
            });
            spans[at].add(run, body, start);
        }
        spans.retain(|span| span.shown.0 < i64::MAX);
        Ok(Some(spans))
    }

    /// Whether the same fragment was there before in the newest part. What is compared is bounded.
    fn is_repeated(
        &mut self,
        hash: u64,
        moof: &Moof,
        body: &[u8],
        of_moof: &[SampleRun],
    ) -> Result<bool, MediaError> {
        let Some(before) = self.seen.get(&hash).map(|at| self.out.moofs[*at]) else { return Ok(false) };
        let Some(Some(film)) = self.out.films.get(usize::from(before.film)) else { return Ok(false) };
        if before.film != moof.film || before.read(self.source)? != body {
            return Ok(false);
        }
        let of_before = runs(body, &before, film, |_| true, self.source)?;
        for (one, other) in of_before.iter().zip(of_moof) {
            let bytes = one.bytes(body);
            self.compared = self.compared.saturating_add(bytes);
            if self.compared > self.source.bytes()
                || !super::films::are_equal((one.offset, bytes), (other.offset, bytes), self.source)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the times of a fragment, and those that it would get, are no larger than any film's.
    fn are_possible(&self, spans: &[Span], film: u16) -> bool {
        spans.iter().all(|span| {
            let at = span.start.map(|start| start + self.moved(film, span.line));
            at.is_none_or(|at| at.abs() <= limits::MP4_TICKS) && span.ticks <= limits::MP4_TICKS
        })
    }

    /// Whether the time of a fragment is damaged: the next one is where it is due after this one.
    fn is_misplaced(&mut self, at: usize, spans: &[Span]) -> Result<bool, MediaError> {
        let film = self.layout.moofs[at].film;
        if self.out.parts.last().is_some_and(|part| part.film != film) {
            return Ok(false);
        }
        let jumps = |span: &&Span| {
            let line = &self.lines[span.line];
            let at = span.start.map(|start| start + self.moved(film, span.line));
            let gap = at.zip(line.end).filter(|_| line.joined).map(|(at, end)| at - end);
            gap.is_some_and(|gap| !line.follows(at.unwrap_or(0)) || gap > JUMP_S * i64::from(line.timescale))
        };
        let Some(span) = spans.iter().find(jumps) else { return Ok(false) };
        let next = self.firsts(at + 1, film)?;
        let next = next.iter().find(|next| next.line == span.line).and_then(|next| next.start);
        let line = &self.lines[span.line];
        let due = line.end.map(|end| end + span.ticks);
        let next = next.map(|next| next + self.moved(film, span.line));
        let step = (span.ticks - span.last).max(1);
        Ok(next.zip(due).is_some_and(|(next, due)| (next - due).abs() <= step))
    }

    /// Notes whether fragments before this one were left out or are missing.
    fn follow_number(&mut self, moof: &Moof, number: Option<u32>) {
        let before = std::mem::replace(&mut self.number, number.map(|number| (moof.film, number)));
        if let Some((at, count)) = self.damaged.take() {
            self.cause += 1;
            self.out.notes.add(What::Damaged { cause: self.cause, at, count }, None);
            return;
        }
        if let (Some((film, before)), Some(number)) = (before, number)
            && film == moof.film
            && number > before.saturating_add(1)
        {
            self.cause += 1;
        }
    }

    /// What is added to the times of a track if the newest part continues with this film.
    fn moved(&self, film: u16, line: usize) -> i64 {
        let shift = |film: u16| {
            let film = self.out.films.get(usize::from(film)).and_then(Option::as_ref);
            film.and_then(|film| film.shifts.get(line)).copied().unwrap_or(0)
        };
        let part = self.out.parts.last();
        part.map_or(0, |part| part.moved[line] - shift(part.film) + shift(film))
    }

    /// Begins a new part if a fragment needs one.
    fn find_part(&mut self, at: usize, spans: &[Span]) -> Result<(), MediaError> {
        let film = self.layout.moofs[at].film;
        let is_other = self.out.parts.last().is_some_and(|part| part.film != film);
        let fits = spans.iter().all(|span| {
            let line = &self.lines[span.line];
            let Some(at) = span.start.map(|start| start + self.moved(film, span.line)) else { return true };
            if !is_other {
                return !line.joined || line.follows(at);
            }
            let is_near = line.end.is_none_or(|end| at - end <= JUMP_S * i64::from(line.timescale));
            line.follows(at) && is_near
        });
        if fits && !is_other {
            return Ok(());
        }
        let mut moved: Vec<i64> = (0..self.lines.len()).map(|line| self.moved(film, line)).collect();
        if !fits {
            let (ticks, timescale) = self.joint(at, &moved)?;
            for (moved, line) in moved.iter_mut().zip(&self.lines) {
                let exact = i128::from(ticks) * i128::from(line.timescale);
                let rounded = (exact + i128::from(timescale) / 2).div_euclid(i128::from(timescale));
                let most = 2 * i128::from(limits::MP4_TICKS);
                *moved = (i128::from(*moved) + rounded).clamp(-most, most) as i64;
            }
        }
        self.lines.iter_mut().for_each(|line| line.joined = false);
        self.seen.clear();
        if self.out.parts.len() >= limits::MP4_PARTS {
            let limit = limits::MP4_PARTS as u64;
            return Err(MediaError::Limit { what: "the number of joined parts", value: limit + 1, limit });
        }
        self.out.parts.push(Part { film, moved });
        Ok(())
    }

    /// The time by which a part that begins with a fragment is moved beside `moved`, as ticks and
    /// ticks per second.
    fn joint(&mut self, at: usize, moved: &[i64]) -> Result<(i64, u32), MediaError> {
        let firsts = self.firsts(at, self.layout.moofs[at].film)?;
        let is_video = |span: &Span| self.lines[span.line].kind == TrackKind::Video;
        let beside = firsts.iter().any(is_video);
        let needed = firsts.iter().filter_map(|span| {
            let line = &self.lines[span.line];
            Some((line.needs(span, span.start? + moved[span.line], beside)?, line.timescale))
        });
        let largest = needed.max_by(|(one, of_one), (other, of_other)| {
            let seconds = |ticks: i64, of: u32| i128::from(ticks) * i128::from(of);
            seconds(*one, *of_other).cmp(&seconds(*other, *of_one))
        });
        Ok(largest.unwrap_or((0, 1)))
    }

    /// The first samples of each track from a fragment on, in the same film.
    fn firsts(&mut self, at: usize, number: u16) -> Result<Vec<Span>, MediaError> {
        let mut firsts: Vec<Span> = Vec::new();
        let layout = self.layout;
        let moofs = layout.moofs.iter().skip(at).take(AHEAD);
        for moof in moofs.take_while(|moof| moof.film == number) {
            let Some(Some(film)) = self.out.films.get(usize::from(number)) else { break };
            let body = moof.read(self.source)?;
            let runs = match runs(&body, moof, film, |_| true, self.source) {
                Err(MediaError::Malformed { .. }) => continue,
                runs => runs?,
            };
            let spans = self.spans(&runs, &body)?.unwrap_or_default();
            let is_new = |span: &Span| firsts.iter().all(|first| first.line != span.line);
            let new: Vec<Span> = spans.into_iter().filter(is_new).collect();
            firsts.extend(new);
            if firsts.len() == self.lines.len() {
                break;
            }
        }
        Ok(firsts)
    }

    /// Takes the samples of a track; returns whether its pictures begin again.
    fn advance(&mut self, span: &Span) -> bool {
        let moved = self.out.parts.last().map_or(0, |part| part.moved[span.line]);
        let line = &mut self.lines[span.line];
        let due = line.end.unwrap_or(0);
        let at = span.start.map_or(due, |start| start + moved);
        let is_first = !std::mem::replace(&mut line.joined, true);
        let is_pending = std::mem::replace(&mut line.cause, self.cause) != self.cause;
        let is_late = (at - due) * 2 > due - line.last;
        let is_loss = is_pending && !is_first && is_late && line.end.is_some();
        let lost = line.lost.take().or(is_loss.then_some(self.cause));
        let limit = limits::MP4_TICKS;
        line.end = Some((at + span.ticks).min(limit));
        line.last = (at + span.last).min(limit);
        let is_video = line.kind == TrackKind::Video;
        let hole = |to: i64| Hole { line: span.line, from: line.shown, to: at.saturating_add(to) };
        match (lost, span.key) {
            // No picture of the fragment can be decoded.
            (Some(_), None) if is_video => {
                line.lost = lost;
                return is_loss;
            }
            (Some(cause), Some(key)) if is_video => self.out.notes.add_hole(cause, hole(key)),
            (Some(cause), _) if line.kind == TrackKind::Audio => {
                self.out.notes.add_hole(cause, hole(span.shown.0));
            }
            _ => {}
        }
        let shown = at.saturating_add(span.shown.1).min(limit);
        line.shown = if is_first { shown } else { shown.max(line.shown) };
        is_video && (is_first || is_loss)
    }

    fn finish(mut self) -> Result<Fragments, MediaError> {
        for (number, line) in self.lines.iter().enumerate() {
            if let (Some(cause), Some(to)) = (line.lost, line.end) {
                self.out.notes.add_hole(cause, Hole { line: number, from: line.shown, to });
            }
        }
        if let Some((at, count)) = self.damaged.take() {
            let end = self.end();
            self.out.notes.add(What::Damaged { cause: 0, at, count }, end);
        }
        // Nothing else can be played: the damage is the reason.
        let is_empty = self.out.moofs.is_empty() && self.lines.iter().all(|line| line.end.is_none());
        match self.error.filter(|_| is_empty) {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }
}

impl Span {
    /// Adds a run of samples, which may state its time.
    fn add(&mut self, run: &SampleRun, body: &[u8], start: Option<i64>) {
        let mut run = run.clone();
        let mut at = match (start, self.start) {
            (Some(start), Some(first)) => start - first,
            _ => self.ticks,
        };
        while run.left > 0 {
            let Some(sample) = run.sample(body, at) else { return };
            self.last = at;
            let duration = i64::from(sample.duration);
            let pts = at.saturating_add(i64::from(sample.reorder));
            self.key = self.key.or(sample.sync.then_some(pts));
            self.shown = (self.shown.0.min(pts), self.shown.1.max(pts.saturating_add(duration)));
            at = at.saturating_add(duration);
        }
        self.ticks = at;
    }
}

fn first_film(films: &[Option<FilmOf>]) -> u16 {
    // At most as many as the limit on films.
    films.iter().position(Option::is_some).unwrap_or(0) as u16
}
