//! The first difference of a sound track.
//!
//! A gap of the source may be filled with whole frames of silence, which moves the samples behind
//! it. So sound is aligned afresh behind each gap, near the time that the source has for it.

use crate::bounds::{Bounds, CONVERGING_SAMPLES, SILENCE_SAMPLES};
use crate::decoded::Sound;
use crate::difference::Difference;
use std::ops::Range;

/// How far a sample is searched from where it belongs, in samples.
const SEARCH: usize = 4096;
/// Sound is aligned by so many samples.
const PROBE: usize = 4800;
/// Samples that are not louder count as silence.
const SILENCE: u16 = 300;
/// Times without sound from which on the source has a gap: hardly a frame at 96 kHz.
const GAP_US: i64 = 10_000;
/// Sound that differs by less than this part of its loudness, as a divisor, is alike.
const ALIKE_PART: u64 = 4;
/// The longest frame whose gaps are filled. A frame overlaps the next one: in the first frame on
/// each side of a gap, a decoder hears what was before.
const FRAME: usize = 1024;

/// Where the sound lies in its title, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The same picture in the source and as served. Without pictures, the sound's own start
    /// counts.
    pub zeros: Option<(i64, i64)>,
    /// When the first picture or sound of the source begins.
    pub start_us: i64,
    /// When the last picture or sound of the source ends.
    pub end_us: i64,
}

/// The first difference of a sound track. Where it begins later or ends earlier than the title,
/// silence may be served.
pub fn of_sound(source: &Sound, served: &Sound, times: &Times, bounds: Bounds) -> Option<Difference> {
    let (source_zero, served_zero) = times.zeros.unwrap_or((source.heard_us(0), served.heard_us(0)));
    let samples = |us: i64| us.max(0) * i64::from(source.rate) / 1_000_000;
    let early = samples(times.end_us - source.heard_us(source.samples.len()));
    let both = Both { source, served, source_zero, served_zero, start_us: times.start_us, bounds };
    let mut before = None;
    for section in sections(source) {
        match both.aligned(&section, before) {
            Ok(aligned) => before = aligned.or(before),
            Err(difference) => return Some(difference),
        }
    }
    let length = of_length(source, served, before.map_or(0, |before| before.shift), bounds)?;
    // From its end on, silence is served up to that of the title; before it, from its start on.
    let end = before.map_or(source.samples.len(), |before| before.end) as i64;
    let silence = early + if before.is_none() { both.missing_before(0) } else { 0 };
    let more = served.samples.len() as i64 - end;
    let is_silence = silence > 0
        && (more - silence).unsigned_abs() <= bounds.end_samples.max(SILENCE_SAMPLES) as u64
        && both.quiet(before.map_or(0, |before| before.end + FRAME), i64::MAX).is_ok();
    (!is_silence).then_some(length)
}

/// The parts of a sound that have no gap in them.
fn sections(sound: &Sound) -> Vec<Range<usize>> {
    let is_behind_gap = |at: &usize| *at > 0 && sound.heard_us(*at) - sound.heard_us(at - 1) > GAP_US;
    let starts: Vec<usize> = sound.blocks.iter().map(|block| block.first).filter(is_behind_gap).collect();
    let ends = starts.iter().copied().chain([sound.samples.len()]);
    [0].into_iter().chain(starts.iter().copied()).zip(ends).map(|(start, end)| start..end).collect()
}

/// The sound of the source and as served, with the times of their first pictures.
struct Both<'a> {
    source: &'a Sound,
    served: &'a Sound,
    source_zero: i64,
    served_zero: i64,
    /// When the title begins in the source.
    start_us: i64,
    bounds: Bounds,
}

/// A section without a difference.
#[derive(Clone, Copy)]
struct Aligned {
    /// What is added to a sample of the source for its counterpart.
    shift: i64,
    /// How much later the first such section is heard than in the source.
    late_us: i64,
    /// Its end in the served sound.
    end: usize,
}

