//! Blocking code, written as if each part had a thread. Each part has one, and they run one at a
//! time, when the simulation gives them their turn.
//!
//! A part that would wait for disks, memory, a lock or the clock returns its turn and names the
//! time until which it waits. So the code of `reel-volume` runs unchanged, in simulated time. One
//! seed is still one run, because no two parts ever run in parallel.

use reel_volume::CooperativeWait;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// All waiting parts, and the turn.
pub(crate) struct Stage {
    clock: Arc<Clock>,
    actors: Vec<Option<Actor>>,
}

/// What an actor sees of the world: the time.
pub(crate) struct Clock {
    now_ns: AtomicU64,
    over: AtomicBool,
    told: Mutex<Vec<bool>>,
}

struct Actor {
    go: Sender<()>,
    rests: Receiver<Rest>,
    until_ns: Option<u64>,
    thread: JoinHandle<()>,
}

enum Rest {
    Until(Option<u64>),
    Over,
}

/// Of the actor whose thread this is.
struct Turn {
    number: usize,
    go: Receiver<()>,
    rests: Sender<Rest>,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

impl Stage {
    pub(crate) fn new(now_ns: u64) -> Stage {
        let clock =
            Clock { now_ns: AtomicU64::new(now_ns), over: AtomicBool::new(false), told: Mutex::default() };
        Stage { clock: Arc::new(clock), actors: Vec::new() }
    }

    pub(crate) fn clock(&self) -> Arc<Clock> {
        Arc::clone(&self.clock)
    }

    /// Adds an actor. It runs for the first time at the next [`Stage::turn`].
    pub(crate) fn enter(&mut self, name: &str, act: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let number = self.actors.iter().position(Option::is_none).unwrap_or(self.actors.len());
        let ((go, turn), (rests, rested)) = (channel(), channel());
        let body = move || {
            // Nothing is sent when the world ends before the first turn.
            if turn.recv().is_ok() {
                let over = rests.clone();
                TURN.with(|place| *place.borrow_mut() = Some(Turn { number, go: turn, rests }));
                act();
                let _ = over.send(Rest::Over);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        let actor = Some(Actor { go, rests: rested, until_ns: None, thread });
        match self.actors.get_mut(number) {
            Some(place) => *place = actor,
            None => self.actors.push(actor),
        }
        self.clock.notify(number as u64);
        Ok(())
    }

    /// The next time at which a part wants a turn in any case.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.actors.iter().flatten().filter_map(|actor| actor.until_ns).min()
    }

    /// Gives a turn to every part for which something has arrived; `true` if there was one. The
    /// error is a broken invariant.
    pub(crate) fn turn(&mut self, now_ns: u64) -> Result<bool, String> {
        self.clock.now_ns.store(now_ns, Ordering::Relaxed);
        let mut some = false;
        for number in 0..self.actors.len() {
            let told = self.clock.take_told(number);
            let place = &mut self.actors[number];
            let Some(actor) = place else { continue };
            if !told && actor.until_ns.is_none_or(|until_ns| until_ns > now_ns) {
                continue;
            }
            some = true;
            let rest = actor.go.send(()).ok().and_then(|()| actor.rests.recv().ok());
            match rest {
                Some(Rest::Until(until_ns)) => actor.until_ns = until_ns,
                Some(Rest::Over) | None => {
                    let ended = place.take().map(|actor| actor.thread.join());
                    if matches!(ended, Some(Err(_))) {
                        return Err("code that may wait has panicked".to_owned());
                    }
                }
            }
        }
        Ok(some)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.clock.over.store(true, Ordering::Relaxed);
        for actor in self.actors.drain(..).flatten() {
            // It finds that nothing will happen any more, and ends.
            drop(actor.go);
            let _ = actor.thread.join();
        }
    }
}

impl Clock {
    /// Whether the world has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Lets other actors have their turns until then; `false` when the world has ended.
    pub(crate) fn sleep_until(&self, until_ns: u64) -> bool {
        while self.now_ns() < until_ns {
            if !self.wait(Some(until_ns)) {
                return false;
            }
        }
        true
    }

    fn take_told(&self, number: usize) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get_mut(number).is_some_and(std::mem::take)
    }
}

impl CooperativeWait for Clock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn caller(&self) -> u64 {
        // Only actors submit what they wait for.
        TURN.with(|turn| turn.borrow().as_ref().map_or(u64::MAX, |turn| turn.number as u64))
    }

    fn wait(&self, until_ns: Option<u64>) -> bool {
        TURN.with(|turn| {
            let turn = turn.borrow();
            // The world itself must never wait. The part that it waits for gets no turn until the
            // world continues, so the run would not end.
            assert!(turn.is_some() || self.is_over(), "the world waits for somebody who takes turns");
            let Some(Turn { go, rests, .. }) = &*turn else { return false };
            rests.send(Rest::Until(until_ns)).is_ok() && go.recv().is_ok()
        })
    }

    fn notify(&self, caller: u64) {
        let Ok(number) = usize::try_from(caller) else { return };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if number < 1 << 16 && told.len() <= number {
            told.resize(number + 1, false);
        }
        if let Some(place) = told.get_mut(number) {
            *place = true;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use super::*;

    #[test]
    fn actors_take_turns_in_simulated_time() {
        let (mut stage, story) = (Stage::new(5), Arc::new(Mutex::new(Vec::new())));
        for (name, step_ns) in [("quick", 10), ("slow", 25)] {
            let (clock, story) = (stage.clock(), Arc::clone(&story));
            let act = move || {
                for _ in 0..3 {
                    let until_ns = clock.now_ns() + step_ns;
                    clock.sleep_until(until_ns);
                    story.lock().unwrap().push((name, clock.now_ns()));
                }
            };
            stage.enter(name, act).unwrap();
        }
        stage.turn(5).unwrap();
        while let Some(at_ns) = stage.next_ns() {
            stage.turn(at_ns).unwrap();
        }
        let quick = |at_ns| ("quick", at_ns);
        let slow = |at_ns| ("slow", at_ns);
        assert_eq!(*story.lock().unwrap(), [quick(15), quick(25), slow(30), quick(35), slow(55), slow(80)]);
    }

    #[test]
    #[should_panic(expected = "the world waits")]
    fn the_world_that_waits_is_seen() {
        Stage::new(0).clock().wait(None);
    }

    #[test]
    fn a_part_that_waits_for_ever_ends_with_the_world() {
        let mut stage = Stage::new(0);
        let (clock, ended) = (stage.clock(), Arc::new(AtomicBool::new(false)));
        let mark = Arc::clone(&ended);
        let act = move || {
            while clock.wait(None) {}
            mark.store(clock.is_over(), Ordering::Relaxed);
        };
        stage.enter("waits", act).unwrap();
        assert!(stage.turn(1).unwrap() && !stage.turn(2).unwrap());
        assert_eq!(stage.next_ns(), None);
        drop(stage);
        assert!(ended.load(Ordering::Relaxed));
    }
}
