//! Rates computed from fragments and samples: bandwidth, demand per round, frame rate.

use super::{Fragment, FrameRate, TrackIndex};
use crate::limits;

/// A step so many times as long as the least is a pause.
const PAUSE_STEPS: u32 = 100;

/// A segment with a pause is more than so many times as long as the median.
const PAUSE_SEGMENTS: u64 = 4;

/// Finds the frame rate from the times between samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateMeter {
    steps: u64,
    ticks: u64,
    least: u32,
    most: u32,
}

impl RateMeter {
    /// Adds the ticks between a sample and the next one. Pauses say nothing about the rate.
    pub(crate) fn step(&mut self, ticks: u32) {
        let is_pause = |long: u32, short: u32| short > 0 && long / PAUSE_STEPS > short;
        if self.steps > 0 && is_pause(ticks, self.least) {
            return;
        }
        if self.steps > 0 && is_pause(self.least, ticks) {
            *self = RateMeter::default();
        }
        self.least = if self.steps == 0 { ticks } else { self.least.min(ticks) };
        self.most = self.most.max(ticks);
        self.steps += 1;
        self.ticks += u64::from(ticks);
    }

    /// The rate. `whole_ticks` is the presentation time of the track, used if there is only one
    /// sample.
    pub(crate) fn frame_rate(&self, timescale: u32, whole_ticks: u64) -> Option<FrameRate> {
        if self.ticks == 0 {
            return rational(u64::from(timescale), whole_ticks, true);
        }
        if self.least == self.most {
            return rational(u64::from(timescale), u64::from(self.least), true);
        }
        self.standard(timescale).or_else(|| rational(self.steps * u64::from(timescale), self.ticks, false))
    }

    /// A whole rate N or N x 1000/1001 for which every step is the value rounded to this timescale
    /// (Matroska's milliseconds, 23.976 on a 90 kHz clock).
    fn standard(&self, timescale: u32) -> Option<FrameRate> {
        let average = self.steps as f64 * f64::from(timescale) / self.ticks as f64;
        let whole = |rate: f64, numerator: u32, denominator| {
            let count = rate.round() as u32;
            FrameRate { numerator: count.saturating_mul(numerator), denominator, constant: true }
        };
        let mut candidates = [whole(average, 1, 1), whole(average * 1.001, 1000, 1001)];
        let distance =
            |rate: &FrameRate| (f64::from(rate.numerator) / f64::from(rate.denominator) - average).abs();
        candidates.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        candidates.into_iter().filter(|rate| rate.numerator > 0).find(|rate| {
            let step = f64::from(timescale) * f64::from(rate.denominator) / f64::from(rate.numerator);
            let near = |ticks: f64, ideal: f64| (ticks - ideal).abs() < 1.01;
            near(f64::from(self.least), step)
                && near(f64::from(self.most), step)
                && near(self.ticks as f64, step * self.steps as f64)
        })
    }
}

/// Bits per second of all fragments together.
pub(crate) fn average(fragments: &[Fragment], timescale: u32) -> u64 {
    let bytes: u64 = fragments.iter().map(|f| u64::from(f.bytes)).sum();
    let ticks = fragments.iter().map(|f| f.duration).sum();
    rate(bytes, ticks, timescale)
}

/// Peak segment bit rate (RFC 8216, section 4.1): the largest bit rate of any contiguous run of
/// segments that lasts between 0.5 and 1.5 target durations. `size` gives how many bytes of a
/// segment count. Segments with a pause do not count for the target duration: runs as long as they
/// are would hide the peak.
pub(crate) fn peak(fragments: &[Fragment], timescale: u32, size: impl Fn(&Fragment) -> u32) -> u64 {
    let target = seconds(longest_usual(fragments, timescale), timescale).max(1);
    let target = u128::from(target) * u128::from(timescale);
    let mut peak = 0;
    for first in 0..fragments.len() {
        let (mut bytes, mut ticks) = (0, 0);
        for fragment in &fragments[first..] {
            bytes += u64::from(size(fragment));
            ticks += fragment.duration;
            if 2 * u128::from(ticks) > 3 * target {
                break;
            }
            if 2 * u128::from(ticks) >= target {
                peak = rate(bytes, ticks, timescale).max(peak);
            }
        }
    }
    if peak == 0 {
        // A title that is shorter than half a second.
        peak = fragments.iter().map(|f| rate(u64::from(size(f)), f.duration, timescale)).max().unwrap_or(0);
    }
    peak
}

