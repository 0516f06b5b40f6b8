//! A disk thread whose members have faults.
//!
//! A disk thread without faults knows nothing of this module. With faults, [`FaultyThread`] stands
//! between the core and the disk thread: it changes or delays completions before the disk thread
//! sees them, and answers before the caller sees them.

use crate::faults::Faults;
use crate::job::Job;
use crate::limits::STALL_CHECK_NS;
use crate::request::{DiskDone, Reply};
use crate::thread::{DiskMessage, DiskThread};
use reel_ring::Done;
use reel_rt::{Core, Service, lock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

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
    type Message = DiskMessage;

    fn message(&mut self, core: &mut Core, mut message: DiskMessage) {
        if let DiskMessage::Job(job) = &mut message {
            self.collect(job);
        }
        self.thread.message(core, message);
        self.pass_on(core);
    }

    fn done(&mut self, core: &mut Core, mut done: Done) {
        let Some((member, started_ns)) = self.thread.in_device(done.token) else { return };
        let keep_ns = self.faults.keep_ns(member, &done.op, (started_ns, core.now_ns()));
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
                if self.faults.is_stalled(member, &done.op) {
                    core.at(core.now_ns().saturating_add(STALL_CHECK_NS), id);
                    self.in_device.insert(id, done);
                    return;
                }
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
