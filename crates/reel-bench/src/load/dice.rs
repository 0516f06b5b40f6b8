//! Seeded chance. Every client and purpose has its own sequence, so that timing changes nobody's choices.

/// What a sequence is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Arrival,
    Title,
    Remote,
    Download,
    Browse,
    /// What is lost on the way.
    Way,
}

/// A sequence of random numbers (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The sequence of one client for one purpose.
    pub(crate) fn new(seed: u64, purpose: Purpose, client: usize) -> Self {
        let mut dice = Self(seed);
        for word in [purpose as u64, client as u64] {
            dice.0 = dice.next() ^ word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// From 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 to below `end`; 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Exponential with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// Zipf's law: the k-th of n things is chosen with a chance in proportion to `1 / k^alpha`.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(things: usize, alpha: f64) -> Self {
        let mut sum = 0.0;
        let mut next = |rank: usize| {
            sum += (rank as f64).powf(-alpha);
            sum
        };
        Self { sums: (1..=things).map(&mut next).collect() }
    }

    /// One of the things, from 0.
    pub(crate) fn choose(&self, dice: &mut Dice) -> usize {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let point = dice.unit() * all;
        self.sums.partition_point(|sum| *sum <= point).min(self.sums.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_sequence_and_no_other() {
        let sequence = |seed, purpose, client| {
            let mut dice = Dice::new(seed, purpose, client);
            [dice.next(), dice.next(), dice.next()]
        };
        let one = sequence(7, Purpose::Title, 3);
        assert_eq!(one, sequence(7, Purpose::Title, 3));
        for other in [(8, Purpose::Title, 3), (7, Purpose::Remote, 3), (7, Purpose::Title, 4)] {
            assert_ne!(one, sequence(other.0, other.1, other.2), "{other:?}");
        }
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut dice = Dice::new(1, Purpose::Arrival, 0);
        let mean = (0..100_000).map(|_| dice.exponential(4.0)).sum::<f64>() / 100_000.0;
        assert!((3.9..4.1).contains(&mean), "{mean}");
    }

    #[test]
    fn zipf_follows_its_law() {
        let zipf = Zipf::new(4, 1.0);
        let mut dice = Dice::new(5, Purpose::Title, 0);
        let mut counts = [0.0; 4];
        (0..120_000).for_each(|_| counts[zipf.choose(&mut dice)] += 1.0);
        // 1 + 1/2 + 1/3 + 1/4 = 25/12
        for (rank, count) in (1..).zip(counts) {
            let wanted = 120_000.0 / f64::from(rank) * 12.0 / 25.0;
            assert!((count - wanted).abs() < wanted * 0.03, "rank {rank}: {count} of {wanted}");
        }
    }
}