impl Both<'_> {
    /// Aligns a section of the source, behind another one, and compares it. `None` if it is silent.
    fn aligned(
        &self,
        section: &Range<usize>,
        before: Option<Aligned>,
    ) -> Result<Option<Aligned>, Difference> {
        let from = if section.start == 0 { 0 } else { (section.start + FRAME).min(section.end) };
        let Some(first) = self.source.samples[from..section.end].iter().position(is_loud) else {
            return self.silent(section, before);
        };
        // The first loud sample, or that after a warm-up which is trimmed.
        let first = from + first;
        let edge = self.bounds.start_samples;
        let converging = if self.source.is_opus { CONVERGING_SAMPLES } else { 0 };
        let trimmed = || before.is_none().then(|| self.place(first + edge + converging, section.end))?;
        let Some((loud, found)) = self.place(first, section.end).or_else(trimmed) else {
            return Err(Difference::SoundStart { at_us: self.at_us(first) });
        };
        let shift = found as i64 - loud as i64;
        if before.is_none() && shift.unsigned_abs() > edge as u64 {
            let missing = self.missing_before(section.start);
            let is_silence = (shift - missing).unsigned_abs() <= edge.max(SILENCE_SAMPLES) as u64;
            if missing <= edge as i64 || !is_silence {
                return Err(Difference::SoundEdge { added: shift });
            }
            // A frame of a section that is silent by itself is heard in the one behind it.
            let from = if section.start == 0 { 0 } else { section.start + FRAME };
            self.quiet(from, loud as i64 + shift - FRAME as i64)?;
        }
        let from = if before.is_some() { from } else { loud };
        if before.is_none() && loud > first {
            self.alike(first + edge..loud, shift)?;
        }
        let compared = self.same(from..section.end, shift)?;
        let late_us = self.late_us(loud, shift);
        self.in_step(loud..compared, shift)?;
        if let Some(before) = before {
            let frame_us = FRAME as i64 * 1_000_000 / i64::from(self.source.rate.max(1));
            if (late_us - before.late_us).abs() > frame_us {
                return Err(Difference::SoundTime { at_us: self.at_us(loud), late_us });
            }
            self.quiet(before.end + FRAME, section.start as i64 + shift)?;
        }
        let late_us = before.map_or(late_us, |before| before.late_us);
        Ok(Some(Aligned { shift, late_us, end: (section.end as i64 + shift).max(0) as usize }))
    }

    /// Samples from the start of the title to a place of the source for which it has no sound.
    fn missing_before(&self, sample: usize) -> i64 {
        let after_us = (self.source.heard_us(sample) - self.start_us).max(0);
        after_us * i64::from(self.source.rate) / 1_000_000 - sample as i64
    }

    /// Takes a section behind another one that has nothing loud to align it by.
    fn silent(&self, section: &Range<usize>, before: Option<Aligned>) -> Result<Option<Aligned>, Difference> {
        let Some(before) = before else { return Ok(None) };
        let due = self.served.sample_at(self.at_us(section.start) + self.served_zero);
        let shift = due as i64 - section.start as i64;
        let end = section.end as i64 + shift;
        // A frame alone, which decoders mix with what was before.
        let is_heard = self.source.samples[section.clone()].iter().any(is_loud);
        self.quiet(before.end + FRAME, if is_heard { section.start as i64 + shift } else { end })?;
        Ok(Some(Aligned { shift, end: end.max(0) as usize, ..before }))
    }

    /// When the source has a sample, after the first picture.
    fn at_us(&self, sample: usize) -> i64 {
        self.source.heard_us(sample) - self.source_zero
    }

    /// How much later the counterpart of a sample is heard.
    fn late_us(&self, sample: usize, shift: i64) -> i64 {
        let counterpart = usize::try_from(sample as i64 + shift).ok();
        counterpart.map_or(0, |other| self.served.heard_us(other) - self.served_zero - self.at_us(sample))
    }

    /// The sample with its counterpart, near the time of the sample.
    fn place(&self, sample: usize, end: usize) -> Option<(usize, usize)> {
        let wanted = self.source.samples.get(sample..end).filter(|wanted| !wanted.is_empty())?;
        let due = self.served.sample_at(self.at_us(sample) + self.served_zero);
        Some((sample, find(wanted, &self.served.samples, due.min(self.served.samples.len()))?))
    }

    /// Compares samples, without the last block of the source. Returns where that ends.
    fn same(&self, samples: Range<usize>, shift: i64) -> Result<usize, Difference> {
        let from = samples.start.max((-shift).max(0) as usize);
        let end = (samples.end as i64).min(self.served.samples.len() as i64 - shift).max(0) as usize;
        let is_last = samples.end == self.source.samples.len();
        let compared =
            if is_last { end.saturating_sub(self.bounds.end_samples).max(from.min(end)) } else { end };
        let differs = |sample: &usize| {
            let other = self.served.samples[(*sample as i64 + shift) as usize];
            self.source.samples[*sample].abs_diff(other) > 1
        };
        match (from..compared).find(differs) {
            Some(sample) => Err(Difference::Sound { at_us: self.at_us(sample) }),
            None => Ok(compared),
        }
    }

    /// The same sound is heard in each part of [`FRAME`] samples, though a decoder began elsewhere.
    fn alike(&self, samples: Range<usize>, shift: i64) -> Result<(), Difference> {
        for from in samples.clone().step_by(FRAME) {
            let part = from..(from + FRAME).min(samples.end);
            let other = |sample: usize| {
                let at = usize::try_from(sample as i64 + shift).ok();
                at.and_then(|at| self.served.samples.get(at)).copied().unwrap_or(0)
            };
            let loudness: u64 =
                part.clone().map(|at| u64::from(self.source.samples[at].unsigned_abs())).sum();
            let difference: u64 = part.map(|at| u64::from(self.source.samples[at].abs_diff(other(at)))).sum();
            if difference > loudness / ALIKE_PART {
                return Err(Difference::Sound { at_us: self.at_us(from) });
            }
        }
        Ok(())
    }

    /// Wherever times begin afresh, the sound is in step.
    fn in_step(&self, samples: Range<usize>, shift: i64) -> Result<(), Difference> {
        let starts = self.source.blocks.iter().map(|block| block.first);
        let of_served = self.served.blocks.iter();
        let of_served = of_served.filter_map(|block| usize::try_from(block.first as i64 - shift).ok());
        let checked = starts.chain(of_served).filter(|start| samples.contains(start));
        let is_late = |start: &usize| self.late_us(*start, shift).abs() > self.bounds.sync_us;
        match checked.chain([samples.start]).filter(is_late).min() {
            Some(late) => {
                let (at_us, late_us) = (self.at_us(late), self.late_us(late, shift));
                Err(Difference::SoundTime { at_us, late_us })
            }
            None => Ok(()),
        }
    }

    /// Nothing is heard in a gap, which the served sound may have filled.
    fn quiet(&self, from: usize, to: i64) -> Result<(), Difference> {
        let to = usize::try_from(to).unwrap_or(0).min(self.served.samples.len());
        match (from..to).find(|sample| is_loud(&self.served.samples[*sample])) {
            Some(sample) => {
                Err(Difference::SoundInGap { at_us: self.served.heard_us(sample) - self.served_zero })
            }
            None => Ok(()),
        }
    }
}

