//! The search for the number of players at which the first byte is late. Pure.

/// What was seen with a number of players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing was late.
    Well,
    Late,
    /// Something was, by no more than the players' own threads were.
    LateFleet,
}

/// Up from the prediction by tenths while all is well, down while it is not, then between.
#[derive(Clone, Debug)]
pub(super) struct Search {
    well: usize,
    late: Option<usize>,
    next: usize,
    most: usize,
    fineness: usize,
}

impl Search {
    /// From `from` on, with at most `most`; it ends when what is open is no more than one part in
    /// `fineness` of what was carried.
    pub(super) fn new(from: usize, most: usize, fineness: usize) -> Self {
        Self { well: 0, late: None, next: from, most, fineness: fineness.max(1) }
    }

    /// The number to try next; `None` when it is found.
    pub(super) fn next(&self) -> Option<usize> {
        let open = self.late.unwrap_or(self.most.saturating_add(1)).saturating_sub(self.well);
        let enough = match self.late {
            Some(_) => (self.well / self.fineness).max(1),
            // All there are.
            None => 1,
        };
        (open > enough).then_some(self.next)
    }

    /// What was seen with `viewers`.
    pub(super) fn report(&mut self, viewers: usize, seen: Seen) {
        match seen {
            Seen::Well => self.well = self.well.max(viewers),
            Seen::Late | Seen::LateFleet => {
                self.late = Some(self.late.map_or(viewers, |late| late.min(viewers)));
            }
        }
        self.next = match (self.well, self.late) {
            // A ninth more is what a prediction of nine tenths allows.
            (well, None) => (well + (well / 9).max(1)).min(self.most),
            (0, Some(late)) => late / 2,
            (well, Some(late)) => well.midpoint(late),
        };
    }

    /// The most at which nothing was late; 0 if there was none.
    pub(super) fn carried(&self) -> usize {
        self.well
    }

    /// The least at which something was late.
    pub(super) fn first_late(&self) -> Option<usize> {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found where more than `border` are late, and how many numbers were tried.
    fn found(from: usize, border: usize) -> (Search, usize) {
        let (mut search, mut tried) = (Search::new(from, 500, 50), 0);
        while let Some(viewers) = search.next() {
            assert!((1..=500).contains(&viewers), "{viewers}");
            search.report(viewers, if viewers > border { Seen::Late } else { Seen::Well });
            tried += 1;
            assert!(tried <= 20, "no end for {border}");
        }
        (search, tried)
    }

    #[test]
    fn the_border_is_found_from_below_and_from_above() {
        for border in [0, 1, 40, 99, 100, 101, 110, 130, 400] {
            let (search, _) = found(100, border);
            let late = search.first_late().expect("a number that is late");
            let enough = (border / 50).max(1);
            assert!(search.carried() <= border && border < late, "{search:?}");
            assert!(late - search.carried() <= enough, "{search:?} for {border}");
        }
        // A prediction of 94 in a hundred takes few runs: a ninth more, and then between.
        assert!(found(100, 106).1 <= 5);
    }

    #[test]
    fn all_there_are_may_be_carried() {
        let (search, _) = found(450, 600);
        assert_eq!((search.carried(), search.first_late()), (500, None));
    }
}
