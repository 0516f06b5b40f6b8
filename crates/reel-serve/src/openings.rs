//! Titles that other threads open for a serve thread, each with the time at which it is given up.

use std::collections::{BTreeSet, HashMap};

/// The openings of one thread, by number.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    next: u64,
    tags: HashMap<u64, u64>,
    /// In the order of their times. One that waits for disks to spin up has more time.
    until_ns: BTreeSet<(u64, u64)>,
}

impl Openings {
    /// The number of the next opening that begins.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// An opening has begun for this tag.
    pub(crate) fn begin(&mut self, tag: u64, until_ns: u64) {
        self.tags.insert(self.next, tag);
        self.until_ns.insert((until_ns, self.next));
        self.next += 1;
    }

    /// An opening has ended. Returns its tag, or `None` if it was given up.
    pub(crate) fn end(&mut self, opening: u64) -> Option<u64> {
        self.tags.remove(&opening)
    }

    /// Gives up an opening whose time is over, and returns its tag.
    pub(crate) fn overdue(&mut self, now_ns: u64) -> Option<u64> {
        while let Some(&(until_ns, opening)) = self.until_ns.first()
            && until_ns <= now_ns
        {
            self.until_ns.pop_first();
            if let Some(tag) = self.end(opening) {
                return Some(tag);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_ends_once() {
        let mut openings = Openings::default();
        for tag in [7, 7, 8] {
            openings.begin(tag, 100 + tag);
        }
        assert_eq!(openings.end(0), Some(7));
        assert_eq!(openings.end(0), None);
        assert_eq!(openings.overdue(106), None);
        assert_eq!(openings.overdue(107), Some(7));
        assert_eq!(openings.overdue(107), None);
        assert_eq!(openings.end(1), None, "it was given up");
        assert_eq!(openings.end(2), Some(8));
        openings.begin(9, 300);
        openings.begin(10, 200);
        assert_eq!((openings.overdue(250), openings.overdue(250)), (Some(10), None));
        assert_eq!(openings.overdue(300), Some(9));
        assert_eq!((openings.overdue(u64::MAX), openings.next()), (None, 5));
    }
}
