//! Requests that take far longer than others: a disk tries again what it could not read, or is busy
//! with itself.
//!
//! Of 450,000 hard disks and 4,000 solid state disks, each was more than twice as slow as its peers
//! of the same array in 0.2 % and 0.6 % of its hours (Hao and others, "The Tail at Store", FAST
//! 2016). How long single requests take then is assumed here.

use reel_testkit::Rng;

/// How many requests take longer, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// One request of so many.
    pub one_in: u64,
    /// What such a request takes more, at least. Half of them take twice that, a tenth ten times,
    /// a hundredth a hundred times (Pareto, exponent 1: without `most_ns` there is no mean).
    pub least_ns: u64,
    /// The same, at most.
    pub most_ns: u64,
}

impl Tail {
    /// What one request takes more.
    pub(super) fn draw_ns(self, rng: &mut Rng) -> u64 {
        const PARTS: u64 = 1 << 20;
        if rng.below(self.one_in.max(1)) > 0 {
            return 0;
        }
        let ns = u128::from(self.least_ns) * u128::from(PARTS) / u128::from(rng.range(1, PARTS));
        u64::try_from(ns).unwrap_or(u64::MAX).min(self.most_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_slow_ones_is_ten_times_as_slow() {
        let tail = Tail { one_in: 100, least_ns: 1_000, most_ns: 50_000 };
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..1_000_000).map(|_| tail.draw_ns(&mut rng)).filter(|ns| *ns > 0).collect();
        let above = |ns: u64| drawn.iter().filter(|drawn| **drawn >= ns).count();
        assert!((9_500..10_500).contains(&drawn.len()) && above(1_000) == drawn.len());
        assert!((900..1_100).contains(&above(10_000)), "{}", above(10_000));
        assert!((150..250).contains(&above(50_000)) && above(50_001) == 0, "{}", above(50_000));
    }
}
