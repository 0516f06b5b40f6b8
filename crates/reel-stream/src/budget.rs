//! Who may hold how many buffers of the arena, so that readers never wait for each other in a ring.
//!
//! A reader that starts a stripe first reserves every buffer it may need for it, in one step. What is reserved
//! never exceeds what exists, and buffers that only the table of shared units holds can be taken back at any time,
//! so a reader with a reservation always gets its buffers.
//!
//! Who finds too little waits in line, and nobody takes what those before him wait for: otherwise a reader that needs
//! much would wait for ever beside readers that give a stripe back and take the next at once.

use crate::limits::RUNS_FREE_PART;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The buffers that readers may hold together.
#[derive(Clone, Debug)]
pub struct Budget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    total: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    reserved: usize,
    /// What others than readers were promised: what viewers left in memory for those who follow them.
    kept: usize,
    /// Those who wait, the first to come first: who, and for how many buffers.
    line: VecDeque<(u64, usize)>,
    next_place: u64,
}

/// A right to a number of buffers; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    inner: Arc<Inner>,
    buffers: usize,
}

/// A place in the line of those who wait for memory, until dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    inner: Arc<Inner>,
    place: u64,
}

impl Budget {
    /// A budget of `total` buffers.
    pub fn new(total: usize) -> Self {
        Self { inner: Arc::new(Inner { total, state: Mutex::default() }) }
    }

    /// All of `buffers`, or nothing: if there are not so many, or they are what others wait for.
    pub fn reserve(&self, buffers: usize) -> Option<Reservation> {
        let mut state = self.inner.lock();
        let before = state.line.len();
        self.inner.grant(&mut state, before, buffers)
    }

    /// Buffers reserved now.
    pub fn reserved(&self) -> usize {
        self.inner.lock().reserved
    }

    /// Buffers that can be reserved in all.
    pub fn total(&self) -> usize {
        self.inner.total
    }

    /// Buffers that readers may not reserve from here on: what lies between viewers and those who follow them. What is reserved already stays so.
    pub(crate) fn keep(&self, buffers: usize) {
        self.inner.lock().kept = buffers;
    }

    /// Buffers that could be kept now, those that are kept included.
    pub(crate) fn keepable(&self) -> usize {
        self.inner.total.saturating_sub(self.inner.lock().reserved)
    }

    /// Buffers kept for those who follow others.
    pub fn kept(&self) -> usize {
        self.inner.lock().kept
    }

    /// Readers that wait for memory now. When not zero, those who only wait for their client give theirs back.
    pub fn starved(&self) -> usize {
        self.inner.lock().line.len()
    }

    /// Buffers that those who wait want beyond what is free.
    pub fn missing(&self) -> usize {
        let state = self.inner.lock();
        let wanted: usize = state.line.iter().map(|(_, buffers)| buffers).sum();
        wanted.saturating_sub(self.inner.total.saturating_sub(state.reserved + state.kept))
    }

    /// Whether `buffers` more leave plenty for those who have to start: reading ahead must not take it from them.
    pub(crate) fn is_plentiful(&self, buffers: usize) -> bool {
        let state = self.inner.lock();
        state.line.is_empty() && (state.reserved + state.kept + buffers) * 16 <= self.inner.total * 15
    }

    /// Whether `buffers` more leave as much as long runs leave free for others.
    pub(crate) fn is_ample(&self, buffers: usize) -> bool {
        let state = self.inner.lock();
        let most = self.inner.total - self.inner.total / RUNS_FREE_PART;
        state.line.is_empty() && state.reserved + state.kept + buffers <= most
    }

    /// Gets in line for `buffers`.
    pub(crate) fn wait(&self, buffers: usize) -> Waiting {
        let mut state = self.inner.lock();
        let place = state.next_place;
        state.next_place += 1;
        state.line.push_back((place, buffers));
        Waiting { inner: Arc::clone(&self.inner), place }
    }
}

impl Waiting {
    /// `buffers` of them, if what is free is enough for those before in the line, too.
    pub(crate) fn reserve(&self, buffers: usize) -> Option<Reservation> {
        let mut state = self.inner.lock();
        let before = state.line.partition_point(|(place, _)| *place < self.place);
        if let Some(waiting) = state.line.get_mut(before) {
            waiting.1 = buffers;
        }
        self.inner.grant(&mut state, before, buffers)
    }
}

impl Inner {
    fn grant(self: &Arc<Self>, state: &mut State, before: usize, buffers: usize) -> Option<Reservation> {
        let mut free = self.total.saturating_sub(state.reserved + state.kept);
        for (_, theirs) in state.line.iter().take(before) {
            free = free.checked_sub(*theirs)?;
        }
        free.checked_sub(buffers)?;
        state.reserved += buffers;
        Some(Reservation { inner: Arc::clone(self), buffers })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// How many buffers it is the right to.
    pub(crate) fn buffers(&self) -> usize {
        self.buffers
    }

    /// Gives some of the buffers back before the others.
    pub(crate) fn give_back(&mut self, buffers: usize) {
        let buffers = buffers.min(self.buffers);
        self.buffers -= buffers;
        self.inner.lock().reserved -= buffers;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.inner.lock().reserved -= self.buffers;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        let before = state.line.partition_point(|(place, _)| *place < self.place);
        state.line.remove(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_there_is() {
        let budget = Budget::new(10);
        let mut first = budget.reserve(9).unwrap();
        first.give_back(2);
        assert!(budget.reserve(4).is_none());
        let second = budget.reserve(3).unwrap();
        assert_eq!(budget.reserved(), 10);
        drop(first);
        assert!(budget.reserve(7).is_some());
        drop(second);
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn nobody_takes_what_others_wait_for() {
        let budget = Budget::new(8);
        let held = budget.reserve(5).unwrap();
        let large = budget.wait(8);
        let small = budget.wait(2);
        assert_eq!((budget.starved(), budget.missing()), (2, 7));
        assert!(budget.reserve(1).is_none() && small.reserve(2).is_none() && large.reserve(8).is_none());
        drop(held);
        assert!(budget.reserve(1).is_none() && small.reserve(2).is_none());
        let got = large.reserve(8).unwrap();
        drop(large);
        drop(got);
        let got = small.reserve(2).unwrap();
        drop(small);
        assert!(budget.reserve(6).is_some() && budget.reserve(7).is_none());
        drop(got);
        assert_eq!((budget.starved(), budget.reserved(), budget.missing()), (0, 0, 0));
    }

    #[test]
    fn what_is_enough_for_all_is_given_in_any_order() {
        let budget = Budget::new(8);
        let (first, second) = (budget.wait(5), budget.wait(3));
        let later = second.reserve(3).unwrap();
        drop(second);
        assert!(first.reserve(5).is_some());
        drop(first);
        drop(later);
        assert!(!budget.is_plentiful(8) && budget.is_plentiful(7));
        assert!(!budget.is_ample(7) && budget.is_ample(6));
    }
}
