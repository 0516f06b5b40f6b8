//! Edit lists (ISO/IEC 14496-12, 8.6.6): where the media lies on the time line of the presentation.
//!
//! Editors cut a film by a list of stretches of its media, and pauses. A list is followed as long
//! as each stretch begins at or after the end of the one before, and is shown at its own speed:
//! what lies between two of them is cut out ([`super::cuts`]). A list that shows media again, in
//! another order or at another speed is followed up to there, and all tracks end there, so that
//! picture and sound stay in step. If its first stretch has another speed, the media is shown as a
//! whole at its own speed, in all tracks. A picture that is held becomes a pause.

use super::atom::{Atom, Fields, malformed};
use super::trak::MediaTrack;
use crate::input::warnings::Warnings;
use crate::subtitle::webvtt;
use crate::{MediaError, limits};

/// What is followed of an edit list. Times of the presentation are in ticks of the track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Edit {
    /// Added to media times: the delay minus the media time at which the first stretch begins.
    pub(super) shift: i64,
    /// When the presentation ends; `None` for the end of the media.
    pub(super) end: Option<i64>,
    /// What is cut out, in order.
    pub(super) cuts: Vec<Cut>,
    /// What is not followed.
    rest: Option<Rest>,
    /// A picture that is held: from and to.
    held: Option<(i64, i64)>,
}

/// A stretch of media that is cut out, or a pause if it is empty. Media times, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Where it begins.
    pub(super) from: i64,
    /// Where it ends.
    pub(super) to: i64,
    /// Added to the times of the media after it, with all that was cut out before.
    pub(super) moved: i64,
}

/// What is not followed of an edit list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    from: i64,
    to: i64,
    /// It begins with the first stretch.
    is_all: bool,
    why: &'static str,
}

/// An entry of the list. Times of the presentation are in ticks of the movie.
struct Entry {
    duration: u64,
    media_time: i64,
    rate: u32,
}

const NORMAL: u32 = 0x1_0000;
const SPEED: &str = "plays media faster or slower";
const ORDER: &str = "shows media again or in another order";
const MANY: &str = "has too many pieces";

/// A list while it is read.
struct Reading {
    edit: Edit,
    /// Ticks per second of the movie, and of the track.
    scales: (u32, u32),
    /// Presentation time so far, in ticks of the movie.
    at: u64,
    /// Where the latest stretch of media ends; `None` if there is none yet.
    media_end: Option<i64>,
    offset: u64,
}

impl Edit {
    /// Whether the presentation begins with a picture that is held.
    pub(super) fn begins_held(&self) -> bool {
        self.held.is_some_and(|(from, _)| from == 0)
    }

    /// Reads `trak/edts/elst`.
    pub(super) fn parse(trak: &Atom<'_>, movie_timescale: u32, timescale: u32) -> Result<Self, MediaError> {
        let Some(elst) = (match trak.child(b"edts")? {
            Some(edts) => edts.child(b"elst")?,
            None => None,
        }) else {
            return Ok(Self::default());
        };
        let (version, _, mut fields) = elst.full()?;
        let wide = version == 1;
        let count = fields.u32()? as usize;
        let room = fields.rest().len() / if wide { 20 } else { 12 };
        if count > room {
            let what = format!("`elst` claims {count} entries where there is room for {room}");
            return Err(malformed(elst.offset, what));
        }
        let entries: Result<Vec<Entry>, MediaError> =
            (0..count.min(limits::MP4_EDITS)).map(|_| Entry::read(&mut fields, wide)).collect();
        let entries = entries?;
        let is_media = |entry: &&Entry| entry.media_time != -1;
        if movie_timescale == 0 && entries.iter().any(|entry| is_media(&entry)) {
            return Err(malformed(elst.offset, "an edit list, but the movie's timescale is 0"));
        }
        // Some writers leave out the rate of the only entry.
        let may_hold = entries.iter().filter(is_media).count() > 1;
        let scales = (movie_timescale, timescale);
        let (edit, offset) = (Self::default(), elst.offset);
        let mut reading = Reading { edit, scales, at: 0, media_end: None, offset };
        for entry in &entries {
            if !reading.take(entry, may_hold)? {
                let rest = entries.iter().map(|entry| entry.duration).fold(0, u64::saturating_add);
                let end = reading.ticks(rest.max(reading.at))?;
                reading.edit.rest = reading.edit.rest.map(|rest| Rest { to: end, ..rest });
                break;
            }
        }
        Ok(reading.edit)
    }

    /// It is one stretch of media.
    pub(super) fn is_simple(&self) -> bool {
        self.cuts.iter().all(|cut| cut.from == Cut::BEGINNING) && self.rest.is_none()
    }

    /// Ends the presentation at `end`, unless it ends before.
    fn end_at(&mut self, end: i64) {
        self.end = Some(self.end.map_or(end, |own| own.min(end)));
        let shift = self.shift;
        self.cuts.retain(|cut| cut.to + cut.moved + shift < end);
    }
}

