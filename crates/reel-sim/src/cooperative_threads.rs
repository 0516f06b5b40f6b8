//! Blocking code, written as if each actor had a thread. Each actor has one, and they run one at a
//! time, when the simulation gives them their turn.
//!
//! An actor that would wait for disks, memory, a lock or the clock returns its turn and names the
//! time until which it waits. So the code of `reel-volume` runs unchanged, in simulated time. One
//! seed is still one run, because no two actors ever run in parallel.

use reel_volume::CooperativeWait;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// All actors, each with its thread, and the clock that they see.
pub(crate) struct CooperativeThreads {
    clock: Arc<Clock>,
    actors: Vec<Option<Actor>>,
}

/// What an actor sees of the simulation: the time.
pub(crate) struct Clock {
    now_ns: AtomicU64,
    over: AtomicBool,
    notified: Mutex<Vec<bool>>,
}

struct Actor {
    go: Sender<()>,
    yields: Receiver<Yield>,
    until_ns: Option<u64>,
    thread: JoinHandle<()>,
}

enum Yield {
    Until(Option<u64>),
    Over,
}

/// Of the actor whose thread this is.
struct Turn {
    number: usize,
    go: Receiver<()>,
    yields: Sender<Yield>,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

impl CooperativeThreads {
    pub(crate) fn new(now_ns: u64) -> CooperativeThreads {
        let clock = Clock {
            now_ns: AtomicU64::new(now_ns),
            over: AtomicBool::new(false),
            notified: Mutex::default(),
        };
        CooperativeThreads { clock: Arc::new(clock), actors: Vec::new() }
    }

    pub(crate) fn clock(&self) -> Arc<Clock> {
        Arc::clone(&self.clock)
    }

    /// Adds an actor. It runs for the first time at the next [`CooperativeThreads::turn`].
    pub(crate) fn spawn(&mut self, name: &str, act: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let number = self.actors.iter().position(Option::is_none).unwrap_or(self.actors.len());
        let ((go, turn), (yields, yielded)) = (channel(), channel());
        let body = move || {
            // Nothing is sent when the simulation ends before the first turn.
            if turn.recv().is_ok() {
                let over = yields.clone();
                TURN.with(|slot| *slot.borrow_mut() = Some(Turn { number, go: turn, yields }));
                act();
                let _ = over.send(Yield::Over);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        let actor = Some(Actor { go, yields: yielded, until_ns: None, thread });
        match self.actors.get_mut(number) {
            Some(slot) => *slot = actor,
            None => self.actors.push(actor),
        }
        self.clock.notify(number as u64);
        Ok(())
    }

    /// The next time at which an actor wants a turn in any case.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.actors.iter().flatten().filter_map(|actor| actor.until_ns).min()
    }

    /// Gives a turn to every actor for which something has arrived; `true` if there was one. The
    /// error is a broken invariant.
    pub(crate) fn turn(&mut self, now_ns: u64) -> Result<bool, String> {
        self.clock.now_ns.store(now_ns, Ordering::Relaxed);
        let mut some = false;
        for number in 0..self.actors.len() {
            let notified = self.clock.take_notified(number);
            let slot = &mut self.actors[number];
            let Some(actor) = slot else { continue };
            if !notified && actor.until_ns.is_none_or(|until_ns| until_ns > now_ns) {
                continue;
            }
            some = true;
            let rest = actor.go.send(()).ok().and_then(|()| actor.yields.recv().ok());
            match rest {
                Some(Yield::Until(until_ns)) => actor.until_ns = until_ns,
                Some(Yield::Over) | None => {
                    let ended = slot.take().map(|actor| actor.thread.join());
                    if matches!(ended, Some(Err(_))) {
                        return Err("code that may wait has panicked".to_owned());
                    }
                }
            }
        }
        Ok(some)
    }
}

impl Drop for CooperativeThreads {
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
    /// Whether the simulation has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Lets other actors have their turns until then; `false` when the simulation has ended.
    pub(crate) fn sleep_until(&self, until_ns: u64) -> bool {
        while self.now_ns() < until_ns {
            if !self.wait(Some(until_ns)) {
                return false;
            }
        }
        true
    }

    fn take_notified(&self, number: usize) -> bool {
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        notified.get_mut(number).is_some_and(std::mem::take)
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
            // The simulation itself must never wait. The actor that it waits for gets no turn until
            // the simulation continues, so the run would not end.
            assert!(turn.is_some() || self.is_over(), "the simulation waits for an actor that takes turns");
            let Some(Turn { go, yields, .. }) = &*turn else { return false };
            yields.send(Yield::Until(until_ns)).is_ok() && go.recv().is_ok()
        })
    }

    fn notify(&self, caller: u64) {
        let Ok(number) = usize::try_from(caller) else { return };
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        if number < 1 << 16 && notified.len() <= number {
            notified.resize(number + 1, false);
        }
        if let Some(slot) = notified.get_mut(number) {
            *slot = true;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]
mod tests {
    use super::*;

    #[test]
    fn actors_take_turns_in_simulated_time() {
        let (mut threads, story) = (CooperativeThreads::new(5), Arc::new(Mutex::new(Vec::new())));
        for (name, step_ns) in [("quick", 10), ("slow", 25)] {
            let (clock, story) = (threads.clock(), Arc::clone(&story));
            let act = move || {
                for _ in 0..3 {
                    let until_ns = clock.now_ns() + step_ns;
                    clock.sleep_until(until_ns);
                    story.lock().unwrap().push((name, clock.now_ns()));
                }
            };
            threads.spawn(name, act).unwrap();
        }
        threads.turn(5).unwrap();
        while let Some(at_ns) = threads.next_ns() {
            threads.turn(at_ns).unwrap();
        }
        let quick = |at_ns| ("quick", at_ns);
        let slow = |at_ns| ("slow", at_ns);
        assert_eq!(*story.lock().unwrap(), [quick(15), quick(25), slow(30), quick(35), slow(55), slow(80)]);
    }

    #[test]
    #[should_panic(expected = "the simulation waits")]
    fn a_simulation_that_waits_is_noticed() {
        CooperativeThreads::new(0).clock().wait(None);
    }

    #[test]
    fn an_actor_that_waits_for_ever_ends_with_the_simulation() {
        let mut threads = CooperativeThreads::new(0);
        let (clock, ended) = (threads.clock(), Arc::new(AtomicBool::new(false)));
        let mark = Arc::clone(&ended);
        let act = move || {
            while clock.wait(None) {}
            mark.store(clock.is_over(), Ordering::Relaxed);
        };
        threads.spawn("waits", act).unwrap();
        assert!(threads.turn(1).unwrap() && !threads.turn(2).unwrap());
        assert_eq!(threads.next_ns(), None);
        drop(threads);
        assert!(ended.load(Ordering::Relaxed));
    }
}
