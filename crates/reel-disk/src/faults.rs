//! Faults that tests inject into members.
//!
//! A disk thread without faults knows nothing of this module. With faults, [`FaultyThread`] stands
//! between the core and the disk thread: it changes or delays completions before the disk thread
//! sees them, and answers before the caller sees them.

use crate::job::Job;
use crate::limits::BLOCK_BYTES;
use crate::request::{DiskDone, Reply};
use crate::thread::{DiskThread, Order};
use reel_ring::{Done, Op};
use reel_rt::{Core, Service};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One thing that goes wrong. Faults change completions and answers. What a write stored stays
/// stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Inverts what is read of this range of the member, in bytes: bit rot at one place.
    CorruptRange(Range<u64>),
    /// Flips one bit in every block that is read: a member that returns wrong data.
    CorruptReads,
    /// Delays every answer by this time: a slow member.
    Delay {
        /// For how long.
        delay_ns: u64,
    },
    /// Every request takes so many times as long, and keeps its place in the device: a worn or
    /// vibrating disk.
    Slow {
        /// How many times; 1 is as fast as it is.
        factor: u32,
    },
    /// Nothing is answered in the first part of every period of the clock, as if the member were
    /// busy: a disk that recalibrates, or a bus that resets.
    Stall {
        /// For how long it stalls.
        for_ns: u64,
        /// In which period.
        every_ns: u64,
    },
    /// Every read that touches this range of the member, in bytes, fails with EIO: bad sectors.
    FailRange(Range<u64>),
    /// Every read fails with EIO.
    FailReads,
    /// Every write and sync fails with EIO.
    FailWrites,
    /// Everything fails with ENODEV: the disk was removed.
    Vanish,
}

/// The faults of a set of members; clones are the same set.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    by_member: Arc<Mutex<HashMap<usize, Vec<Fault>>>>,
}

/// A disk thread whose members have faults.
pub(crate) struct FaultyThread {
    thread: DiskThread,
    faults: Faults,
    /// Completions that are delayed: for the disk thread, these requests are still in the device.
    in_device: HashMap<u64, Done>,
    /// Answers of the disk thread that have not been looked at.
    answers: Arc<Mutex<Vec<Answer>>>,
    /// Answers that are delayed.
    delayed: HashMap<u64, Answer>,
    next_timer: u64,
}

/// An answer on its way. Dropped, it is delivered, so that a thread that ends leaves no caller
/// waiting.
struct Answer {
    reply: Arc<dyn Reply>,
    done: Option<DiskDone>,
}

/// Takes answers from the disk thread.
struct Collect {
    reply: Arc<dyn Reply>,
    answers: Arc<Mutex<Vec<Answer>>>,
}

/// Timers of delayed answers are numbered from here on. Requests are numbered from 0 and do not
/// come so far.
const ANSWER_TIMER: u64 = 1 << 62;

impl Faults {
    /// Gives `member` this fault from now on.
    pub fn inject(&self, member: usize, fault: Fault) {
        lock(&self.by_member).entry(member).or_default().push(fault);
    }

    /// Removes all faults of `member`.
    pub fn clear(&self, member: usize) {
        lock(&self.by_member).remove(&member);
    }

    /// How long the device keeps a request that it began and completed at these times.
    fn keep_ns(&self, member: usize, started_ns: u64, now_ns: u64) -> u64 {
        let keep_ns = |fault: &Fault| match *fault {
            Fault::Slow { factor } => {
                now_ns.saturating_sub(started_ns).saturating_mul(factor.saturating_sub(1).into())
            }
            Fault::Stall { for_ns, every_ns } => for_ns.saturating_sub(now_ns % every_ns.max(1)),
            _ => 0,
        };
        self.of(member).iter().map(keep_ns).max().unwrap_or(0)
    }

    /// For how long an answer is delayed.
    fn delay_ns(&self, member: usize) -> u64 {
        let delay_ns = |fault: &Fault| if let Fault::Delay { delay_ns } = fault { *delay_ns } else { 0 };
        self.of(member).iter().map(delay_ns).sum()
    }

    /// Changes the result of a completion, and what it has read.
    fn apply(&self, member: usize, done: &mut Done) {
        let is_read = matches!(done.op, Op::Read { .. });
        for fault in self.of(member) {
            match fault {
                Fault::CorruptReads => flip_bits(done),
                Fault::CorruptRange(range) => invert(done, &range),
                Fault::FailReads if is_read => done.result = Err(Errno::IO.into()),
                Fault::FailWrites if !is_read => done.result = Err(Errno::IO.into()),
                Fault::FailRange(range) if reads_in(&done.op, &range) => {
                    done.result = Err(Errno::IO.into());
                }
                Fault::Vanish => done.result = Err(Errno::NODEV.into()),
                Fault::FailReads | Fault::FailWrites | Fault::FailRange(_) => {}
                // These concern the time.
                Fault::Delay { .. } | Fault::Slow { .. } | Fault::Stall { .. } => {}
            }
        }
    }

