//! Exact times from Matroska's rounded ones.
//!
//! Matroska stores presentation times only, usually in milliseconds. Three rules restore what was
//! lost:
//!
//! * **Video** of a known frame rate lies on a lattice (anchor + n frames). A time within one tick
//!   of the file's scale of a lattice point *is* that point. Any other time is used unchanged, and
//!   the lattice continues from there. So a constant rate is exact, and a variable one is never
//!   moved by more than the file's own rounding.
//! * **Decoding times** of reordered video are the sorted presentation times, moved back by as many
//!   frames as the codec may reorder: `dts[i] = sorted_pts[i - reorder]`. Before the first one,
//!   they decrease by one frame each.
//! * **Audio** counts the samples that its packets decode to. The count is used while it stays
//!   within two ticks of the file's scale of the block times; otherwise it restarts from the
//!   block's time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SECOND_NS: i128 = 1_000_000_000;
/// Timescales above this are not used: their ticks would be finer than any clock, and durations
/// would overflow earlier.
const MAX_TIMESCALE: u64 = 1_000_000;

/// A frame rate as the exact duration of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameDuration {
    /// Seconds, upper part.
    pub(crate) numerator: u32,
    /// Seconds, lower part.
    pub(crate) denominator: u32,
}

impl FrameDuration {
    /// The usual rate that a duration in nanoseconds means: n, n/2 or n*1000/1001 frames a second.
    pub(crate) fn from_ns(ns: u64) -> Option<Self> {
        // Half a microsecond covers every rounding seen in files, and still clearly separates 24
        // from 23.976.
        const ROUNDING_NS: i128 = 500;
        let whole = (1..=300).map(|rate| (1, rate));
        let broadcast = [24, 30, 48, 60, 72, 96, 100, 120, 240].map(|rate| (1001, rate * 1000));
        let halves = (1..=300).map(|rate| (2, 2 * rate + 1));
        let all = whole.chain(broadcast).chain(halves);
        all.map(|(numerator, denominator)| Self { numerator, denominator })
            .map(|duration| {
                let exact = SECOND_NS * i128::from(duration.numerator) / i128::from(duration.denominator);
                ((exact - i128::from(ns)).abs(), duration)
            })
            .filter(|(distance, _)| *distance <= ROUNDING_NS)
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, duration)| duration)
    }

    /// Frames per second.
    pub(crate) fn rate(self) -> f64 {
        f64::from(self.denominator) / f64::from(self.numerator)
    }
}

/// Ticks per second that express both ticks of the file's scale and frames as whole numbers.
/// Without a frame duration, or where no such number is small enough, the file's scale or
/// microseconds.
pub(crate) fn timescale(scale_ns: u64, frame: Option<FrameDuration>) -> u32 {
    let own = match 1_000_000_000 / scale_ns.max(1) {
        own @ 1000..=MAX_TIMESCALE if 1_000_000_000 % scale_ns == 0 => own,
        0..1000 => 1000,
        _ => MAX_TIMESCALE,
    };
    let chosen = frame.and_then(|frame| {
        let rate = u64::from(frame.denominator);
        // A scale that is too fine to combine with the frames is replaced by milliseconds, because
        // the frames are what the file means.
        [own, 1000]
            .map(|own| own / crate::codec::vui::gcd(own, rate) * rate)
            .into_iter()
            .find(|both| *both <= MAX_TIMESCALE)
    });
    u32::try_from(chosen.unwrap_or(own)).unwrap_or(1000)
}

/// Nanoseconds to the nearest tick.
pub(crate) fn ticks(ns: i64, timescale: u32) -> i64 {
    nearest(i128::from(ns) * i128::from(timescale), SECOND_NS)
}

/// Presentation times of a video track.
#[derive(Clone, Debug)]
pub(crate) struct VideoClock {
    timescale: u32,
    lattice: Option<Lattice>,
}

