//! Chance from a seed: the only source of it in the simulator, the load generator and tests.

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
///
/// Everything derived from it is made of additions, multiplications and divisions, which give the
/// same bits on every machine; library functions such as `ln` do not. The simulator's digests
/// depend on this sequence: it must not change.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng { state: mix(seed.wrapping_add(STEP)) }
    }

    /// An independent generator for one part of the run: what one part draws does not change what
    /// the others draw.
    pub fn part(&self, label: u64) -> Rng {
        Rng { state: mix(self.state ^ mix(label.wrapping_mul(STEP) ^ 0x5851_f42d_4c95_7f2d)) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number of `low..high`; `low` if that is empty.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        // The product's high half is uniform but for one part in 2^64 / end, far below what a run
        // can show.
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// So many random bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| self.bits().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }

    /// A number from 0 to 1, without 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True `of` times of a thousand.
    pub fn permille(&mut self, of: u64) -> bool {
        self.below(1000) < of
    }

    /// A number of the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -ln(1.0 - self.fraction()) * mean
    }

    /// The time until an event that happens once every `mean_ns` on average, at any moment alike;
    /// at most 20 times the mean.
    pub fn wait_ns(&mut self, mean_ns: u64) -> u64 {
        (self.exponential(1.0).min(20.0) * mean_ns as f64) as u64
    }

    /// About the normal distribution: the sum of twelve uniform numbers less six (variance 1, never
    /// beyond 6).
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.fraction()).sum::<f64>() - 6.0
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// Spreads the bits of a number over all 64.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The natural logarithm of a number above 0 and at most 1.
fn ln(number: f64) -> f64 {
    let (mut mantissa, mut halvings) = (number.max(f64::MIN_POSITIVE), 0.0);
    while mantissa < 0.75 {
        mantissa *= 2.0;
        halvings += 1.0;
    }
    // ln m = 2 atanh((m - 1) / (m + 1)); the argument is at most 1/7 in size, so six terms give 11
    // digits.
    let part = (mantissa - 1.0) / (mantissa + 1.0);
    let square = part * part;
    let series = (0..6).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * part * series - halvings * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence_and_parts_are_apart() {
        let draw = |mut rng: Rng| (0..100).map(|_| rng.bits()).collect::<Vec<_>>();
        assert_eq!(draw(Rng::new(7)), draw(Rng::new(7)));
        assert_ne!(draw(Rng::new(7)), draw(Rng::new(8)));
        assert_ne!(draw(Rng::new(7).part(1)), draw(Rng::new(7).part(2)));
        assert_eq!(Rng::new(7).bytes(11)[..8], Rng::new(7).bits().to_le_bytes());
        assert_eq!(Rng::new(7).bytes(11).len(), 11);
    }

    #[test]
    fn the_logarithm_is_the_logarithm() {
        for number in [1.0, 0.999, 0.75, 0.5, 0.1, 1e-9] {
            assert!((ln(number) - f64::ln(number)).abs() < 1e-9, "{number}");
        }
    }

    #[test]
    fn waits_have_their_mean() {
        let mut rng = Rng::new(1);
        let mean = (0..100_000).map(|_| rng.wait_ns(1_000_000) as f64).sum::<f64>() / 1e5;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        let mean = (0..100_000).map(|_| rng.exponential(4.0)).sum::<f64>() / 1e5;
        assert!((3.9..4.1).contains(&mean), "{mean}");
        let spread = (0..100_000).map(|_| rng.normal()).map(|n| n * n).sum::<f64>() / 1e5;
        assert!((spread - 1.0).abs() < 0.02, "{spread}");
        assert!((0..1000).all(|_| (3..9).contains(&rng.range(3, 9))));
    }
}
