//! Which rendition a player takes. Pure.

use super::plan::Rendition;
use reel_testkit::Variant;

/// A player's choice among the renditions of its title, the lowest rate first.
#[derive(Debug)]
pub(crate) struct Choice {
    rule: Rendition,
    /// Moving average of what segments came at; `None` before the first.
    throughput_bps: Option<f64>,
}

/// The part of the measured throughput that a rendition may take: what is left is for its peaks.
const USABLE: f64 = 0.8;

/// How much the latest segment counts.
const LATEST: f64 = 0.4;

impl Choice {
    pub(crate) fn new(rule: Rendition) -> Self {
        Self { rule, throughput_bps: None }
    }

    /// A segment of `bytes` took `ns` from its request to its last byte.
    pub(crate) fn measured(&mut self, bytes: u64, ns: u64) {
        let rate = bytes as f64 * 8e9 / ns.max(1) as f64;
        self.throughput_bps = Some(match self.throughput_bps {
            Some(before) => before * (1.0 - LATEST) + rate * LATEST,
            None => rate,
        });
    }

    /// The rendition of the next segment; `now` is the one that plays. Down as far as need be, up
    /// one at a time.
    pub(crate) fn choose(&self, variants: &[Variant], now: Option<usize>) -> usize {
        let highest = variants.len().saturating_sub(1);
        match (self.rule, self.throughput_bps, now) {
            (Rendition::Highest, ..) => highest,
            // Without a measurement a careful player begins below.
            (Rendition::Lowest, ..) | (_, None, None) => 0,
            (_, None, Some(now)) => now,
            (_, Some(rate), now) => {
                let fitting =
                    variants.partition_point(|variant| variant.bandwidth_bps as f64 <= rate * USABLE);
                fitting.saturating_sub(1).min(now.map_or(0, |now| now + 1)).min(highest)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variants() -> Vec<Variant> {
        let variant = |bandwidth_bps| Variant { bandwidth_bps, uri: String::new(), audio: None };
        [1_000_000, 3_000_000, 8_000_000].map(variant).to_vec()
    }

    #[test]
    fn fixed_choices() {
        let mut highest = Choice::new(Rendition::Highest);
        highest.measured(1, 1_000_000_000);
        assert_eq!(highest.choose(&variants(), None), 2);
        assert_eq!(Choice::new(Rendition::Lowest).choose(&variants(), Some(2)), 0);
    }

    #[test]
    fn adaptive_goes_up_by_one_and_down_at_once() {
        let mut choice = Choice::new(Rendition::Adaptive);
        assert_eq!(choice.choose(&variants(), None), 0);
        choice.measured(10_000_000, 1_000_000_000); // 80 Mb/s
        assert_eq!(choice.choose(&variants(), Some(0)), 1);
        assert_eq!(choice.choose(&variants(), Some(1)), 2);
        // 1 Mb/s: less than the lowest rendition with its margin.
        (0..20).for_each(|_| choice.measured(125_000, 1_000_000_000));
        assert_eq!(choice.choose(&variants(), Some(2)), 0);
        (0..20).for_each(|_| choice.measured(500_000, 1_000_000_000)); // 4 Mb/s
        assert_eq!(choice.choose(&variants(), Some(2)), 1);
    }
}
