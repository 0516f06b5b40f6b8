//! When each cast is announced: pure.
//!
//! A cast is announced at once when it begins, and then each five seconds, so that a person who
//! looks for casts need not wait for long. RFC 2974, section 3.1, allows all announcements of a
//! group 4000 bit/s together: after each announcement, the next one waits until it has used its
//! part. With many casts, each is therefore announced less often, in turn.

use crate::limits::{ANNOUNCE_BPS, ANNOUNCE_EVERY_NS};
use std::collections::BTreeMap;

/// The casts that are announced, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Announcer {
    /// When each is to be announced.
    due: BTreeMap<u64, Due>,
    /// Before this time nothing is sent.
    free_ns: u64,
}

/// When a cast is to be announced. One that never was goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    was_announced: bool,
    at_ns: u64,
}

impl Announcer {
    /// A cast begins.
    pub(crate) fn begins(&mut self, cast: u64, now_ns: u64) {
        self.due.insert(cast, Due { was_announced: false, at_ns: now_ns });
    }

    /// A cast has ended.
    pub(crate) fn ends(&mut self, cast: u64) {
        self.due.remove(&cast);
    }

    /// The cast to announce now, if it is time for one. The caller says next what it sent.
    pub(crate) fn next(&self, now_ns: u64) -> Option<u64> {
        let (cast, due) = self.first()?;
        (due.at_ns.max(self.free_ns) <= now_ns).then_some(cast)
    }

    /// A cast was announced with so many bytes; with none if there was nothing to send.
    pub(crate) fn announced(&mut self, cast: u64, bytes: usize, now_ns: u64) {
        if let Some(due) = self.due.get_mut(&cast) {
            *due = Due { was_announced: true, at_ns: now_ns + ANNOUNCE_EVERY_NS };
            self.free_ns = now_ns + bytes as u64 * 8 * 1_000_000_000 / ANNOUNCE_BPS;
        }
    }

    /// When the next announcement is due.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        Some(self.first()?.1.at_ns.max(self.free_ns))
    }

    fn first(&self) -> Option<(u64, Due)> {
        self.due.iter().map(|(cast, due)| (*cast, *due)).min_by_key(|(_, due)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Announces whenever something is due, until `until_ns`: the times of each cast.
    fn run(announcer: &mut Announcer, bytes: usize, until_ns: u64) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        while let Some(at_ns) = announcer.due_ns().filter(|at_ns| *at_ns < until_ns) {
            assert_eq!(announcer.next(at_ns - 1), None);
            let cast = announcer.next(at_ns).expect("due");
            announcer.announced(cast, bytes, at_ns);
            sent.push((at_ns, cast));
        }
        sent
    }

    #[test]
    fn a_single_cast_is_announced_each_five_seconds() {
        let mut announcer = Announcer::default();
        assert_eq!(announcer.due_ns(), None);
        announcer.begins(7, 2 * S);
        assert_eq!(run(&mut announcer, 600, 13 * S), [(2 * S, 7), (7 * S, 7), (12 * S, 7)]);
        announcer.ends(7);
        assert_eq!(announcer.next(100 * S), None);
    }

    #[test]
    fn many_casts_take_turns_and_stay_below_the_rate() {
        let mut announcer = Announcer::default();
        (0..64).for_each(|cast| announcer.begins(cast, S));
        let sent = run(&mut announcer, 500, 200 * S);
        // 4000 bit each: one in a second.
        assert!(sent.windows(2).all(|pair| pair[1].0 - pair[0].0 == S));
        assert!(sent.windows(65).all(|turn| turn[64].1 == turn[0].1), "in turn");
        // One that begins meanwhile is next.
        announcer.begins(99, 150 * S);
        assert_eq!(announcer.next(201 * S), Some(99));
    }

    #[test]
    fn what_is_not_sent_takes_no_time_of_others() {
        let mut announcer = Announcer::default();
        (0..3).for_each(|cast| announcer.begins(cast, S));
        assert_eq!(run(&mut announcer, 0, 2 * S), [(S, 0), (S, 1), (S, 2)]);
        announcer.announced(9, 1000, S);
        assert_eq!(announcer.due_ns(), Some(6 * S));
    }
}