    fn of(&self, member: usize) -> Vec<Fault> {
        lock(&self.by_member).get(&member).cloned().unwrap_or_default()
    }
}

impl FaultyThread {
    pub(crate) fn new(thread: DiskThread, faults: Faults) -> Self {
        let (in_device, answers, delayed) = (HashMap::new(), Arc::default(), HashMap::new());
        Self { thread, faults, in_device, answers, delayed, next_timer: 0 }
    }

    fn collect(&self, job: &mut Job) {
        let answers = Arc::clone(&self.answers);
        job.redirect(|reply| Arc::new(Collect { reply, answers }));
    }

    /// Delivers the answers of the disk thread, or delays them.
    fn pass_on(&mut self, core: &mut Core) {
        let answers = std::mem::take(&mut *lock(&self.answers));
        for answer in answers {
            let delay_ns = answer.delay_ns(&self.faults);
            if delay_ns > 0 {
                let timer = ANSWER_TIMER + self.next_timer;
                self.next_timer += 1;
                core.at(core.now_ns().saturating_add(delay_ns), timer);
                self.delayed.insert(timer, answer.later_by(delay_ns));
            }
        }
    }
}

impl Answer {
    /// Only what the device has answered is delayed.
    fn delay_ns(&self, faults: &Faults) -> u64 {
        let from_device = self.done.as_ref().filter(|done| done.device_ns > 0);
        from_device.map_or(0, |done| faults.delay_ns(done.member))
    }

    fn later_by(mut self, delay_ns: u64) -> Self {
        if let Some(done) = &mut self.done {
            done.device_ns = done.device_ns.saturating_add(delay_ns);
        }
        self
    }
}

impl Service for FaultyThread {
    type Message = Order;

    fn message(&mut self, core: &mut Core, mut order: Order) {
        if let Order::Job(job) = &mut order {
            self.collect(job);
        }
        self.thread.message(core, order);
        self.pass_on(core);
    }

    fn done(&mut self, core: &mut Core, mut done: Done) {
        let Some((member, started_ns)) = self.thread.in_device(done.token) else { return };
        let keep_ns = self.faults.keep_ns(member, started_ns, core.now_ns());
        if keep_ns > 0 {
            core.at(core.now_ns().saturating_add(keep_ns), done.token);
            self.in_device.insert(done.token, done);
            return;
        }
        self.faults.apply(member, &mut done);
        self.thread.done(core, done);
        self.pass_on(core);
    }

    fn timer(&mut self, core: &mut Core, id: u64) {
        if let Some(answer) = self.delayed.remove(&id) {
            drop(answer);
        } else if let Some(mut done) = self.in_device.remove(&id) {
            if let Some((member, _)) = self.thread.in_device(id) {
                self.faults.apply(member, &mut done);
            }
            self.thread.done(core, done);
            self.pass_on(core);
        } else {
            self.thread.timer(core, id);
        }
    }

    fn turn(&mut self, core: &mut Core) {
        self.thread.turn(core);
        self.pass_on(core);
    }

    fn stopping(&mut self, core: &mut Core) {
        self.thread.stopping(core);
    }
}

impl Reply for Collect {
    fn deliver(&self, done: DiskDone) {
        lock(&self.answers).push(Answer { reply: Arc::clone(&self.reply), done: Some(done) });
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            self.reply.deliver(done);
        }
    }
}

/// Flips a bit in every block that was read.
fn flip_bits(done: &mut Done) {
    if let (Op::Read { buffer, start, .. }, Ok(count)) = (&mut done.op, &done.result) {
        for block in buffer[*start..*start + *count].chunks_mut(BLOCK_BYTES as usize) {
            block[block.len() / 2] ^= 0x10;
        }
    }
}

/// Inverts the bytes that were read of this range of the member.
fn invert(done: &mut Done, range: &Range<u64>) {
    if let (Op::Read { buffer, start, offset, .. }, Ok(count)) = (&mut done.op, &done.result) {
        let clamp = |place: u64| place.saturating_sub(*offset).min(*count as u64) as usize;
        let (from, to) = (clamp(range.start), clamp(range.end));
        buffer[*start + from..*start + to.max(from)].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Whether it reads a part of this range of the member.
fn reads_in(op: &Op, range: &Range<u64>) -> bool {
    matches!(op, Op::Read { offset, bytes, .. } if *offset < range.end && range.start < offset + *bytes as u64)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves a whole value.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
