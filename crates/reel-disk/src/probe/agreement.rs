//! Which windows of a measurement count. Pure.
//!
//! Something else may use a disk while it is measured: a window with a stall in it says nothing of
//! the disk. Windows of one kind that agree with one another are believed, and those that took
//! longer are left out. A disk that is slower for good, such as a throttle that has spent what it
//! saved up, is told from a disturbed one by what follows: it does not recover.

use crate::limits::{
    PROBE_AGREE_PERMILLE, PROBE_AGREE_WINDOWS_MIN, PROBE_UNSETTLED_MAX, PROBE_ZONES_PERMILLE,
};

/// A window that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The part of the member that it was in, if that may be slower or faster than the whole.
    pub(crate) zone: Option<Zone>,
    /// What its requests took together.
    pub(crate) time_ns: u64,
    /// What the longest of them took.
    pub(crate) longest_ns: u64,
}

/// A part of a rotational disk, which has slow and fast ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// The first eighth of what was written.
    First,
    /// The last.
    Last,
}

/// What windows of one kind say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// The times of those that count, in ascending order.
    pub(crate) kept_ns: Vec<u64>,
    /// How many were left out.
    pub(crate) disturbed: usize,
    /// The longest request in those.
    pub(crate) stall_ns: u64,
    /// Whether enough of them agree. Otherwise all count that are not far from the middle.
    pub(crate) is_settled: bool,
}

/// What these windows of one kind say, in the order in which they were measured.
pub(crate) fn agreement(windows: &[Taken]) -> Agreement {
    let of = |zone| -> Vec<u64> {
        windows.iter().filter(|window| window.zone == zone).map(|window| window.time_ns).collect()
    };
    let whole = of(None);
    let mut limit = agreed(&whole);
    let base_ns = limit.or(whole.iter().copied().max());
    let zones = [Zone::First, Zone::Last].map(|zone| {
        let times = of(Some(zone));
        let own = if times.len() > 1 { agreed(&times) } else { None };
        // A single window of a zone is compared with the whole.
        let by_whole_ns = base_ns.map_or(u64::MAX, |ns| more_by(ns, PROBE_ZONES_PERMILLE));
        let is_plausible = times.iter().any(|&time_ns| time_ns <= by_whole_ns);
        (own.or(Some(by_whole_ns).filter(|_| is_plausible)), times.is_empty())
    });
    if zones.iter().any(|(limit, is_empty)| limit.is_none() && !is_empty) {
        limit = None;
    }
    let is_settled = limit.is_some();
    let unsettled_max_ns = unsettled_max_ns(windows);
    let limit_of = |zone: Option<Zone>| match zone {
        _ if !is_settled => Some(unsettled_max_ns),
        None => limit,
        Some(Zone::First) => zones[0].0,
        Some(Zone::Last) => zones[1].0,
    };
    let counts = |window: &&Taken| limit_of(window.zone).is_none_or(|ns| window.time_ns <= ns);
    let mut kept_ns: Vec<u64> = windows.iter().filter(counts).map(|window| window.time_ns).collect();
    kept_ns.sort_unstable();
    let left_out = windows.iter().filter(|window| !counts(window));
    let stall_ns = left_out.map(|window| window.longest_ns).max().unwrap_or(0);
    Agreement { disturbed: windows.len() - kept_ns.len(), kept_ns, stall_ns, is_settled }
}

/// Which of several kinds, which were measured by turns, are settled. Beside kinds that were
/// disturbed, a few windows may all have been disturbed in the same way.
pub(crate) fn are_settled(kinds: &[Agreement]) -> Vec<bool> {
    let is_disturbed = kinds.iter().any(|kind| kind.disturbed > 0 || !kind.is_settled);
    let is_enough = |kind: &Agreement| !is_disturbed || kind.kept_ns.len() >= PROBE_AGREE_WINDOWS_MIN;
    kinds.iter().map(|kind| kind.is_settled && is_enough(kind)).collect()
}

/// The longest time of those that agree, if they are the majority, and what took another time looks
/// like a disturbance: windows as fast as these came before and after it, and in the later half,
/// and faster ones at the beginning only. Few windows tell that only if all of them agree.
fn agreed(times_ns: &[u64]) -> Option<u64> {
    let majority = Majority::of(times_ns)?;
    let count = majority.count(times_ns);
    let later = &times_ns[times_ns.len() / 2..];
    let first = times_ns.iter().position(|time_ns| majority.holds(*time_ns))?;
    let is_fastest = times_ns[first..].iter().all(|time_ns| *time_ns >= majority.least_ns);
    let is_believed = (count == times_ns.len() || count >= PROBE_AGREE_WINDOWS_MIN)
        && 2 * majority.count(later) >= later.len()
        && majority.has_recovered(times_ns)
        && is_fastest;
    is_believed.then_some(majority.most_ns)
}

/// The longest time that counts although the windows do not agree.
fn unsettled_max_ns(windows: &[Taken]) -> u64 {
    let times_ns: Vec<u64> = windows.iter().map(|window| window.time_ns).collect();
    let majority = Majority::of(&times_ns).filter(|majority| majority.has_recovered(&times_ns));
    majority
        .map_or_else(|| middle_ns(times_ns).saturating_mul(PROBE_UNSETTLED_MAX), |majority| majority.most_ns)
}

