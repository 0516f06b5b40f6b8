//! A link that loses packets, from a seed.

use reel_testkit::Rng;

/// A link that loses a share of the packets, in bursts of a mean length (Gilbert's model). A burst
/// of 1 means that each packet is lost independently of the others.
pub(crate) struct Link {
    rng: Rng,
    share: f64,
    mean_burst: f64,
    is_bad: bool,
}

impl Link {
    pub(crate) fn new(seed: u64, share: f64, mean_burst: f64) -> Self {
        Self { rng: Rng::new(seed), share, mean_burst, is_bad: false }
    }

    /// Whether the next packet is lost.
    pub(crate) fn loses(&mut self) -> bool {
        if self.mean_burst <= 1.0 {
            return self.rng.fraction() < self.share;
        }
        let change = match self.is_bad {
            true => 1.0 / self.mean_burst,
            false => self.share / (self.mean_burst * (1.0 - self.share)),
        };
        self.is_bad ^= self.rng.fraction() < change;
        self.is_bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_loses_the_share_it_should_in_bursts_of_the_length_it_should() {
        for (share, mean_burst) in [(0.01, 1.0), (0.05, 1.0), (0.01, 4.0), (0.05, 8.0)] {
            let mut link = Link::new(7, share, mean_burst);
            let (mut lost, mut bursts, mut before) = (0.0, 0.0, false);
            for _ in 0..1_000_000 {
                let is_lost = link.loses();
                lost += f64::from(u8::from(is_lost));
                bursts += f64::from(u8::from(is_lost && !before));
                before = is_lost;
            }
            assert!((lost / 1e6 / share - 1.0).abs() < 0.1, "{share} {mean_burst}: {lost}");
            let expected = if mean_burst > 1.0 { mean_burst } else { 1.0 / (1.0 - share) };
            assert!((lost / bursts / expected - 1.0).abs() < 0.05, "{share} {mean_burst}: {bursts}");
        }
    }
}
