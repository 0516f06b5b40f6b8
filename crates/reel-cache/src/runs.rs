//! Runs: how many stripes are requested in one go when they are due at no fixed time, so that one
//! seek on a rotational disk reads enough.
//!
//! The schedule (N, d) of dsplice (1996, note 2), chosen from measurements. N is the run for which
//! a seek costs a tenth, by the price of the members. It is limited by memory, by the condition
//! that all other readers still get theirs within a round, and by what the client takes. d is not
//! set, but follows: each member sweeps over the waiting requests, so a run of one reader is
//! followed by those of all others.
//!
//! A reader begins with a short window. If the client waits for the disks, the next run is four
//! times as long. If the disks wait for the client, it is half as long. So a slow client holds
//! little, and a client that takes nothing never has more than it began with.

use crate::limits::{
    READER_REFILL_STRIPES, READER_STRIPES_MAX, RUN_GROWTH, RUN_LEFT_PART, RUN_STRIPES_MAX, RUNS_MEMORY_PART,
};
use reel_qos::Kind;
use reel_qos::limits::ROUND_NS;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The readers with long runs, on all cores: they share the memory that runs may have. A clone is
/// cheap.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// By kind of class, the most urgent first.
    readers: Arc<[AtomicUsize; 3]>,
}

/// Other readers with long runs, beside the one that chooses its own.
#[derive(Clone, Copy, Debug)]
struct OtherRuns {
    /// All of them. They hold memory.
    all: u64,
    /// Number of readers whose class is at least as urgent. Runs of less urgent classes do not
    /// delay this one.
    before: u64,
}

/// The values from which the length of a run is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLimits {
    /// Bytes of one member in a run that is long enough for its seek; 0 if the members are not
    /// rotational.
    pub(crate) run_bytes: u64,
    /// Bytes of a unit: what a stripe is on one member.
    pub(crate) unit_bytes: u64,
    /// Device time for the transfer of a unit.
    pub(crate) unit_ns: u64,
    /// Buffers of a stripe.
    pub(crate) stripe_buffers: u64,
    /// Buffers that all readers may hold together.
    pub(crate) buffers: u64,
}

/// The run of one reader.
#[derive(Debug)]
pub(crate) struct Run {
    /// N of the schedule.
    stripes: u64,
    planned_stripes: u64,
    /// Whether the client has waited for the disks since the last run was chosen.
    waited: bool,
    /// Whether a window is being filled for which no run was chosen yet.
    is_next: bool,
    long: Option<Long>,
}

/// Counts the reader among those with long runs.
#[derive(Debug)]
struct Long(Runs, Kind);

const SHORT: u64 = READER_STRIPES_MAX as u64;

impl Runs {
    /// Readers with long runs now.
    pub fn readers(&self) -> usize {
        self.count(Kind::Aperiodic)
    }

    /// Readers of a class of this kind, or of a more urgent one.
    fn count(&self, kind: Kind) -> usize {
        self.readers[..=kind as usize].iter().map(|readers| readers.load(Ordering::Relaxed)).sum()
    }

    fn others(&self, kind: Kind) -> OtherRuns {
        OtherRuns { all: self.readers() as u64, before: self.count(kind) as u64 }
    }