/// Target duration (RFC 8216, 4.3.3.1): no segment, rounded to the nearest second, is longer.
pub(crate) fn target_seconds(fragments: &[Fragment], timescale: u32) -> u64 {
    fragments.iter().map(|f| seconds(f.duration, timescale)).max().unwrap_or(0).max(1)
}

/// Rounded to the nearest second.
fn seconds(ticks: u64, timescale: u32) -> u64 {
    let scale = u64::from(timescale.max(1));
    ticks / scale + u64::from(2 * (ticks % scale) >= scale)
}

/// The longest duration of a fragment, in ticks. Those with a pause do not count: they are longer
/// than 5 s and four times as long as the median.
pub(crate) fn longest_usual(fragments: &[Fragment], timescale: u32) -> u64 {
    let mut durations: Vec<u64> = fragments.iter().map(|fragment| fragment.duration).collect();
    if durations.is_empty() {
        return 0;
    }
    let middle = (durations.len() - 1) / 2;
    let median = *durations.select_nth_unstable(middle).1;
    let pause = u64::from(timescale) * limits::LONG_PAUSE_MS.unsigned_abs() / 1000;
    let usual_max = pause.max(median.saturating_mul(PAUSE_SEGMENTS));
    durations.into_iter().filter(|duration| *duration <= usual_max).max().unwrap_or(median)
}

/// See [`super::TitleIndex::demand`].
pub(super) fn demand(track: &TrackIndex, round_ns: u64) -> Vec<u32> {
    let end_ns = track.nanoseconds(track.end);
    let mut rounds = vec![0u32; end_ns.div_ceil(round_ns).max(1) as usize];
    let last = rounds.len() - 1;
    let mut due = |round: usize, bytes: u64| {
        let sum = u64::from(rounds[round.min(last)]) + bytes;
        rounds[round.min(last)] = sum.min(u64::from(u32::MAX)) as u32;
    };
    if track.fragments.is_empty() {
        due(0, track.bytes);
    } else {
        due(0, u64::from(track.init_bytes));
    }
    for change in &track.changes {
        let begins = track.fragments.get(change.fragment as usize).map_or(0, |first| first.time);
        due((track.nanoseconds(begins) / round_ns) as usize, u64::from(change.init_bytes));
    }
    for fragment in &track.fragments {
        let start_ns = track.nanoseconds(fragment.time);
        let until_ns = track.nanoseconds(fragment.time + fragment.duration);
        let mut round = start_ns / round_ns;
        let mut given = 0;
        loop {
            let round_end_ns = round.saturating_add(1).saturating_mul(round_ns);
            let total = u64::from(fragment.bytes);
            let so_far = if round_end_ns >= until_ns {
                total
            } else {
                let part = u128::from(round_end_ns - start_ns) * u128::from(total);
                (part / u128::from(until_ns - start_ns)) as u64
            };
            due(round as usize, so_far - given);
            given = so_far;
            if round_end_ns >= until_ns {
                break;
            }
            round += 1;
        }
    }
    rounds
}

fn rate(bytes: u64, ticks: u64, timescale: u32) -> u64 {
    let bits = u128::from(bytes) * 8 * u128::from(timescale);
    bits.div_ceil(u128::from(ticks.max(1))).min(u128::from(u64::MAX)) as u64
}