/// More than half of some windows, which take about the same time.
struct Majority {
    least_ns: u64,
    most_ns: u64,
}

impl Majority {
    /// Of groups of the same size the slower one.
    fn of(times_ns: &[u64]) -> Option<Self> {
        let from = |least_ns| Self { least_ns, most_ns: more_by(least_ns, PROBE_AGREE_PERMILLE) };
        let groups = times_ns.iter().map(|least_ns| from(*least_ns));
        let largest = groups.max_by_key(|group| (group.count(times_ns), group.least_ns))?;
        (2 * largest.count(times_ns) > times_ns.len()).then_some(largest)
    }

    /// Whether some came after the first one that took longer.
    fn has_recovered(&self, times_ns: &[u64]) -> bool {
        let first_slower = times_ns.iter().position(|time_ns| *time_ns > self.most_ns);
        first_slower.is_none_or(|place| self.count(&times_ns[place..]) > 0)
    }

    fn holds(&self, time_ns: u64) -> bool {
        (self.least_ns..=self.most_ns).contains(&time_ns)
    }

    fn count(&self, times_ns: &[u64]) -> usize {
        times_ns.iter().filter(|time_ns| self.holds(**time_ns)).count()
    }
}

/// At least half of them took no longer; 0 of none.
fn middle_ns(mut times_ns: Vec<u64>) -> u64 {
    times_ns.sort_unstable();
    times_ns.get(times_ns.len() / 2).copied().unwrap_or(0)
}

fn more_by(ns: u64, permille: u64) -> u64 {
    ns.saturating_add((u128::from(ns) * u128::from(permille) / 1000) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn whole(times_ms: &[u64]) -> Vec<Taken> {
        times_ms.iter().map(|ms| Taken { zone: None, time_ns: ms * MS, longest_ns: ms * MS / 2 }).collect()
    }

    fn kept_ms(agreement: &Agreement) -> Vec<u64> {
        agreement.kept_ns.iter().map(|ns| ns / MS).collect()
    }

    #[test]
    fn windows_with_a_stall_are_left_out_and_counted() {
        let times = [360, 76_700, 355, 361];
        let found = agreement(&whole(&times));
        assert_eq!((kept_ms(&found), found.disturbed, found.is_settled), (vec![355, 360, 361], 1, false));
        assert_eq!(found.stall_ns, 38_350 * MS);
        let found = agreement(&whole(&[times, [358, 359, 357, 356]].concat()));
        assert_eq!((found.kept_ns.len(), found.disturbed, found.is_settled), (7, 1, true));
        let quiet = agreement(&whole(&[360, 365]));
        assert_eq!((kept_ms(&quiet), quiet.disturbed, quiet.stall_ns), (vec![360, 365], 0, 0));
    }

    #[test]
    fn a_disk_that_became_slower_is_measured_on_until_that_is_the_majority() {
        // A throttle that has saved up some requests.
        for first in [&[100, 101, 300, 301][..], &[100, 100, 100, 300], &[100, 100, 300]] {
            let found = agreement(&whole(first));
            assert!(!found.is_settled && found.disturbed == 0, "{found:?}");
            let more = [first, &[300, 302, 301, 300, 301]].concat();
            let found = agreement(&whole(&more));
            assert!(found.is_settled && found.kept_ns.last() >= Some(&(300 * MS)), "{found:?}");
        }
    }

    #[test]
    fn windows_that_never_agree_count_unless_they_are_far_from_the_middle() {
        let found = agreement(&whole(&[100, 150, 220, 300, 400]));
        assert_eq!((kept_ms(&found), found.is_settled), (vec![100, 150, 220, 300, 400], false));
        let found = agreement(&whole(&[100, 150, 220, 90_000]));
        assert_eq!((kept_ms(&found), found.disturbed), (vec![100, 150, 220], 1));
        assert!(!found.is_settled && !agreement(&whole(&[100, 200])).is_settled);
        assert_eq!(agreement(&[]), Agreement::default());
    }

    #[test]
    fn slow_zones_of_a_rotational_disk_count_and_their_stalls_do_not() {
        let taken = |zone, ms: u64| Taken { zone: Some(zone), time_ns: ms * MS, longest_ns: ms * MS };
        let mut windows = whole(&[500, 510]);
        windows.extend([taken(Zone::Last, 640), taken(Zone::First, 420)]);
        let found = agreement(&windows);
        assert_eq!((kept_ms(&found), found.is_settled), (vec![420, 500, 510, 640], true));
        // This is no zone that is slower, until it was seen again.
        windows[2].time_ns = 2_000 * MS;
        assert!(!agreement(&windows).is_settled);
        windows.extend([taken(Zone::Last, 640), taken(Zone::Last, 650)]);
        let found = agreement(&windows);
        assert_eq!((kept_ms(&found), found.disturbed), (vec![420, 500, 510, 640, 650], 1));
    }
}
