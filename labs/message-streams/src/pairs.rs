//! Two programs on two processors, and how far those are apart.
//!
//! What one processor wrote reaches another in 40 ns if they share a cache, and in 200 ns or more
//! if they do not. On a virtual machine it is unknown which do: the host puts a virtual processor
//! where it likes, and moves it within seconds. So programs that are compared are kept to the same
//! two, and the time a cache line takes between these is measured before and after each.

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What lies between processors that share a cache (37 to 70 ns where this was looked into) and
/// those that do not (200 to 220 ns).
const APART_NS: f64 = 120.0;

/// There and back, so often for one reading, of which the least counts: whatever disturbs makes it
/// longer.
const ROUNDS: u64 = 500;
const READINGS: usize = 8;

/// Where two processors are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    /// They share a cache.
    Near,
    /// They do not.
    Far,
    /// One of them was moved while something was measured.
    Moved,
}

/// All pairs of processors that this program may use.
pub(crate) struct Pairs {
    allowed: CpuSet,
    all: Vec<[usize; 2]>,
    now: usize,
}

impl Pairs {
    /// # Errors
    /// The kernel does not say which, or it is only one.
    pub(crate) fn new() -> Result<Self> {
        let allowed = sched_getaffinity(None).context("asking which processors there are")?;
        let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        let pairs = |(at, &one): (usize, &usize)| processors[at + 1..].iter().map(move |&other| [one, other]);
        let all: Vec<[usize; 2]> = processors.iter().enumerate().flat_map(pairs).collect();
        if all.is_empty() {
            bail!("there is one processor only; two programs that hand each other messages need two");
        }
        Ok(Self { allowed, all, now: 0 })
    }

    /// Keeps this thread, and programs that it starts from here on, to the next pair.
    pub(crate) fn next(&mut self) -> Result<()> {
        self.now = (self.now + 1) % self.all.len();
        keep_to(&self.all[self.now])
    }

    /// How long a cache line takes from one to the other, in nanoseconds.
    pub(crate) fn line_ns(&self) -> Result<f64> {
        let [one, other] = self.all[self.now];
        let line = Line(AtomicU64::new(0));
        let least_ns = std::thread::scope(|scope| {
            let answers = scope.spawn(|| {
                let kept = keep_to(&[other]);
                (0..ROUNDS * READINGS as u64).for_each(|round| line.turn(2 * round + 1));
                kept
            });
            let mine = keep_to(&[one]);
            let mut least_ns = f64::MAX;
            for reading in 0..READINGS as u64 {
                let begun = Instant::now();
                for round in reading * ROUNDS..(reading + 1) * ROUNDS {
                    line.turn(2 * round);
                }
                least_ns = least_ns.min(begun.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64);
            }
            let theirs: Result<()> = answers.join().unwrap_or(Ok(()));
            mine.and(theirs).map(|()| least_ns)
        });
        keep_to(&self.all[self.now])?;
        least_ns
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        // What comes after may use all of them again; if that is refused it continues with two.
        let _ = sched_setaffinity(None, &self.allowed);
    }
}

impl Distance {
    /// By the time a line took before and after.
    pub(crate) fn of(line_ns: [f64; 2]) -> Self {
        match line_ns.map(|ns| ns > APART_NS) {
            [false, false] => Self::Near,
            [true, true] => Self::Far,
            _ => Self::Moved,
        }
    }
}

/// A word alone in its cache lines.
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    /// Waits until it is `number`, and makes it one more.
    fn turn(&self, number: u64) {
        while self.0.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
        self.0.store(number + 1, Ordering::Release);
    }
}

fn keep_to(processors: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|&processor| set.set(processor));
    sched_setaffinity(None, &set).with_context(|| format!("keeping to processors {processors:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_to_and_fro_on_every_pair() {
        let Ok(mut pairs) = Pairs::new() else {
            eprintln!("skipped: there is one processor only");
            return;
        };
        for _ in 0..pairs.all.len() {
            pairs.next().unwrap();
            assert!(pairs.line_ns().unwrap() > 0.0);
        }
        let processors = std::thread::available_parallelism().unwrap().get();
        assert_eq!(processors, 2, "kept to two");
        assert!(pairs.all.iter().all(|[one, other]| one < other));
        let allowed = pairs.allowed.count() as usize;
        assert_eq!(pairs.all.len(), allowed * (allowed - 1) / 2);
    }

    #[test]
    fn what_was_moved_is_neither_near_nor_far() {
        assert_eq!(Distance::of([40.0, 60.0]), Distance::Near);
        assert_eq!(Distance::of([210.0, 205.0]), Distance::Far);
        assert_eq!(Distance::of([210.0, 45.0]), Distance::Moved);
    }
}