/// `numerator / denominator` in lowest terms that fit 32 bits.
fn rational(numerator: u64, denominator: u64, constant: bool) -> Option<FrameRate> {
    let divisor = greatest_common_divisor(numerator, denominator);
    let (mut numerator, mut denominator) =
        (numerator.checked_div(divisor)?, denominator.checked_div(divisor)?);
    while numerator > u64::from(u32::MAX) || denominator > u64::from(u32::MAX) {
        numerator >>= 1;
        denominator >>= 1;
    }
    (numerator > 0 && denominator > 0).then_some(FrameRate {
        numerator: numerator as u32,
        denominator: denominator as u32,
        constant,
    })
}

pub(crate) fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(steps: &[u32]) -> RateMeter {
        let mut meter = RateMeter::default();
        steps.iter().for_each(|step| meter.step(*step));
        meter
    }

    fn fragment(time: u64, duration: u64, bytes: u32) -> Fragment {
        Fragment { offset: 0, time, duration, bytes, samples: 1, header_bytes: 1, key_bytes: 2 }
    }

    #[test]
    fn frame_rates() {
        let rate = |steps: &[u32], timescale| {
            let rate = meter(steps).frame_rate(timescale, 40).expect("a rate");
            (rate.numerator, rate.denominator, rate.constant)
        };
        assert_eq!(rate(&[512; 9], 12_800), (25, 1, true));
        assert_eq!(rate(&[1001; 9], 30_000), (30_000, 1001, true));
        let matroska: Vec<u32> = (0..200u32).map(|i| ((i + 1) * 1001 / 24) - (i * 1001 / 24)).collect();
        assert_eq!(rate(&matroska, 1000), (24_000, 1001, true));
        let thirty: Vec<u32> = (0..20u32).map(|i| ((i + 1) * 1000 / 30) - (i * 1000 / 30)).collect();
        assert_eq!(rate(&thirty, 1000), (30, 1, true));
        assert_eq!(rate(&[3753, 3754, 3754, 3754], 90_000), (24_000, 1001, true));
        assert_eq!(rate(&[10, 30], 1000), (50, 1, false));
        assert_eq!(rate(&[], 1000), (25, 1, true));
        // Pauses, at first and within.
        assert_eq!(rate(&[512_000, 512, 512, 7_680_000, 512], 12_800), (25, 1, true));
        assert_eq!(rate(&[0, 512, 512], 12_800), (75, 2, false));
        assert_eq!(meter(&[]).frame_rate(1000, 0), None);
    }

    #[test]
    fn peaks_follow_the_definition() {
        // Target duration 4 s: a run lasts 2 to 6 s, so the short segment counts only beside
        // another one.
        let fragments = [fragment(0, 4000, 4000), fragment(4000, 1000, 3000), fragment(5000, 4000, 1000)];
        assert_eq!(peak(&fragments, 1000, |f| f.bytes), 7000 * 8 / 5);
        assert_eq!(average(&fragments, 1000), (8000u64 * 8).div_ceil(9));
        assert_eq!(peak(&[fragment(0, 100, 50)], 1000, |f| f.bytes), 4000);
        assert_eq!(peak(&[], 1000, |f| f.bytes), 0);
        // A pause of 100 s within the second.
        let paused = [fragment(0, 4000, 4000), fragment(4000, 104_000, 4000), fragment(108_000, 4000, 8000)];
        assert_eq!(longest_usual(&paused, 1000), 4000);
        assert_eq!((peak(&paused, 1000, |f| f.bytes), target_seconds(&paused, 1000)), (16_000, 104));
        // Long ones are usual, if most are.
        let long = [fragment(0, 60_000, 1), fragment(60_000, 90_000, 1), fragment(150_000, 2000, 1)];
        assert_eq!(longest_usual(&long, 1000), 90_000);
        assert_eq!(longest_usual(&[], 1000), 0);
        assert_eq!(target_seconds(&[fragment(0, 4499, 1)], 1000), 4);
        assert_eq!(target_seconds(&[fragment(0, 4500, 1)], 1000), 5);
    }
}
