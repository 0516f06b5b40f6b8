//! The search for the highest number that is carried. Pure.

/// It ends when what is open is no more than one part in so many of what is carried.
const FINENESS: usize = 16;

/// Doubles while all is well, then halves what is open.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// The most that were carried.
    pub(super) carried: usize,
    /// The least that were not.
    pub(super) fails: Option<usize>,
    most: usize,
    next: usize,
    is_over: bool,
}

impl Search {
    pub(super) fn new(from: usize, most: usize) -> Self {
        Self { carried: 0, fails: None, most, next: from.clamp(1, most), is_over: false }
    }

    /// The number to try next; `None` when it is found.
    pub(super) fn next(&self) -> Option<usize> {
        (!self.is_over).then_some(self.next)
    }

    /// Of `asked` viewers, `carried` had nothing late and the others were refused; `None` if
    /// something was late.
    pub(super) fn report(&mut self, asked: usize, carried: Option<usize>) {
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
            (None, carried) => (carried * 2).min(self.most),
            (Some(fails), 0) => fails / 2,
            (Some(fails), carried) => carried.midpoint(fails),
        };
        let open = self.fails.unwrap_or(usize::MAX).saturating_sub(self.carried);
        self.is_over |=
            self.next == 0 || self.carried >= self.most || open <= (self.carried / FINENESS).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found where more than `border` are late, and how many numbers were tried.
    fn found(border: usize, from: usize) -> (usize, usize) {
        let (mut search, mut tried) = (Search::new(from, 5000), 0);
        while let Some(asked) = search.next() {
            tried += 1;
            assert!(tried < 40, "no end for {border}");
            search.report(asked, (asked <= border).then_some(asked));
        }
        (search.carried, tried)
    }

    #[test]
    fn it_ends_just_below_the_number_that_is_late() {
        for border in [1, 2, 7, 63, 64, 65, 700, 1023, 4999] {
            let (carried, tried) = found(border, 64);
            assert!(
                carried <= border && border - carried <= (border / FINENESS).max(1),
                "{carried}: {border}"
            );
            assert!(tried <= 14, "{tried} numbers for {border}");
        }
    }

    #[test]
    fn it_ends_at_the_most_and_at_nothing() {
        assert_eq!(found(9999, 64).0, 5000);
        assert_eq!(found(0, 64).0, 0);
        assert_eq!(found(0, 1), (0, 1));
    }

    #[test]
    fn a_server_that_refuses_has_reported_its_number() {
        let mut search = Search::new(1000, 5000);
        search.report(1000, Some(420));
        assert_eq!((search.next(), search.carried), (None, 420));
        // A broken promise is none.
        let mut search = Search::new(1000, 5000);
        search.report(1000, None);
        assert_eq!((search.next(), search.carried), (Some(500), 0));
    }
}
