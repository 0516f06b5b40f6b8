//! Rings that break while reads are under way: no memory is used again into which a ring that broke
//! may still write.
//!
//! The kernel is a model here: the driver's operations are marked as taken, and answered, by the
//! test. The kernel of a ring that broke never says that it has ended, so each place into which it
//! was to write stays dangerous for ever.

use super::*;
use crate::op::{Done, Op};
use crate::waker::Waker;
use reel_arena::{Arena, ArenaConfig, Buffer};
use reel_testkit::Rng;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

const BYTES: usize = 4096;
/// Two reads, what others hold, and one free.
const BUFFERS: usize = 4;

/// What may happen next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Another read, if there is memory for it.
    Push,
    /// The ring is given what waits, and the kernel takes it...
    Take,
    /// ...or has not looked at it yet.
    Offer,
    /// The kernel answers what it took first: all of it, or that it was interrupted.
    Answer {
        is_interrupted: bool,
    },
    Break,
    Retry,
    Cancel,
    /// Another part of the program takes memory, or gives it back.
    Hold,
    Free,
    /// The caller drops the answers.
    Collect,
}

const STEPS: [Step; 11] = [
    Step::Push,
    Step::Take,
    Step::Offer,
    Step::Answer { is_interrupted: false },
    Step::Answer { is_interrupted: true },
    Step::Break,
    Step::Retry,
    Step::Cancel,
    Step::Hold,
    Step::Free,
    Step::Collect,
];

struct World {
    driver: UringDriver,
    arena: Arena,
    file: Arc<OwnedFd>,
    tokens: u64,
    /// What the kernel of the present ring has.
    taken: Vec<Key>,
    held: Vec<Buffer>,
    /// Places into which rings that broke may write.
    dangerous: BTreeSet<usize>,
}

impl World {
    /// Two reads in the kernel, and one buffer in other hands. `None` without io_uring.
    fn new() -> Option<Self> {
        let driver = UringDriver::new(8, Waker::new().expect("an eventfd"));
        let shape = ArenaConfig {
            buffer_bytes: BYTES,
            buffer_count: BUFFERS,
            cells_per_buffer: 1,
            huge_pages: false,
        };
        let mut world = Self {
            driver: reel_testkit::ring_or_skip(driver)?,
            arena: Arena::new(shape).expect("memory"),
            file: Arc::new(File::open("/dev/zero").expect("a device").into()),
            tokens: 0,
            taken: Vec::new(),
            held: Vec::new(),
            dangerous: BTreeSet::new(),
        };
        for step in [Step::Push, Step::Push, Step::Take, Step::Hold] {
            world.step(step);
        }
        Some(world)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push => {
                if let Some(buffer) = self.arena.take(BYTES) {
                    let file = Arc::clone(&self.file);
                    let op = Op::Read { file, offset: 0, buffer, start: 0, bytes: BYTES };
                    self.driver.push(self.tokens, op);
                    self.tokens += 1;
                }
            }
            Step::Take => self.take(),
            Step::Offer => self.offer(),
            Step::Answer { is_interrupted } => {
                if !self.taken.is_empty() {
                    let key = self.taken.remove(0);
                    let answer = if is_interrupted { -libc::EINTR } else { BYTES as i32 };
                    self.driver.answered(key, answer, 0);
                }
            }
            Step::Break => self.breaks(),
            Step::Retry => self.driver.retry_reads(),
            Step::Cancel => self.driver.cancel(self.tokens - 1),
            Step::Hold => self.held.extend(self.arena.take(BYTES)),
            Step::Free => drop(self.held.pop()),
            Step::Collect => self.driver.ended.clear(),
        }
        self.check();
    }

    /// The kernel takes all that waits. What was offered before is before it in the ring.
    fn take(&mut self) {
        if !self.driver.offered.is_empty() {
            return;
        }
        for request in mem::take(&mut self.driver.queue) {
            let Request::Start(key) = request else { continue };
            match self.driver.slab.get_mut(key) {
                Some(entry) if !entry.cancelled => {
                    let _to_the_model = entry.prepare(None, false);
                    self.driver.in_kernel += 1;
                    self.taken.push(key);
                }
                _ => self.driver.start(key),
            }
        }
    }

    fn offer(&mut self) {
        for request in mem::take(&mut self.driver.queue) {
            if let Request::Start(key) = request {
                self.driver.start(key);
            }
        }
    }

    fn breaks(&mut self) {
        if self.driver.renewals == RENEWALS_MAX {
            return;
        }
        let taken = self.taken.drain(..).filter_map(|key| self.driver.slab.get(key)?.place());
        self.dangerous.extend(taken);
        self.driver.renew(io::Error::from_raw_os_error(libc::EBADR)).expect("another ring");
    }

    /// Nothing that is free, answered or read into by the present ring is dangerous.
    fn check(&mut self) {
        let free: Vec<_> = std::iter::from_fn(|| self.arena.take(BYTES)).collect();
        let answered = self.driver.ended.iter().filter_map(|Done { op, .. }| match op {
            Op::Read { buffer, .. } => Some(buffer.as_ptr() as usize),
            _ => None,
        });
        let mut used: Vec<_> = answered.collect();
        used.extend(free.iter().chain(&self.held).map(|buffer| buffer.as_ptr() as usize));
        let without_memory = &self.driver.without_memory;
        for key in self.driver.slab.keys() {
            // What waits for other memory has the old one until then.
            if !without_memory.contains(&key) {
                used.extend(self.driver.slab.get(key).and_then(|entry| entry.place()));
            }
        }
        assert!(used.iter().all(|place| !self.dangerous.contains(place)), "{used:x?} {:x?}", self.dangerous);
    }

    /// The ring ends. Only dangerous memory is lost.
    fn end(mut self) {
        if !self.driver.offered.is_empty() {
            // Else the kernel of this machine would take it.
            self.breaks();
        }
        for key in mem::take(&mut self.taken) {
            self.driver.answered(key, -libc::ECANCELED, 0);
        }
        let Self { driver, arena, held, dangerous, .. } = self;
        drop((driver, held));
        let free: Vec<_> = std::iter::from_fn(|| arena.take(BYTES)).collect();
        assert!(free.iter().all(|buffer| !dangerous.contains(&(buffer.as_ptr() as usize))));
        assert_eq!(free.len() + dangerous.len(), BUFFERS, "no other memory is lost");
    }
}

/// All orders of so many events after two reads have begun.
#[test]
fn no_order_of_events_returns_memory_that_a_broken_ring_may_write_into() {
    const DEPTH: u32 = 4;
    for number in 0..STEPS.len().pow(DEPTH) {
        let Some(mut world) = World::new() else { return };
        let mut rest = number;
        for _ in 0..DEPTH {
            world.step(STEPS[rest % STEPS.len()]);
            rest /= STEPS.len();
        }
        world.end();
    }
}

/// Long orders of events, with several breaks.
#[test]
fn long_orders_of_events_return_no_such_memory() {
    for seed in 0..200 {
        let (Some(mut world), mut random) = (World::new(), Rng::new(seed)) else { return };
        for _ in 0..60 {
            world.step(STEPS[random.below(STEPS.len() as u64) as usize]);
        }
        world.end();
    }
}
