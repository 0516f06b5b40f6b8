/// A function that is called periodically (the real-time upcall of MARS): a task whose critical
/// times are its periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpcallSpec {
    /// Time from one call to the next, in nanoseconds; at least 1.
    pub period_ns: u64,
    /// Time that one call may take. A call that takes longer is counted, not interrupted: it runs
    /// to its end or yields.
    pub budget_ns: u64,
    /// Time from the beginning of a period until the call must have ended; usually the period.
    pub delay_ns: u64,
}

/// What happened in the periods of an upcall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpcallCounts {
    /// Calls that have ended.
    pub calls: u64,
    /// Calls that ended after their deadline.
    pub late: u64,
    /// Periods that passed without a call, because the call before took too long or the thread did
    /// not run.
    pub skipped: u64,
    /// Calls that took more than their budget.
    pub overruns: u64,
    /// The longest time from the beginning of a period to the beginning of its call.
    pub start_ns_max: u64,
    /// The longest call, the sum of its sections.
    pub ran_ns_max: u64,
    /// The sum of all calls.
    pub ran_ns_total: u64,
}

/// The periods of one upcall and what happened in them. Pure: the caller reads the clock.
#[derive(Clone, Copy, Debug)]
pub struct Upcall {
    spec: UpcallSpec,
    due_ns: u64,
    /// How long the current call has run so far, and whether it has begun.
    ran_ns: u64,
    begun: bool,
    counts: UpcallCounts,
}

impl Upcall {
    /// The first call is at `first_ns`, the next ones follow at each period from there. A late call
    /// does not move later ones.
    pub fn new(spec: UpcallSpec, first_ns: u64) -> Upcall {
        let spec = UpcallSpec { period_ns: spec.period_ns.max(1), ..spec };
        Upcall { spec, due_ns: first_ns, ran_ns: 0, begun: false, counts: UpcallCounts::default() }
    }

    /// When the current period began, or when the next one will begin.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// What happened in its periods so far.
    pub fn counts(&self) -> UpcallCounts {
        self.counts
    }

    /// A section of the call ran from `from_ns` to `to_ns` and yielded; more sections follow.
    pub fn yielded(&mut self, from_ns: u64, to_ns: u64) {
        if !self.begun {
            self.begun = true;
            self.counts.start_ns_max = self.counts.start_ns_max.max(from_ns.saturating_sub(self.due_ns));
        }
        self.ran_ns += to_ns.saturating_sub(from_ns);
    }

    /// The last section of the call ran from `from_ns` to `to_ns`. Returns the time of the next
    /// call: the next period whose deadline has not passed.
    pub fn ended(&mut self, from_ns: u64, to_ns: u64) -> u64 {
        self.yielded(from_ns, to_ns);
        let UpcallSpec { period_ns, budget_ns, delay_ns } = self.spec;
        let counts = &mut self.counts;
        counts.calls += 1;
        counts.late += u64::from(to_ns > self.due_ns.saturating_add(delay_ns));
        counts.overruns += u64::from(self.ran_ns > budget_ns);
        counts.ran_ns_max = counts.ran_ns_max.max(self.ran_ns);
        counts.ran_ns_total += self.ran_ns;
        (self.ran_ns, self.begun) = (0, false);
        self.due_ns = self.due_ns.saturating_add(period_ns);
        let passed_ns = to_ns.saturating_sub(self.due_ns.saturating_add(delay_ns));
        if passed_ns > 0 {
            let periods = passed_ns.div_ceil(period_ns);
            counts.skipped += periods;
            self.due_ns = self.due_ns.saturating_add(periods.saturating_mul(period_ns));
        }
        self.due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: UpcallSpec = UpcallSpec { period_ns: 100, budget_ns: 30, delay_ns: 100 };

    #[test]
    fn calls_stay_on_the_grid_of_their_periods() {
        let mut upcall = Upcall::new(SPEC, 1_000);
        assert_eq!(upcall.ended(1_000, 1_010), 1_100);
        assert_eq!(upcall.ended(1_150, 1_160), 1_200, "a late start does not move the next one");
        assert_eq!(upcall.ended(1_200, 1_230), 1_300);
        let counts = upcall.counts();
        assert_eq!((counts.calls, counts.late, counts.skipped, counts.overruns), (3, 0, 0, 0));
        assert_eq!((counts.start_ns_max, counts.ran_ns_max, counts.ran_ns_total), (50, 30, 50));
    }

    #[test]
    fn long_calls_are_counted_and_missed_periods_are_skipped() {
        let mut upcall = Upcall::new(SPEC, 0);
        // Over its budget, within its period.
        assert_eq!(upcall.ended(0, 31), 100);
        // Ends in the next period: late, and the next call comes at once.
        assert_eq!(upcall.ended(100, 250), 200);
        assert_eq!(upcall.counts().skipped, 0);
        // Ends after the deadline of the next period: that period is skipped.
        assert_eq!(upcall.ended(250, 401), 400);
        let counts = upcall.counts();
        assert_eq!((counts.calls, counts.late, counts.skipped, counts.overruns), (3, 2, 1, 3));
        // Not run for a long time.
        assert_eq!(upcall.ended(5_000, 5_001), 5_000);
        assert_eq!(upcall.counts().skipped, 1 + 45);
    }

    #[test]
    fn sections_of_one_call_add_up() {
        let mut upcall = Upcall::new(SPEC, 0);
        upcall.yielded(5, 20);
        upcall.yielded(40, 50);
        assert_eq!(upcall.ended(60, 66), 100);
        let counts = upcall.counts();
        assert_eq!((counts.overruns, counts.ran_ns_max, counts.start_ns_max), (1, 31, 5));
    }
}