#[derive(Clone, Debug)]
struct Lattice {
    anchor: i64,
    step: i64,
    tolerance_ns: i64,
}

impl VideoClock {
    /// Chooses the first of `candidates` on whose lattice all `probed` times (nanoseconds) lie.
    pub(crate) fn choose(
        probed: &[i64],
        candidates: &[FrameDuration],
        scale_ns: u64,
    ) -> (Self, Option<FrameDuration>) {
        for &frame in candidates {
            let timescale = timescale(scale_ns, Some(frame));
            let exact = u64::from(frame.numerator) * u64::from(timescale);
            if exact % u64::from(frame.denominator) != 0 {
                continue;
            }
            let Ok(step) = i64::try_from(exact / u64::from(frame.denominator)) else { continue };
            if let Some(anchor) = anchor(probed, step, timescale, scale_ns) {
                let tolerance_ns = i64::try_from(scale_ns).unwrap_or(i64::MAX);
                let lattice = Some(Lattice { anchor, step, tolerance_ns });
                return (Self { timescale, lattice }, Some(frame));
            }
        }
        (Self { timescale: timescale(scale_ns, None), lattice: None }, None)
    }

    /// Ticks per second.
    pub(crate) fn timescale(&self) -> u32 {
        self.timescale
    }

    /// The presentation time of a frame to which the file gives the time `ns`.
    pub(crate) fn pts(&mut self, ns: i64) -> i64 {
        let stated = ticks(ns, self.timescale);
        let Some(lattice) = &mut self.lattice else { return stated };
        let frames = nearest(i128::from(stated) - i128::from(lattice.anchor), i128::from(lattice.step));
        let point = lattice.anchor.saturating_add(frames.saturating_mul(lattice.step));
        let distance = (i128::from(point) * SECOND_NS - i128::from(ns) * i128::from(self.timescale)).abs();
        if distance <= i128::from(lattice.tolerance_ns) * i128::from(self.timescale) {
            point
        } else {
            lattice.anchor = stated;
            stated
        }
    }
}

/// The lattice point to count from, if all times lie within one tick of one lattice. A lattice
/// through zero is preferred.
fn anchor(probed: &[i64], step: i64, timescale: u32, scale_ns: u64) -> Option<i64> {
    let exact = |ns: i64| i128::from(ns) * i128::from(timescale);
    let step_exact = i128::from(step) * SECOND_NS;
    if step == 0 {
        return None;
    }
    let first = probed.iter().min().map(|ns| exact(*ns)).unwrap_or(0);
    let (mut low, mut high) = (first, first);
    for ns in probed {
        let place = exact(*ns);
        let frames = i128::from(nearest(place - first, step_exact));
        let rest = place - frames * step_exact;
        (low, high) = (low.min(rest), high.max(rest));
    }
    let tick = i128::from(scale_ns) * i128::from(timescale);
    // A tenth more than the rounding itself, because some writers round twice.
    if high - low > tick + tick / 10 {
        return None;
    }
    let through_zero = i128::from(nearest(first, step_exact)) * step_exact;
    let middle = (low + high) / 2;
    let chosen =
        if through_zero >= high - tick && through_zero <= low + tick { through_zero } else { middle };
    Some(nearest(chosen, SECOND_NS))
}

/// Decoding times of reordered video.
#[derive(Clone, Debug)]
pub(crate) struct Reorder {
    depth: usize,
    first: i64,
    step: i64,
    count: usize,
    waiting: BinaryHeap<Reverse<i64>>,
    last: Option<i64>,
}

impl Reorder {
    /// At most `depth` frames precede a frame in decoding order and follow it in output order.
    /// `first` is the smallest presentation time; `step` is the usual time between frames.
    pub(crate) fn new(depth: usize, first: i64, step: i64) -> Self {
        Self { depth, first, step, count: 0, waiting: BinaryHeap::new(), last: None }
    }

