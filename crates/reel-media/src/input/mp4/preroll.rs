//! Pictures before zero: their new times, by the rule of [`crate::unseen`].

use super::plan::{Plan, Walk};
use crate::{MediaError, Source, unseen};

/// What can be done about the pictures before zero of a track.
pub(super) enum Hiding {
    /// There are none.
    Nothing,
    /// They get these times.
    At(PreRoll),
    /// Their number, which is larger than a clock can separate.
    TooMany(u64),
}

/// New times of one video track.
#[derive(Clone, Debug)]
pub(super) struct PreRoll {
    /// Factor of the clock.
    pub(super) scale: u32,
    /// Presentation times of the pictures before zero, ascending.
    hidden: Vec<i64>,
    /// Number of the first sample in decoding order that is shown.
    first_shown: u64,
    /// Its decoding time, in ticks of the finer clock.
    shown_dts: i64,
}

impl PreRoll {
    /// Looks for pictures before zero. The clock becomes finer at least by the factor `least`.
    pub(super) fn find(
        plan: &Plan,
        mut walk: Walk,
        timescale: u32,
        least: u32,
        source: &mut dyn Source,
    ) -> Result<Hiding, MediaError> {
        if plan.start >= 0 {
            return Ok(Hiding::Nothing);
        }
        let mut hidden = Vec::new();
        let mut count = 0;
        let mut shown = None;
        for index in 0..plan.end {
            let Some(sample) = walk.next(source)? else { break };
            if index < plan.first {
                continue;
            }
            if index > plan.first && sample.sync {
                shown = shown.or(Some((index, sample.dts)));
                break;
            }
            let pts = sample.dts + i64::from(sample.reorder) + plan.shift;
            let leading = plan.leading_before.is_some_and(|start| pts < start);
            if pts >= 0 {
                shown = shown.or(Some((index, sample.dts)));
            } else if !leading && sample.bytes > 0 {
                count += 1;
                if hidden.len() < unseen::PICTURES_MAX {
                    hidden.push(pts);
                }
            }
        }
        let Some((first_shown, dts)) = shown.filter(|_| count > 0) else { return Ok(Hiding::Nothing) };
        let Some(scale) = unseen::clock_factor(count, timescale) else {
            return Ok(Hiding::TooMany(count));
        };
        let scale = scale.max(least);
        hidden.sort_unstable();
        let before_hidden = -(hidden.len() as i64);
        let dts = dts.saturating_add(plan.shift - plan.early).saturating_mul(i64::from(scale));
        Ok(Hiding::At(Self { scale, hidden, first_shown, shown_dts: dts.min(before_hidden) }))
    }

    /// The new decoding and presentation time of sample `index`.
    pub(super) fn times(&self, index: u64, dts: i64, pts: i64) -> (i64, i64) {
        let fine = |time: i64| time.saturating_mul(i64::from(self.scale));
        let new_pts = if pts < 0 {
            let rank = self.hidden.partition_point(|hidden| *hidden < pts);
            rank as i64 - self.hidden.len() as i64
        } else {
            fine(pts)
        };
        match self.first_shown.checked_sub(index) {
            // One tick each, up to the first shown picture.
            Some(left @ 1..) => (self.shown_dts.saturating_sub(left as i64), new_pts),
            _ => (fine(dts), new_pts),
        }
    }
}
