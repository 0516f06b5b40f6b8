//! Durations by their logarithm: percentiles of millions of values in little memory, within 1.6 %.

use serde::{Deserialize, Serialize};

/// Parts of every doubling.
const PARTS: u64 = 64;
const PARTS_LOG: u32 = PARTS.trailing_zeros();

/// Counts of durations in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    most_ns: u64,
}

/// What a histogram says, in milliseconds. All zero if nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// How many values were counted.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The greatest value.
    pub max: f64,
}

impl Histogram {
    /// Counts one duration.
    pub fn add(&mut self, ns: u64) {
        let place = place(ns);
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.most_ns = self.most_ns.max(ns);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, count) in self.counts.iter_mut().zip(&other.counts) {
            *own += count;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.most_ns = self.most_ns.max(other.most_ns);
    }

    /// The percentiles of everything that was counted.
    pub fn percentiles(&self) -> Percentiles {
        if self.count == 0 {
            return Percentiles::default();
        }
        let ms = |ns: u64| ns as f64 / 1e6;
        let at = |share| ms(self.at(share));
        Percentiles {
            count: self.count,
            mean: self.sum_ns as f64 / self.count as f64 / 1e6,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: ms(self.most_ns),
        }
    }

    /// The least value that at least `share` of all values do not exceed, rounded up to its part.
    fn at(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return end_of(place).min(self.most_ns);
            }
        }
        self.most_ns
    }
}

/// Values below `PARTS` have a place each; every doubling above has `PARTS` places.
fn place(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let doubling = ns.ilog2() - PARTS_LOG;
    (u64::from(doubling) * PARTS + (ns >> doubling)) as usize
}

/// The greatest value of a place.
fn end_of(place: usize) -> u64 {
    let place = place as u64;
    if place < 2 * PARTS {
        return place;
    }
    let doubling = place / PARTS - 1;
    let start = (place - doubling * PARTS) << doubling;
    start + ((1 << doubling) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_order_and_hold_their_values() {
        let mut before = 0;
        for ns in (0..300_000u64).chain([1 << 40, (1 << 40) + 1, u64::MAX]) {
            let here = place(ns);
            assert!(here >= before, "{ns}");
            assert!(end_of(here) >= ns && end_of(here) - ns <= ns / PARTS, "{ns}: {}", end_of(here));
            before = here;
        }
    }

    #[test]
    fn percentiles_of_a_ramp() {
        let mut all = Histogram::default();
        let mut other = Histogram::default();
        for ms in 1..=1000u64 {
            if ms % 2 == 0 { &mut all } else { &mut other }.add(ms * 1_000_000);
        }
        all.merge(&other);
        let found = all.percentiles();
        assert_eq!((found.count, found.mean, found.max), (1000, 500.5, 1000.0));
        for (found, wanted) in
            [(found.p50, 500.0), (found.p90, 900.0), (found.p99, 990.0), (found.p999, 999.0)]
        {
            assert!((wanted..=wanted * 1.016).contains(&found), "{found} for {wanted}");
        }
    }

    #[test]
    fn nothing_counted_is_zero() {
        assert_eq!(Histogram::default().percentiles(), Percentiles::default());
    }
}
