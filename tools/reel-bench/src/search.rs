//! The search for the highest number that a server carries. Pure.

/// A search is usually over when what is open is no more than one part in so many of what is
/// carried.
pub(crate) const FINENESS: usize = 16;

/// Grows while all is well, then halves what is open.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// The most that were carried; 0 if there was none.
    pub(crate) carried: usize,
    /// The least that were not.
    pub(crate) fails: Option<usize>,
    most: usize,
    fineness: usize,
    grown: fn(usize) -> usize,
    next: usize,
    is_over: bool,
}

/// Twice as many: for a search that knows nothing.
pub(crate) fn doubled(carried: usize) -> usize {
    carried * 2
}

/// A ninth more, which is what a prediction of nine tenths allows: for a search that begins at one.
pub(crate) fn ninth_more(carried: usize) -> usize {
    carried + (carried / 9).max(1)
}

impl Search {
    /// From `from` on, with at most `most`; it ends when what is open is no more than one part in
    /// `fineness` of what is carried. `grown` is what follows a number that is carried.
    pub(crate) fn new(from: usize, most: usize, fineness: usize, grown: fn(usize) -> usize) -> Self {
        let next = from.clamp(1, most);
        Self { carried: 0, fails: None, most, fineness: fineness.max(1), grown, next, is_over: false }
    }

    /// The number to try next; `None` when it is found.
    pub(crate) fn next(&self) -> Option<usize> {
        (!self.is_over).then_some(self.next)
    }

    /// Of `asked`, `carried` were; fewer than asked if the others were refused, `None` if something
    /// was late.
    pub(crate) fn report(&mut self, asked: usize, carried: Option<usize>) {
        match carried {
            Some(carried) => {
                self.carried = self.carried.max(carried);
                // A server that refuses some and serves the others has shown its number: more would
                // be refused, too.
                self.is_over |= carried < asked;
            }
            None => self.fails = Some(self.fails.map_or(asked, |fails| fails.min(asked))),
        }
        self.next = match (self.fails, self.carried) {
            (None, carried) => (self.grown)(carried).min(self.most),
            (Some(fails), 0) => fails / 2,
            (Some(fails), carried) => carried.midpoint(fails),
        };
        let open = self.fails.unwrap_or(usize::MAX).saturating_sub(self.carried);
        self.is_over |=
            self.next == 0 || self.carried >= self.most || open <= (self.carried / self.fineness).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From, most, fineness, growth.
    type Way = (usize, usize, usize, fn(usize) -> usize);

    /// The ways in which experiments search.
    const WAYS: [Way; 3] =
        [(64, 5000, FINENESS, doubled), (8, 192, FINENESS, doubled), (100, 500, 50, ninth_more)];

    /// What is found where more than `border` are late, and how many numbers were tried.
    fn found((from, most, fineness, grown): Way, border: usize) -> (Search, usize) {
        let (mut search, mut tried) = (Search::new(from, most, fineness, grown), 0);
        while let Some(asked) = search.next() {
            assert!((1..=most).contains(&asked), "{asked}");
            tried += 1;
            assert!(tried <= 20, "no end for {border}");
            search.report(asked, (asked <= border).then_some(asked));
        }
        (search, tried)
    }

    #[test]
    fn the_border_is_found_from_below_and_from_above() {
        for way in WAYS {
            for border in [0, 1, 2, 7, 8, 9, 63, 64, 65, 99, 100, 101, 110, 130, 191] {
                let (search, tried) = found(way, border);
                let fails = search.fails.expect("a number that fails");
                assert!(search.carried <= border && border < fails, "{search:?}");
                assert!(fails - search.carried <= (border / way.2).max(1), "{search:?} for {border}");
                assert!(tried <= 14, "{tried} numbers for {border}");
            }
        }
        // A prediction of 94 in a hundred takes few runs: a ninth more, and then between.
        assert!(found(WAYS[2], 106).1 <= 5);
    }

    #[test]
    fn it_ends_at_the_most_and_at_nothing() {
        for way in WAYS {
            let (search, _) = found(way, 9999);
            assert_eq!((search.carried, search.fails), (way.1, None));
            assert_eq!(found(way, 0).0.carried, 0);
        }
        assert_eq!(found((1, 5000, FINENESS, doubled), 0).1, 1);
    }

    #[test]
    fn a_server_that_refuses_has_reported_its_number() {
        let mut search = Search::new(1000, 5000, FINENESS, doubled);
        search.report(1000, Some(420));
        assert_eq!((search.next(), search.carried), (None, 420));
        // Refusals count only where nothing was late.
        let mut search = Search::new(1000, 5000, FINENESS, doubled);
        search.report(1000, None);
        assert_eq!((search.next(), search.carried), (Some(500), 0));
    }
}