    /// The decoding time of the next frame. It never decreases, and exceeds `pts` only if the depth
    /// was wrong.
    pub(crate) fn dts(&mut self, pts: i64) -> i64 {
        self.waiting.push(Reverse(pts));
        let dts = if self.count < self.depth {
            let before = i64::try_from(self.depth - self.count).unwrap_or(i64::MAX);
            self.first.saturating_sub(before.saturating_mul(self.step))
        } else {
            self.waiting.pop().map_or(pts, |Reverse(earliest)| earliest)
        };
        self.count += 1;
        let dts = self.last.map_or(dts, |last| dts.max(last));
        self.last = Some(dts);
        dts
    }
}

/// The largest number of frames of `pts` (in decoding order) that precede a frame in decoding order
/// and follow it in output order.
pub(crate) fn reorder_depth(pts: &[i64]) -> usize {
    // A window keeps this linear; no codec holds back more than 16 frames.
    const WINDOW: usize = 64;
    (0..pts.len())
        .map(|index| {
            pts[index.saturating_sub(WINDOW)..index].iter().filter(|earlier| **earlier > pts[index]).count()
        })
        .max()
        .unwrap_or(0)
}

/// Times of an audio track, counted in samples.
#[derive(Clone, Debug)]
pub(crate) struct AudioClock {
    rate: u32,
    tolerance_ns: i64,
    next: Option<i64>,
}

impl AudioClock {
    /// `rate` samples a second; block times are multiples of `scale_ns`.
    pub(crate) fn new(rate: u32, scale_ns: u64) -> Self {
        Self { rate, tolerance_ns: i64::try_from(scale_ns).unwrap_or(i64::MAX).saturating_mul(2), next: None }
    }

    /// Ticks per second.
    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }

    /// The time of a packet of `samples` to which the file gives the time `ns` (`None` for later
    /// packets of a lace).
    pub(crate) fn pts(&mut self, ns: Option<i64>, samples: u32) -> i64 {
        let pts = match (self.next, ns.map(|ns| (ns, ticks(ns, self.rate)))) {
            (None, stated) => stated.map_or(0, |(_, stated)| stated),
            (Some(next), None) => next,
            (Some(next), Some((ns, stated))) => {
                let distance = (i128::from(next) * SECOND_NS - i128::from(ns) * i128::from(self.rate)).abs();
                if distance <= i128::from(self.tolerance_ns) * i128::from(self.rate) { next } else { stated }
            }
        };
        self.next = Some(pts.saturating_add(i64::from(samples)));
        pts
    }
}

