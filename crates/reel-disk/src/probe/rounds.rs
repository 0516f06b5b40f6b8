//! Rounds of a measurement that all members do together.
//!
//! Members that share a disk, a controller or a bus are measured at the same time. So when one of
//! them has to be measured again, all of them are.

use reel_rt::lock;
use std::sync::{Condvar, Mutex, PoisonError};

/// The members that take part.
#[derive(Debug)]
pub(super) struct Rounds {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    members: usize,
    /// Those that are through with this round.
    waiting: usize,
    /// Whether one of those needs another.
    wanted: bool,
    /// Rounds that are over, and whether another one followed the last of them.
    over: u32,
    follows: bool,
    /// Rounds that were begun, the first included.
    begun: u32,
}

/// One member. It no longer takes part when this is dropped.
#[derive(Debug)]
pub(super) struct Participant<'a>(&'a Rounds);

impl Rounds {
    /// Of so many members.
    pub(super) fn new(members: usize) -> Self {
        let state = State { members, waiting: 0, wanted: false, over: 0, follows: false, begun: 1 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// One of the members.
    pub(super) fn participant(&self) -> Participant<'_> {
        Participant(self)
    }

    /// How many rounds were begun.
    pub(super) fn begun(&self) -> u32 {
        lock(&self.state).begun
    }

    fn end_if_all_wait(&self, state: &mut State) {
        if state.waiting > 0 && state.waiting == state.members {
            state.follows = std::mem::take(&mut state.wanted);
            state.begun += u32::from(state.follows);
            state.waiting = 0;
            state.over += 1;
            self.changed.notify_all();
        }
    }
}

impl Participant<'_> {
    /// Waits until all members are through with their round. Whether another one follows, because
    /// one of them has `wanted` it.
    pub(super) fn another(&self, wanted: bool) -> bool {
        let rounds = self.0;
        let mut state = lock(&rounds.state);
        let over = state.over;
        state.waiting += 1;
        state.wanted |= wanted;
        rounds.end_if_all_wait(&mut state);
        while state.over == over {
            state = rounds.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.follows
    }
}

impl Drop for Participant<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.members -= 1;
        self.0.end_if_all_wait(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_members_do_as_many_rounds_as_the_one_that_needs_most_and_one_that_failed_delays_none() {
        let rounds = Rounds::new(4);
        let done: Vec<u32> = std::thread::scope(|scope| {
            let threads = [1, 3, 2].map(|needed| {
                let participant = rounds.participant();
                scope.spawn(move || {
                    let mut done = 1;
                    while participant.another(done < needed) {
                        done += 1;
                    }
                    done
                })
            });
            drop(rounds.participant());
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!((done, rounds.begun()), (vec![3, 3, 3], 3));
    }
}