fn is_loud(sample: &i16) -> bool {
    sample.unsigned_abs() > SILENCE
}

fn of_length(source: &Sound, served: &Sound, shift: i64, bounds: Bounds) -> Option<Difference> {
    let (source, served) = (source.samples.len(), served.samples.len());
    let aligned = (served as i64 - shift).max(0);
    (aligned.abs_diff(source as i64) > bounds.end_samples as u64)
        .then_some(Difference::SoundLength { source, served })
}

/// Where `samples` begin like `wanted`, nearest to `near`.
fn find(wanted: &[i16], samples: &[i16], near: usize) -> Option<usize> {
    let probe = &wanted[..PROBE.min(wanted.len())];
    let begins = |at: usize| {
        samples
            .get(at..at + probe.len())
            .is_some_and(|found| found.iter().zip(probe).all(|(a, b)| a.abs_diff(*b) <= 1))
    };
    (0..=SEARCH)
        .flat_map(|step| [near.checked_sub(step), near.checked_add(step)])
        .flatten()
        .find(|&at| begins(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded::Block;

    const RATE: usize = 48_000;
    /// A gap of 47 frames and a half, after a second.
    const GAP: usize = 48_640;

    const TIMES: Times = Times { zeros: Some((0, 0)), start_us: 0, end_us: 0 };

    fn block(first: usize, samples_after_zero: usize) -> Block {
        Block { first, heard_us: (samples_after_zero * 1_000_000 / RATE) as i64 }
    }

    /// Three seconds of noise that repeats nowhere, with a gap after the first.
    fn source() -> Sound {
        let samples = (0..3 * RATE as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 16) as i16);
        let blocks = vec![block(0, 0), block(RATE, RATE + GAP)];
        Sound { rate: RATE as u32, samples: samples.collect(), blocks, is_opus: false }
    }

    /// The same with whole frames in the gap, and what a decoder makes of frames beside silence.
    fn filled() -> Sound {
        let mut sound = source();
        let silence = vec![0; GAP / FRAME * FRAME];
        sound.samples.splice(RATE..RATE, silence);
        let behind = RATE + GAP / FRAME * FRAME;
        sound.samples[RATE..RATE + FRAME].fill(900);
        sound.samples[behind..behind + FRAME].fill(700);
        sound.blocks = vec![block(0, 0), block(behind, RATE + GAP)];
        sound
    }

    fn after(change: impl FnOnce(&mut Sound)) -> Option<Difference> {
        let mut served = filled();
        change(&mut served);
        of_sound(&source(), &served, &TIMES, Bounds::FRAGMENTS)
    }

    /// Where sound is compared again.
    const BEHIND_US: i64 = ((RATE + GAP + FRAME) * 1_000_000 / RATE) as i64;

    /// Silence before the sound, the sound later by as much, and silence behind it.
    fn between_silence(before: usize, behind: usize) -> Sound {
        let mut sound = source();
        sound.samples.splice(0..0, vec![0; before]);
        sound.samples.extend(vec![0; behind]);
        sound.blocks = vec![block(0, 0), block(before + RATE, before + RATE + GAP)];
        sound
    }

    #[test]
    fn silence_may_stand_in_for_what_is_missing_at_both_ends() {
        let later = |us: i64| {
            let mut sound = source();
            sound.blocks.iter_mut().for_each(|block| block.heard_us += us);
            sound
        };
        let source = later(2_000_000);
        let end_us = source.heard_us(source.samples.len()) + 1_000_000;
        let times = Times { end_us, ..TIMES };
        let after = |served: &Sound| of_sound(&source, served, &times, Bounds::EXACT);
        assert_eq!(after(&source), None);
        assert_eq!(after(&between_silence(2 * RATE, RATE)), None);
        // In step, with a second of silence before the title begins.
        let mut far = between_silence(3 * RATE, RATE);
        far.blocks.iter_mut().for_each(|block| block.heard_us -= 1_000_000);
        assert_eq!(after(&far), Some(Difference::SoundEdge { added: 3 * RATE as i64 }));
        let longer = between_silence(2 * RATE, 2 * RATE);
        assert!(matches!(after(&longer), Some(Difference::SoundLength { .. })));
        let mut loud = between_silence(2 * RATE, RATE);
        loud.samples[RATE] = 5000;
        assert!(matches!(after(&loud), Some(Difference::SoundInGap { .. })));
        let mut loud = between_silence(2 * RATE, RATE);
        let last = loud.samples.len() - 10;
        loud.samples[last] = 5000;
        assert!(matches!(after(&loud), Some(Difference::SoundLength { .. })));
    }

    #[test]
    fn silence_may_stand_in_behind_a_silent_start() {
        let mut source = source();
        source.samples.splice(0..0, vec![0; FRAME]);
        source.blocks = vec![block(0, 0), block(FRAME, 2 * RATE)];
        source.samples.truncate(FRAME + RATE);
        let mut served = source.clone();
        let silence = (2 * RATE - FRAME) / FRAME * FRAME;
        served.samples.splice(0..0, vec![0; silence]);
        served.blocks = vec![block(0, 0), block(FRAME + silence, 2 * RATE)];
        let times = Times { end_us: source.heard_us(source.samples.len()), ..TIMES };
        assert_eq!(of_sound(&source, &served, &times, Bounds::EXACT), None);
        served.samples.splice(0..0, vec![0; RATE]);
        served.blocks[1].first += RATE;
        assert!(of_sound(&source, &served, &times, Bounds::EXACT).is_some());
    }

    #[test]
    fn opus_converges() {
        let source = Sound { is_opus: true, ..source() };
        let changed = |samples: usize, change: fn(i16) -> i16| {
            let mut served = source.clone();
            served.samples[..samples].iter_mut().for_each(|sample| *sample = change(*sample));
            of_sound(&source, &served, &TIMES, Bounds::EXACT)
        };
        let softer: fn(i16) -> i16 = |sample| sample - sample / 8;
        assert_eq!(changed(CONVERGING_SAMPLES, softer), None);
        assert!(changed(CONVERGING_SAMPLES + FRAME, softer).is_some());
        assert!(changed(CONVERGING_SAMPLES, |sample| sample / 2).is_some());
        let other = Sound { is_opus: false, ..source.clone() };
        let served = Sound { samples: source.samples.iter().map(|s| softer(*s)).collect(), ..other.clone() };
        assert!(of_sound(&other, &served, &TIMES, Bounds::EXACT).is_some());
    }

    #[test]
    fn gaps_may_be_filled_or_stay() {
        assert_eq!(of_sound(&source(), &source(), &TIMES, Bounds::FRAGMENTS), None);
        assert_eq!(after(|_| {}), None);
        // In step within a frame.
        assert_eq!(after(|served| served.blocks.truncate(1)), None);
        assert_eq!(after(|served| served.blocks[1].heard_us += 21_000), None);
    }

    #[test]
    fn sound_behind_a_gap_is_in_step() {
        for late_us in [22_000, -22_000] {
            let shifted = after(|served| served.blocks[1].heard_us += late_us);
            assert!(
                matches!(shifted, Some(Difference::SoundTime { late_us: found, .. })
                if (found - late_us).abs() < 50),
                "{shifted:?}"
            );
        }
        // A frame of silence more or less without times of its own.
        let more = |served: &mut Sound| {
            served.samples.splice(2 * RATE - 5000..2 * RATE - 5000, [0; 2 * FRAME]);
            served.blocks.truncate(1);
        };
        assert!(matches!(after(more), Some(Difference::SoundTime { late_us: 22_000.., .. })));
        let less = |served: &mut Sound| {
            served.samples.drain(2 * RATE - 5000..2 * RATE - 5000 + FRAME);
            served.blocks.truncate(1);
        };
        assert!(matches!(after(less), Some(Difference::SoundTime { late_us: ..-22_000, .. })));
        let far = |served: &mut Sound| served.blocks[1].heard_us += 500_000;
        assert_eq!(after(far), Some(Difference::SoundTime { at_us: BEHIND_US, late_us: 500_000 }));
    }

    #[test]
    fn sound_beside_a_gap_is_there_once() {
        let behind = RATE + GAP / FRAME * FRAME;
        let missing = after(|served| {
            served.samples.drain(behind..behind + RATE / 2);
        });
        assert_eq!(missing, Some(Difference::SoundStart { at_us: BEHIND_US }));
        let cut = after(|served| served.samples.truncate(behind));
        assert_eq!(cut, Some(Difference::SoundStart { at_us: BEHIND_US }));
        // The end of the first part again, and the beginning of the second one before its time.
        let doubled = after(|served| served.samples.copy_within(RATE - 9600..RATE, RATE));
        assert!(matches!(doubled, Some(Difference::SoundInGap { .. })), "{doubled:?}");
        let early = after(|served| served.samples.copy_within(behind..behind + 9600, behind - 20_000));
        assert!(matches!(early, Some(Difference::SoundInGap { .. })), "{early:?}");
        let other = after(|served| served.samples[behind + RATE] ^= 0x40);
        assert!(matches!(other, Some(Difference::Sound { .. })), "{other:?}");
        let last = after(|served| served.samples[RATE - 1] ^= 0x40);
        assert!(matches!(last, Some(Difference::Sound { .. })), "{last:?}");
    }

    #[test]
    fn silence_behind_a_gap_stays_silent() {
        let mut quiet = source();
        quiet.samples[RATE..].fill(0);
        let mut served = filled();
        served.samples[RATE + FRAME..].fill(0);
        assert_eq!(of_sound(&quiet, &served, &TIMES, Bounds::FRAGMENTS), None);
        served.samples[3 * RATE] = 1000;
        assert!(matches!(
            of_sound(&quiet, &served, &TIMES, Bounds::FRAGMENTS),
            Some(Difference::SoundInGap { .. })
        ));
        served.samples[3 * RATE] = 0;
        served.samples.truncate(3 * RATE);
        assert!(matches!(
            of_sound(&quiet, &served, &TIMES, Bounds::FRAGMENTS),
            Some(Difference::SoundLength { .. })
        ));
    }
}