    fn join(&self, kind: Kind) -> Long {
        self.readers[kind as usize].fetch_add(1, Ordering::Relaxed);
        Long(self.clone(), kind)
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        self.0.readers[self.1 as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Run {
    fn default() -> Self {
        Self { stripes: SHORT, planned_stripes: 0, waited: false, is_next: false, long: None }
    }
}

impl Run {
    /// Whether it is longer than any reader's window.
    pub(crate) fn is_long(&self) -> bool {
        self.long.is_some()
    }

    /// Most stripes of its window.
    pub(crate) fn window_stripes(&self) -> u64 {
        if self.is_long() { self.stripes + self.left_stripes() } else { SHORT }
    }

    /// The next run is requested when less than so many stripes are left. They are sent while it is
    /// on its way.
    pub(crate) fn left_stripes(&self) -> u64 {
        if self.is_long() { (self.stripes / RUN_LEFT_PART).max(READER_REFILL_STRIPES as u64) } else { SHORT }
    }

    /// The client has taken all that was there.
    pub(crate) fn waits(&mut self) {
        self.waited = true;
    }

    /// Little of the window is left, and it is filled again.
    pub(crate) fn refills(&mut self) {
        self.is_next = true;
    }

    /// One more stripe was requested. After a whole run of them the next run is chosen, for a class
    /// of this kind. That happens once for each window, because the client's behaviour is known
    /// only of the last one.
    pub(crate) fn planned(&mut self, runs: &Runs, limits: impl FnOnce() -> (Kind, RunLimits)) {
        self.planned_stripes += 1;
        if !self.is_next || self.planned_stripes < self.stripes {
            return;
        }
        self.is_next = false;
        self.planned_stripes = 0;
        let wanted =
            if std::mem::take(&mut self.waited) { self.stripes * RUN_GROWTH } else { self.stripes / 2 };
        let (kind, limits) = limits();
        self.long = None;
        self.stripes = limits.stripes(runs.others(kind)).min(wanted).max(SHORT);
        if self.stripes > SHORT {
            self.long = Some(runs.join(kind));
        }
    }

    /// Its memory was given back. It begins again with a short window.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl RunLimits {
    /// The run of a reader beside others.
    fn stripes(&self, others: OtherRuns) -> u64 {
        let economical = self.run_bytes.div_ceil(self.unit_bytes.max(1)).min(RUN_STRIPES_MAX);
        // A reader holds its run, and what was left of the last one when the run was requested.
        let share = self.buffers / RUNS_MEMORY_PART / (others.all + 1);
        let affordable = share / self.stripe_buffers.max(1) * RUN_LEFT_PART / (RUN_LEFT_PART + 1);
        // A sweep over all runs takes a round at most. So shares are fair within seconds, and no
        // pause is longer than that. A less urgent reader waits, and shortens no other reader's
        // run: a shorter run costs one more seek.
        let swept = ROUND_NS / (others.before + 1) / self.unit_ns.max(1);
        economical.min(affordable).min(swept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> RunLimits {
        RunLimits { run_bytes: 40 << 18, unit_bytes: 1 << 18, unit_ns: 1, stripe_buffers: 4, buffers: 4000 }
    }

    fn proceed(run: &mut Run, runs: &Runs, waits: bool) -> u64 {
        let before = run.stripes;
        run.refills();
        for _ in 0..before {
            if waits {
                run.waits();
            }
            run.planned(runs, || (Kind::Aperiodic, limits()));
        }
        run.stripes
    }

    #[test]
    fn runs_grow_for_clients_that_wait_for_the_disks_and_shrink_for_others() {
        let (runs, mut run) = (Runs::default(), Run::default());
        let grown: Vec<u64> = (0..5).map(|_| proceed(&mut run, &runs, true)).collect();
        assert_eq!((grown, runs.readers()), (vec![16, 40, 40, 40, 40], 1));
        let shrunk: Vec<u64> = (0..5).map(|_| proceed(&mut run, &runs, false)).collect();
        assert_eq!((shrunk, runs.readers()), (vec![20, 10, 5, SHORT, SHORT], 0));
    }

    #[test]
    fn long_runs_share_their_memory_and_short_ones_take_no_part() {
        let runs = Runs::default();
        let _idle: Vec<Run> = (0..80).map(|_| Run::default()).collect();
        let mut four: Vec<Run> = (0..4).map(|_| Run::default()).collect();
        for _ in 0..5 {
            for run in &mut four {
                proceed(run, &runs, true);
            }
        }
        assert!(four.iter().all(|run| run.stripes == 40));
        let mut more: Vec<Run> = (0..36).map(|_| Run::default()).collect();
        for _ in 0..5 {
            for run in four.iter_mut().chain(&mut more) {
                proceed(run, &runs, true);
            }
        }
        let held: u64 = four.iter().chain(&more).map(|run| run.window_stripes() * 4).sum();
        assert!(held <= 2000 && held > 1500, "half of 4000 buffers, for all: {held}");
        let mut stripes: Vec<u64> = four.iter().chain(&more).map(|run| run.stripes).collect();
        stripes.dedup();
        assert_eq!(stripes.len(), 1, "all runs have the same length");
        four.iter_mut().chain(&mut more).for_each(Run::forget);
        assert_eq!(runs.readers(), 0);
    }

    #[test]
    fn a_window_that_is_longer_than_its_run_is_no_sign_of_a_slow_client() {
        let (runs, mut run, mut ahead) = (Runs::default(), Run::default(), 0);
        let mut lengths = Vec::new();
        for _ in 0..8 {
            // As a reader does whose client has taken nearly all.
            run.refills();
            run.waits();
            while ahead < run.window_stripes() {
                run.planned(&runs, || (Kind::Aperiodic, limits()));
                ahead += 1;
            }
            lengths.push(run.stripes);
            ahead = run.left_stripes() - 1;
        }
        assert_eq!(lengths, [16, 40, 40, 40, 40, 40, 40, 40]);
    }

    #[test]
    fn a_sweep_over_all_runs_takes_a_round_at_most() {
        let slow = RunLimits { unit_ns: 2_000_000, buffers: 40_000, ..limits() };
        let runs = [0, 3, 19, 49].map(|before| slow.stripes(OtherRuns { all: before, before }));
        assert_eq!(runs, [40, 40, 25, 10]);
    }

    #[test]
    fn a_less_urgent_reader_shortens_no_run() {
        let slow = || RunLimits { unit_ns: 10_000_000, buffers: 40_000, ..limits() };
        let grown = |run: &mut Run, runs: &Runs, kind| {
            for _ in 0..200 {
                run.refills();
                run.waits();
                run.planned(runs, || (kind, slow()));
            }
            run.stripes
        };
        let (runs, mut transfer) = (Runs::default(), Run::default());
        let alone = grown(&mut transfer, &runs, Kind::Interactive);
        let mut background: Vec<Run> = (0..6).map(|_| Run::default()).collect();
        for run in &mut background {
            grown(run, &runs, Kind::Aperiodic);
        }
        assert_eq!(grown(&mut transfer, &runs, Kind::Interactive), alone);
        assert_eq!(background[5].stripes, 100 / 7, "all seven runs together take a round");
        let mut another = Run::default();
        grown(&mut another, &runs, Kind::Interactive);
        grown(&mut another, &runs, Kind::Interactive);
        assert_eq!(
            grown(&mut transfer, &runs, Kind::Interactive),
            50.min(alone),
            "another reader of the same class shortens it"
        );
        // Dropping a run leaves the count that it joined, although its class has changed since.
        grown(&mut transfer, &runs, Kind::Aperiodic);
        drop((transfer, another, background));
        assert_eq!(runs.readers(), 0);
    }

    #[test]
    fn members_that_are_not_rotational_have_no_long_runs() {
        let (runs, mut run) = (Runs::default(), Run::default());
        for _ in 0..100 {
            run.refills();
            run.waits();
            run.planned(&runs, || (Kind::Aperiodic, RunLimits { run_bytes: 0, ..limits() }));
        }
        assert_eq!((run.window_stripes(), runs.readers()), (SHORT, 0));
    }
}