impl Cut {
    /// Where a cut begins that has all media before the first stretch. It is cut out if a pause
    /// comes before that; otherwise it lies before the presentation.
    pub(super) const BEGINNING: i64 = -limits::MP4_TICKS;
}

impl Entry {
    fn read(fields: &mut Fields<'_>, wide: bool) -> Result<Self, MediaError> {
        let duration = fields.u32_or_u64(wide)?;
        // Minus one marks an empty edit. Other negative times have no meaning and are read as zero.
        let media_time = if wide { fields.u64()? as i64 } else { i64::from(fields.i32()?) };
        Ok(Self { duration, media_time, rate: fields.u32()? })
    }
}

impl Reading {
    /// Takes an entry; returns whether the list is followed up to its end.
    fn take(&mut self, entry: &Entry, may_hold: bool) -> Result<bool, MediaError> {
        let begin = self.ticks(self.at)?;
        let after = self.at.checked_add(entry.duration).ok_or_else(|| self.too_large())?;
        let is_held = may_hold && entry.rate == 0;
        if entry.media_time == -1 || is_held {
            self.at = after;
            if is_held && entry.media_time != -1 {
                self.edit.held = self.edit.held.or(Some((begin, self.ticks(after)?)));
            }
            return Ok(true);
        }
        let start = entry.media_time.max(0);
        if start > limits::MP4_TICKS {
            return Err(self.too_large());
        }
        let is_normal = entry.rate == NORMAL || entry.rate == 0;
        let slack = self.scales.1.div_ceil(self.scales.0);
        let why = match self.media_end {
            _ if !is_normal => Some(SPEED),
            Some(end) if start < end - i64::from(slack) => Some(ORDER),
            Some(_) if self.edit.cuts.len() >= limits::MP4_CUTS => Some(MANY),
            _ => None,
        };
        if self.media_end.is_none() {
            self.edit.shift = begin - start;
            if begin > 0 && start > 0 {
                self.edit.cuts.push(Cut { from: Cut::BEGINNING, to: start, moved: 0 });
            }
        }
        if let Some(why) = why {
            let is_all = self.media_end.is_none();
            self.edit.rest = Some(Rest { from: begin, to: begin, is_all, why });
            return Ok(false);
        }
        if let Some(end) = self.media_end {
            self.cut(end.min(start), start, begin, i64::from(slack));
        }
        // No duration means to the end, as in fragmented files.
        if entry.duration == 0 {
            self.edit.end = None;
            return Ok(false);
        }
        self.edit.end = Some(begin + self.up(entry.duration)?);
        self.media_end = Some(start + self.ticks(entry.duration)?);
        self.at = after;
        Ok(true)
    }

    /// The media from `from` to `to` is cut out, and the rest shown at `at`. A difference of times
    /// by their rounding is no pause.
    fn cut(&mut self, from: i64, to: i64, at: i64, rounding: i64) {
        let moved = at - to - self.edit.shift;
        let before = self.edit.cuts.last().map_or(0, |cut| cut.moved);
        if to - from > rounding || (moved - before).abs() > rounding {
            self.edit.cuts.push(Cut { from, to, moved });
        }
    }

    /// A time of the movie in ticks of the track.
    fn ticks(&self, time: u64) -> Result<i64, MediaError> {
        let half = u128::from(self.scales.0) / 2;
        self.scaled(time, half)
    }

    /// The same, rounded up.
    fn up(&self, time: u64) -> Result<i64, MediaError> {
        self.scaled(time, u128::from(self.scales.0).saturating_sub(1))
    }

    fn scaled(&self, time: u64, more: u128) -> Result<i64, MediaError> {
        let (movie, track) = (u128::from(self.scales.0), u128::from(self.scales.1));
        let ticks = (u128::from(time) * track + more).checked_div(movie).unwrap_or(0);
        i64::try_from(ticks).ok().filter(|ticks| *ticks <= limits::MP4_TICKS).ok_or_else(|| self.too_large())
    }

    fn too_large(&self) -> MediaError {
        malformed(self.offset, "an edit list states an impossible time")
    }
}

