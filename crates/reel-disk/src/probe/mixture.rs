//! Which sizes are mixed. Pure.

use crate::limits::PROBE_MIXED_REQUESTS;

/// Reads of two sizes that alternate.
///
/// The alternation is as even as possible. A window holds some dozen reads of a slow device; chosen
/// at random, it would hold a tenth more or less of the slow ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mixture {
    small_bytes: usize,
    large_bytes: usize,
    /// The number of large reads among [`PROBE_MIXED_REQUESTS`].
    large: usize,
    turn: usize,
}

impl Mixture {
    /// The mixture whose requests take as long as its bytes, if the two have independent limits. It
    /// follows from what reads of either size take (bytes, nanoseconds): small ones spend all of it
    /// on their requests, large ones on their bytes. `None` if the mixture would hold one size
    /// only.
    pub(crate) fn at_the_knee(small: (usize, u64), large: (usize, u64)) -> Option<Mixture> {
        let ((small_bytes, small_ns), (large_bytes, large_ns)) = (small, large);
        if small_bytes >= large_bytes || large_ns == 0 {
            return None;
        }
        Mixture::of([small_bytes, large_bytes], bytes_meanwhile(small_ns, large))
    }

    /// The same by what reads of this mixture took. That is a better measure of the cost of bytes
    /// beside small reads than large reads by themselves: a throttle gives more than its limit for
    /// a short time. `None` if it would be this mixture again.
    pub(crate) fn nearer_the_knee(&self, small_ns: u64, each_ns: u64) -> Option<Mixture> {
        let sizes = [self.small_bytes, self.large_bytes];
        let mixed = (self.average_bytes(), each_ns.max(1));
        Mixture::of(sizes, bytes_meanwhile(small_ns, mixed)).filter(|other| other.large != self.large)
    }

    /// Of two sizes and this average, as far as possible.
    fn of([small_bytes, large_bytes]: [usize; 2], average_bytes: f64) -> Option<Mixture> {
        let part = (average_bytes - small_bytes as f64) / (large_bytes - small_bytes) as f64;
        let large = (part * PROBE_MIXED_REQUESTS as f64).round() as usize;
        (1..PROBE_MIXED_REQUESTS).contains(&large).then_some(Mixture {
            small_bytes,
            large_bytes,
            large,
            turn: 0,
        })
    }

    /// Bytes of the next read.
    pub(crate) fn next_bytes(&mut self) -> usize {
        self.turn += self.large;
        if self.turn < PROBE_MIXED_REQUESTS {
            return self.small_bytes;
        }
        self.turn -= PROBE_MIXED_REQUESTS;
        self.large_bytes
    }

    /// Bytes of a read on average, rounded down.
    pub(crate) fn average_bytes(&self) -> usize {
        let small = PROBE_MIXED_REQUESTS - self.large;
        (self.large * self.large_bytes + small * self.small_bytes) / PROBE_MIXED_REQUESTS
    }
}

/// The bytes that are transferred in the time of a request of `small_ns`, if reads of `bytes` take
/// `ns`.
fn bytes_meanwhile(small_ns: u64, (bytes, ns): (usize, u64)) -> f64 {
    bytes as f64 * small_ns as f64 / ns as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_bytes_of_a_mixture_take_the_same() {
        // 100 requests or 20 MB a second: the knee is at 200,000 bytes.
        let mut mixture = Mixture::at_the_knee((4096, 10_000_000), (270_336, 13_516_800)).unwrap();
        assert!(mixture.average_bytes().abs_diff(200_000) < 3_000, "{mixture:?}");
        for requests in [64, 128] {
            let bytes: usize = (0..requests).map(|_| mixture.next_bytes()).sum();
            assert_eq!(bytes, requests * mixture.average_bytes(), "{requests}");
        }
        // And any few of them nearly.
        let few: usize = (0..8).map(|_| mixture.next_bytes()).sum();
        assert!(few.abs_diff(8 * mixture.average_bytes()) <= 270_336, "{few}");
    }

    #[test]
    fn the_second_mixture_lies_where_the_first_one_shows_the_knee() {
        // Units by themselves had 21.6 MB a second, beside blocks they have 20.3.
        let first = Mixture::at_the_knee((4096, 9_860_000), (270_336, 12_500_000)).unwrap();
        assert!(first.average_bytes().abs_diff(213_000) < 3_000, "{first:?}");
        let each_ns = first.average_bytes() as u64 * 1000 * 10 / 203;
        let second = first.nearer_the_knee(9_860_000, each_ns).unwrap();
        assert!(second.average_bytes().abs_diff(200_200) < 3_000, "{second:?}");
        // It takes as long as blocks do, so no other mixture is nearer.
        assert_eq!(second.nearer_the_knee(9_860_000, 9_860_000), None);
        assert_eq!(first.nearer_the_knee(1, 10_000_000), None, "no such mixture");
    }

    #[test]
    fn what_only_one_size_tells_is_not_mixed() {
        assert_eq!(Mixture::at_the_knee((4096, 204_800), (270_336, 13_516_800)), None, "bytes alone");
        assert_eq!(Mixture::at_the_knee((4096, 10_000_000), (270_336, 10_000_000)), None, "requests alone");
        assert_eq!(Mixture::at_the_knee((4096, 10_000_000), (270_336, 1)), None, "nonsense");
        assert_eq!(Mixture::at_the_knee((4096, 1), (4096, 1)), None);
        assert_eq!(Mixture::at_the_knee((4096, 1), (8192, 0)), None);
    }
}
