//! Chapters of MP4 and QuickTime files: the text track that other tracks refer to (QuickTime File
//! Format, "Chapter Lists"), or the list that Nero's programs introduced.

use super::atom::Atom;
use super::fragments::Fragments;
use super::plan::{Plan, Walk};
use super::trak::MediaTrack;
use crate::input::chapters::Chapters;
use crate::input::metered::SampleBudget;
use crate::{MediaError, Source, limits, subtitle};
use std::sync::Arc;

/// Nero's list counts in tenths of a microsecond.
const NERO_TICK_NS: i64 = 100;

/// The list in `udta/chpl`: version and flags, four bytes in version 1, a count, and for each
/// chapter its start, the length of its name and the name. Damage ends the list.
pub(super) fn nero(moov: &Atom<'_>) -> Chapters {
    let mut chapters = Chapters::default();
    let mut read = || -> Option<()> {
        let chpl = moov.child(b"udta").ok()??.child(b"chpl").ok()??;
        let (version, _, mut fields) = chpl.full().ok()?;
        if version > 0 {
            fields.skip(4).ok()?;
        }
        for _ in 0..fields.u8().ok()? {
            let start = i64::try_from(fields.u64().ok()?).ok()?.checked_mul(NERO_TICK_NS)?;
            let bytes = fields.u8().ok()?;
            let name = fields.take(usize::from(bytes)).ok()?;
            chapters.add(start, &String::from_utf8_lossy(name));
        }
        Some(())
    };
    // What was read before the damage is kept.
    let _ = read();
    chapters
}

/// The samples of a text track that holds chapters.
///
/// # Errors
/// If its tables contradict the file, or a sample cannot be read.
pub(super) fn of_track(
    media: &MediaTrack,
    fragments: &Arc<Fragments>,
    source: &mut dyn Source,
) -> Result<Chapters, MediaError> {
    let mut budget = SampleBudget::new(source.bytes());
    let plan = Plan::make(media, fragments, &mut budget, source)?;
    let mut walk = Walk::new(media, fragments);
    let mut chapters = Chapters::default();
    let mut data = Vec::new();
    for _ in 0..plan.end.min(limits::MP4_CHAPTER_SAMPLES) {
        let Some(sample) = walk.next(source)? else { break };
        let start = sample.dts + i64::from(sample.reorder) + plan.shift;
        if start + i64::from(sample.duration) <= 0 || sample.bytes == 0 {
            continue;
        }
        // Bounded: the plan refused samples above the limit for text.
        data.resize(sample.bytes as usize, 0);
        source.read_at(sample.offset, &mut data)?;
        let ns = i128::from(start) * 1_000_000_000 / i128::from(media.track.timescale);
        if !chapters.add(i64::try_from(ns).unwrap_or(i64::MAX), &subtitle::tx3g::plain(&data)) {
            break;
        }
    }
    Ok(chapters)
}