/// Lets all tracks end where the list of one of them is not followed any more, and says so.
pub(super) fn settle(tracks: &mut [MediaTrack], warnings: &mut Warnings) {
    let ms = |ticks: i64, timescale: u32| {
        let ms = i128::from(ticks) * 1000 / i128::from(timescale);
        u64::try_from(ms).unwrap_or(0)
    };
    for media in tracks.iter() {
        if let Some((from, to)) = media.edit.held {
            let [from, to] = [from, to].map(|ticks| webvtt::time(ms(ticks, media.track.timescale)));
            warnings.add(format!(
                "track {}: the edit list holds a picture from {from} to {to}, which becomes a pause",
                media.id
            ));
        }
    }
    let rests = tracks.iter().filter_map(|media| Some((media.edit.rest?, media.track.timescale)));
    let Some((rest, timescale)) = rests.clone().min_by_key(|(rest, of)| ms(rest.from, *of)) else { return };
    let why = rest.why;
    if rest.is_all {
        tracks.iter_mut().for_each(|media| media.edit = Edit { shift: media.edit.shift, ..Edit::default() });
        warnings.add(format!(
            "the edit list {why}, from the beginning on: all of the media is shown, at its own speed"
        ));
        return;
    }
    let end = rests.map(|(rest, of)| ms(rest.to, of)).max().unwrap_or(0);
    let from = ms(rest.from, timescale);
    for media in tracks {
        let ticks = i128::from(rest.from) * i128::from(media.track.timescale) / i128::from(timescale);
        media.edit.end_at(i64::try_from(ticks).unwrap_or(i64::MAX));
    }
    warnings.add(format!(
        "the edit list {why} from {} on: the rest, {:.3} s, is left out",
        webvtt::time(from),
        end.saturating_sub(from) as f64 / 1000.0
    ));
}

/// All tracks end where the first cut of a track begins, of which `count` pictures would have to be
/// decoded.
pub(super) fn give_up(tracks: &mut [MediaTrack], track: usize, count: u64, warnings: &mut Warnings) {
    let of_track = &tracks[track];
    let timescale = of_track.track.timescale;
    let Some(cut) = of_track.edit.cuts.iter().find(|cut| cut.from != Cut::BEGINNING) else { return };
    let end = cut.from + of_track.edit.shift;
    for media in tracks {
        let ticks = i128::from(end) * i128::from(media.track.timescale) / i128::from(timescale);
        media.edit.end_at(i64::try_from(ticks).unwrap_or(i64::MAX));
        media.cuts = None;
        media.edit.cuts.clear();
    }
    let ms = i128::from(end) * 1000 / i128::from(timescale);
    warnings.add(format!(
        "the edit list cuts out {count} pictures on which shown ones depend, too many: what comes after {} is \
         left out",
        webvtt::time(u64::try_from(ms).unwrap_or(0))
    ));
}

#[cfg(test)]
mod tests {
    use super::super::atom::FourCc;
    use super::*;

    fn edits(list: &[(u32, i32)]) -> Result<Edit, MediaError> {
        let mut elst = vec![0; 4];
        elst.extend((list.len() as u32).to_be_bytes());
        for (duration, time) in list {
            elst.extend(duration.to_be_bytes());
            elst.extend(time.to_be_bytes());
            elst.extend([0, 1, 0, 0]);
        }
        let wrap = |kind: &[u8; 4], body: Vec<u8>| {
            let mut bytes = (body.len() as u32 + 8).to_be_bytes().to_vec();
            bytes.extend(kind);
            bytes.extend(body);
            bytes
        };
        let trak = wrap(b"edts", wrap(b"elst", elst));
        Edit::parse(&Atom { kind: FourCc(*b"trak"), body: &trak, offset: 0 }, 1000, 48_000)
    }

    #[test]
    fn delay_start_and_end() {
        let one = |shift, end| Edit { shift, end, ..Edit::default() };
        assert_eq!(edits(&[]).expect("no edits"), Edit::default());
        let edit = edits(&[(500, -1), (2001, 1024)]).expect("an edit list");
        let cuts = vec![Cut { from: Cut::BEGINNING, to: 1024, moved: 0 }];
        assert_eq!(edit, Edit { cuts, ..one(24_000 - 1024, Some(24_000 + 96_048)) });
        let edit = edits(&[(0, 1024)]).expect("an edit list");
        assert_eq!(edit, one(-1024, None));
    }

    #[test]
    fn stretches_in_order_are_cuts_and_pauses() {
        let edit = edits(&[(1000, 1024), (1000, 97_024), (500, -1), (0, 200_000)]).expect("an edit list");
        let cuts = [
            Cut { from: 49_024, to: 97_024, moved: -48_000 },
            Cut { from: 145_024, to: 200_000, moved: 120_000 + 1024 - 200_000 },
        ];
        assert_eq!((edit.shift, edit.end, &edit.cuts[..]), (-1024, None, &cuts[..]));
        assert!(edit.rest.is_none());
        // One film in two pieces is whole.
        let edit = edits(&[(1001, 0), (1000, 48_048)]).expect("an edit list");
        assert_eq!((edit.cuts.len(), edit.end), (0, Some(96_048)));
    }

    #[test]
    fn what_cannot_be_followed() {
        let edit = edits(&[(1000, 0), (100, -1), (1000, 48_000), (5, 7)]).expect("an edit list");
        let rest = Rest { from: 100_800, to: 101_040, is_all: false, why: ORDER };
        assert_eq!((edit.cuts.len(), edit.rest), (1, Some(rest)));
        let edit = edits(&[(1000, 0), (1000, 0)]).expect("an edit list");
        assert_eq!((edit.end, edit.rest.map(|rest| rest.from)), (Some(48_000), Some(48_000)));
    }
}