/// Division rounded to the nearest whole number, halves up; `divisor` is positive.
fn nearest(dividend: i128, divisor: i128) -> i64 {
    let quotient = (2 * dividend + divisor).div_euclid(2 * divisor);
    i64::try_from(quotient).unwrap_or(if quotient < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const FILM: FrameDuration = FrameDuration { numerator: 1001, denominator: 24_000 };

    fn rounded_ms(index: i64, frame: FrameDuration) -> i64 {
        nearest(i128::from(index) * i128::from(frame.numerator) * 1000, i128::from(frame.denominator))
            * 1_000_000
    }

    #[test]
    fn rates_from_nanoseconds() {
        assert_eq!(FrameDuration::from_ns(41_708_333), Some(FILM));
        assert_eq!(FrameDuration::from_ns(41_666_666), Some(FrameDuration { numerator: 1, denominator: 24 }));
        assert_eq!(FrameDuration::from_ns(80_000_000), Some(FrameDuration { numerator: 2, denominator: 25 }));
        assert_eq!(FrameDuration::from_ns(42_000_000), None);
    }

    #[test]
    fn timescales_hold_ticks_and_frames() {
        assert_eq!(timescale(MS, Some(FILM)), 24_000);
        assert_eq!(timescale(MS, Some(FrameDuration { numerator: 1, denominator: 25 })), 1000);
        assert_eq!(timescale(MS, Some(FrameDuration { numerator: 1, denominator: 30 })), 3000);
        assert_eq!(timescale(MS, None), 1000);
        assert_eq!(timescale(1, None), 1_000_000);
        assert_eq!(timescale(100_000, None), 10_000);
    }

    #[test]
    fn film_is_exact_for_hours() {
        let probed: Vec<_> = (0..240).map(|index| rounded_ms(index, FILM)).collect();
        let (mut clock, frame) = VideoClock::choose(&probed, &[FILM], MS);
        assert_eq!(frame, Some(FILM));
        for index in 0..300_000 {
            assert_eq!(clock.pts(rounded_ms(index, FILM)), index * 1001);
        }
    }

    #[test]
    fn a_wrong_rate_is_not_used() {
        let pal = FrameDuration { numerator: 1, denominator: 25 };
        let probed: Vec<_> = (0..100).map(|index| rounded_ms(index, FILM)).collect();
        let (clock, frame) = VideoClock::choose(&probed, &[pal, FILM], MS);
        assert_eq!((clock.timescale(), frame), (24_000, Some(FILM)));
        let (clock, frame) = VideoClock::choose(&probed, &[pal], MS);
        assert_eq!((clock.timescale(), frame), (1000, None));
    }

    #[test]
    fn decoding_times_of_a_pyramid() {
        let pts = [0, 4, 2, 1, 3, 8, 6, 5, 7];
        assert_eq!(reorder_depth(&pts), 2);
        let mut reorder = Reorder::new(2, 0, 1);
        let dts: Vec<_> = pts.iter().map(|pts| reorder.dts(*pts)).collect();
        assert_eq!(dts, [-2, -1, 0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn audio_counts_samples_and_starts_again_after_a_gap() {
        let mut clock = AudioClock::new(48_000, MS);
        let times: Vec<_> =
            (0..5).map(|index| clock.pts(Some(index * 1024 * 1000 / 48_000 * 1_000_000), 1024)).collect();
        assert_eq!(times, [0, 1024, 2048, 3072, 4096]);
        assert_eq!(clock.pts(None, 1024), 5120);
        assert_eq!(clock.pts(Some(1_000_000_000), 1024), 48_000);
    }

    proptest! {
        #[test]
        fn no_time_moves_by_more_than_the_files_rounding(
            gaps in proptest::collection::vec(1i64..200, 1..100),
            rate in prop::sample::select(vec![(1u32, 24u32), (1, 25), (1001, 24_000), (1001, 30_000), (1, 60)]),
        ) {
            let frame = FrameDuration { numerator: rate.0, denominator: rate.1 };
            let mut at = 0;
            let times: Vec<_> = gaps.iter().map(|gap| { at += gap; at * 1_000_000 }).collect();
            let (mut clock, _) = VideoClock::choose(&times[..1], &[frame], MS);
            for ns in times {
                let pts = clock.pts(ns);
                let back = i128::from(pts) * SECOND_NS / i128::from(clock.timescale());
                prop_assert!((back - i128::from(ns)).abs() <= 1_000_000);
            }
        }

        #[test]
        fn decoding_times_fit_any_order_of_the_right_depth(
            swaps in proptest::collection::vec(0usize..4, 1..80),
            gaps in proptest::collection::vec(1i64..50, 80),
        ) {
            // Frames in output order with irregular gaps, decoded in a shuffled order of bounded
            // depth.
            let mut sorted = vec![0];
            for gap in &gaps { sorted.push(sorted[sorted.len() - 1] + gap); }
            let mut order = sorted.clone();
            for (index, by) in swaps.iter().enumerate() {
                if index + by < order.len() { order[index..=index + by].rotate_right(1); }
            }
            let depth = reorder_depth(&order);
            let mut reorder = Reorder::new(depth, 0, 1);
            let mut last = i64::MIN;
            for pts in order {
                let dts = reorder.dts(pts);
                prop_assert!(dts >= last && dts <= pts);
                last = dts;
            }
        }
    }
}
