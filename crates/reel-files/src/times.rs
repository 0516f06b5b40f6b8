//! When the bytes of a title as one file are shown. Pure.

use crate::limits::STRETCHES_MAX;

/// The stretches of a file, as `GET /api/v1/titles/ID/file-times` tells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTimes {
    bytes: u64,
    end_ns: u64,
    /// The first byte of each stretch, and when it is shown. Both ascend, from 0.
    stretches: Vec<(u64, u64)>,
}

impl FileTimes {
    /// The times of a file of `bytes` that is shown until `end_ns`. `None` if no file has such
    /// times.
    pub fn new(bytes: u64, end_ns: u64, stretches: Vec<(u64, u64)>) -> Option<FileTimes> {
        let ascend = stretches.windows(2).all(|two| two[0].0 <= two[1].0 && two[0].1 <= two[1].1);
        let (last, last_ns) = *stretches.last()?;
        let is_whole = stretches.first() == Some(&(0, 0)) && last < bytes && last_ns <= end_ns && end_ns > 0;
        (ascend && is_whole && stretches.len() <= STRETCHES_MAX).then_some(FileTimes {
            bytes,
            end_ns,
            stretches,
        })
    }

    /// The length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How long it is shown.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Its mean rate.
    pub fn mean_bps(&self) -> u64 {
        scaled(self.bytes, 8_000_000_000, self.end_ns)
    }

    /// When all bytes before this one have been shown, at the latest.
    pub fn at_ns(&self, byte: u64) -> u64 {
        let after = self.stretches.partition_point(|(start, _)| *start <= byte);
        let ((start, start_ns), (next, next_ns)) = self.around(after);
        // Rounded up, so that `byte_at` of it is not before the byte.
        let into = u128::from(byte.min(next) - start) * u128::from(next_ns - start_ns);
        // The cast fits: it is at most the time of the stretch.
        start_ns + into.div_ceil(u128::from((next - start).max(1))) as u64
    }

    /// The first byte that is not shown yet at a time.
    pub fn byte_at(&self, at_ns: u64) -> u64 {
        if at_ns >= self.end_ns {
            return self.bytes;
        }
        let after = self.stretches.partition_point(|(_, start_ns)| *start_ns <= at_ns);
        let ((start, start_ns), (next, next_ns)) = self.around(after);
        start + scaled(at_ns - start_ns, next - start, next_ns - start_ns)
    }

    /// Where the stretch begins that is shown at a time.
    pub fn stretch_at(&self, at_ns: u64) -> u64 {
        let after = self.stretches.partition_point(|(_, start_ns)| *start_ns <= at_ns);
        self.around(after).0.0
    }

    /// The stretch before this number, and the one of this number or the end.
    fn around(&self, after: usize) -> ((u64, u64), (u64, u64)) {
        let start = after.checked_sub(1).map_or((0, 0), |before| self.stretches[before]);
        (start, self.stretches.get(after).copied().unwrap_or((self.bytes, self.end_ns)))
    }
}

/// `value * times / by`, rounded down; `u64::MAX` if it is more.
pub(crate) fn scaled(value: u64, times: u64, by: u64) -> u64 {
    let result = u128::from(value) * u128::from(times) / u128::from(by.max(1));
    u64::try_from(result).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Files of up to fifty stretches.
    pub(crate) fn any_times() -> impl Strategy<Value = FileTimes> {
        let stretch = (1_u64..300_000, 1_u64..4_000_000_000);
        prop::collection::vec(stretch, 1..50).prop_map(|steps| {
            let (mut bytes, mut end_ns) = (0, 0);
            let mut stretches = Vec::new();
            for (more, ns) in steps {
                stretches.push((bytes, end_ns));
                (bytes, end_ns) = (bytes + more, end_ns + ns);
            }
            FileTimes::new(bytes, end_ns, stretches).expect("times of a file")
        })
    }

    #[test]
    fn bytes_are_shown_between_the_times_of_their_stretches() {
        let times = FileTimes::new(300, 6_000, vec![(0, 0), (100, 2_000)]).expect("times");
        assert_eq!(
            [0, 50, 100, 200, 300, 999].map(|byte| times.at_ns(byte)),
            [0, 1000, 2000, 4000, 6000, 6000]
        );
        assert_eq!(
            [0, 1000, 2000, 5999, 6000, 9000].map(|ns| times.byte_at(ns)),
            [0, 50, 100, 299, 300, 300]
        );
        assert_eq!([0, 1999, 2000, 9000].map(|ns| times.stretch_at(ns)), [0, 0, 100, 100]);
        assert_eq!(times.mean_bps(), 400_000_000);
    }

    /// A server of another machine says what it wants.
    #[test]
    fn what_no_file_has_is_refused() {
        for (bytes, end_ns, stretches) in [
            (10, 10, vec![]),
            (10, 10, vec![(1, 0)]),
            (10, 10, vec![(0, 1)]),
            (10, 10, vec![(0, 0), (5, 5), (4, 6)]),
            (10, 10, vec![(0, 0), (5, 5), (6, 4)]),
            (10, 10, vec![(0, 0), (10, 5)]),
            (10, 10, vec![(0, 0), (5, 11)]),
            (0, 10, vec![(0, 0)]),
            (10, 0, vec![(0, 0)]),
            (u64::MAX, 10, vec![(0, 0); STRETCHES_MAX + 1]),
        ] {
            assert_eq!(FileTimes::new(bytes, end_ns, stretches.clone()), None, "{stretches:.3?}");
        }
        let extreme = FileTimes::new(u64::MAX, u64::MAX, vec![(0, 0)]).expect("times");
        assert_eq!((extreme.at_ns(u64::MAX), extreme.byte_at(u64::MAX)), (u64::MAX, u64::MAX));
    }

    proptest! {
        #[test]
        fn a_byte_is_there_when_it_is_shown(times in any_times(), part in 0.0..1.0) {
            let byte = (times.bytes() as f64 * part) as u64;
            prop_assert!(times.byte_at(times.at_ns(byte)) >= byte);
            let at_ns = (times.end_ns() as f64 * part) as u64;
            prop_assert!(times.stretch_at(at_ns) <= times.byte_at(at_ns));
            prop_assert!(times.at_ns(times.stretch_at(at_ns)) <= at_ns);
        }
    }
}
