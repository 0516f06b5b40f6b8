//! Edit lists (ISO/IEC 14496-12, 8.6.6): where the media lies on the time line of the presentation.

use super::atom::{Atom, malformed};
use crate::{MediaError, limits};

/// What Reel keeps of an edit list: one stretch of media, shown after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// Added to media times, in ticks of the track: the delay minus the media time at which the
    /// edit begins.
    pub(super) shift: i64,
    /// Presentation time at which the edit ends, in ticks of the track; `None` for the end of the
    /// media.
    pub(super) end: Option<i64>,
    /// Further stretches of media, which are not kept.
    pub(super) ignored: usize,
}

impl Edit {
    /// Media time is presentation time.
    pub(super) const NONE: Self = Self { shift: 0, end: None, ignored: 0 };

    /// Reads `trak/edts/elst`. Leading empty edits delay the track. The first stretch of media is
    /// used, later ones are counted.
    pub(super) fn parse(trak: &Atom<'_>, movie_timescale: u32, timescale: u32) -> Result<Self, MediaError> {
        let Some(elst) = (match trak.child(b"edts")? {
            Some(edts) => edts.child(b"elst")?,
            None => None,
        }) else {
            return Ok(Self::NONE);
        };
        let (version, _, mut fields) = elst.full()?;
        let wide = version == 1;
        let count = fields.u32()? as usize;
        let room = fields.rest().len() / if wide { 20 } else { 12 };
        if count > room {
            let what = format!("`elst` claims {count} entries where there is room for {room}");
            return Err(malformed(elst.offset, what));
        }
        let too_large = || malformed(elst.offset, "an edit list states an impossible time");
        let mut delay = 0u64;
        let mut found: Option<Self> = None;
        for _ in 0..count.min(limits::MP4_EDITS) {
            let duration = fields.u32_or_u64(wide)?;
            // Minus one marks an empty edit. Other negative times have no meaning and are read as
            // zero.
            let media_time = if wide { fields.u64()? as i64 } else { i64::from(fields.i32()?) };
            fields.skip(4)?; // the rate
            match (&mut found, media_time) {
                (None, -1) => delay = delay.checked_add(duration).ok_or_else(too_large)?,
                (Some(_), -1) => {}
                (Some(edit), _) => edit.ignored += 1,
                (None, start) => {
                    if movie_timescale == 0 {
                        return Err(malformed(elst.offset, "an edit list, but the movie's timescale is 0"));
                    }
                    let ticks = |time: u64, round_up: bool| {
                        let scaled = u128::from(time) * u128::from(timescale);
                        let movie = u128::from(movie_timescale);
                        let ticks =
                            if round_up { scaled.div_ceil(movie) } else { (scaled + movie / 2) / movie };
                        i64::try_from(ticks)
                            .ok()
                            .filter(|ticks| *ticks <= limits::MP4_TICKS)
                            .ok_or_else(too_large)
                    };
                    if start > limits::MP4_TICKS {
                        return Err(too_large());
                    }
                    let pause = ticks(delay, false)?;
                    // No duration means to the end, as in fragmented files.
                    let end = if duration == 0 { None } else { Some(pause + ticks(duration, true)?) };
                    found = Some(Self { shift: pause - start.max(0), end, ignored: 0 });
                }
            }
        }
        Ok(found.unwrap_or(Self::NONE))
    }
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
        assert_eq!(edits(&[]).expect("no edits"), Edit::NONE);
        let edit = edits(&[(500, -1), (2001, 1024)]).expect("an edit list");
        assert_eq!(edit, Edit { shift: 24_000 - 1024, end: Some(24_000 + 96_048), ignored: 0 });
        let edit = edits(&[(0, 1024)]).expect("an edit list");
        assert_eq!(edit, Edit { shift: -1024, end: None, ignored: 0 });
        let edit = edits(&[(1000, 0), (100, -1), (1000, 48_000), (5, 7)]).expect("an edit list");
        assert_eq!(edit, Edit { shift: 0, end: Some(48_000), ignored: 2 });
    }
}
