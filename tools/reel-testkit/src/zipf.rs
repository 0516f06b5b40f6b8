//! Zipf's law: which of many titles a viewer chooses.

use crate::Rng;

/// Zipf's law: the k-th of n things is chosen with a chance in proportion to `1 / k^alpha`.
#[derive(Clone, Debug)]
pub struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    /// The law for this many things with the exponent `alpha`.
    pub fn new(things: usize, alpha: f64) -> Self {
        let mut sum = 0.0;
        let mut next = |rank: usize| {
            sum += (rank as f64).powf(-alpha);
            sum
        };
        Self { sums: (1..=things).map(&mut next).collect() }
    }

    /// One of the things, from 0.
    pub fn choose(&self, rng: &mut Rng) -> usize {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let point = rng.fraction() * all;
        self.sums.partition_point(|sum| *sum <= point).min(self.sums.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_follows_its_law() {
        let zipf = Zipf::new(4, 1.0);
        let mut rng = Rng::new(5);
        let mut counts = [0.0; 4];
        (0..120_000).for_each(|_| counts[zipf.choose(&mut rng)] += 1.0);
        // 1 + 1/2 + 1/3 + 1/4 = 25/12
        for (rank, count) in (1..).zip(counts) {
            let wanted = 120_000.0 / f64::from(rank) * 12.0 / 25.0;
            assert!((count - wanted).abs() < wanted * 0.03, "rank {rank}: {count} of {wanted}");
        }
    }
}
