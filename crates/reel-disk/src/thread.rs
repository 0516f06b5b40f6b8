//! One disk thread: requests in, schedulers in the middle, a ring out.

use crate::config::DisksConfig;
use crate::driven::{Driven, Outcome};
use crate::error::DiskError;
use crate::job::{Job, Progress, Work};
use crate::limits::CPU_TIME_EVERY_NS;
use crate::measured_price::MeasuredPrice;
use crate::member::MemberFile;
use crate::request::RequestId;
use crate::shared::{MemberPrice, Shared};
use reel_qos::{Class, ClassTable};
use reel_ring::Done;
use reel_rt::{Core, Service, lock, thread_cpu_ns};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The service of a disk thread. Owns the order of everything its members get.
pub(crate) struct DiskThread {
    number: usize,
    members: BTreeMap<usize, Driven>,
    shared: Arc<Shared>,
    config: DisksConfig,
    /// Requests that wait in a scheduler, with their numbers here.
    waiting: HashMap<RequestId, u64>,
    /// In a scheduler or in the device.
    jobs: HashMap<u64, Box<Job>>,
    next_id: u64,
    /// Whether a timer will show the views that have changed.
    will_show: bool,
    /// When its processor time was last read.
    cpu_read_at_ns: u64,
    stopping: bool,
}

/// The timer that shows views; no request bears this number.
const VIEWS: u64 = u64::MAX;
/// The timer at which a device is no longer kept idle. Every turn checks all of them.
const IDLE_END: u64 = u64::MAX - 1;

/// A message to a disk thread.
pub(crate) enum DiskMessage {
    Job(Box<Job>),
    Promote { member: usize, request: RequestId, class: Class, deadline_ns: u64 },
    Withdraw { member: usize, request: RequestId },
    Classes(Arc<ClassTable>),
    Price { member: usize, price: MeasuredPrice },
    Replace { member: usize, file: Box<MemberFile> },
}

impl DiskThread {
    pub(crate) fn new(
        number: usize,
        members: BTreeMap<usize, Driven>,
        shared: Arc<Shared>,
        config: DisksConfig,
    ) -> Self {
        Self {
            number,
            members,
            shared,
            config,
            waiting: HashMap::new(),
            jobs: HashMap::new(),
            next_id: 0,
            will_show: false,
            cpu_read_at_ns: 0,
            stopping: false,
        }
    }

    /// The member of a request that is in its device, and when that began.
    #[cfg(feature = "faults")]
    pub(crate) fn in_device(&self, id: u64) -> Option<(usize, u64)> {
        self.jobs.get(&id).map(|job| (job.member, job.started_ns))
    }

    /// Reads how much processor time this thread has taken, now and then. An idle thread takes
    /// none.
    fn read_cpu_time(&mut self, now_ns: u64) {
        if now_ns >= self.cpu_read_at_ns + CPU_TIME_EVERY_NS {
            self.cpu_read_at_ns = now_ns;
            self.shared.cpu_ns[self.number].store(thread_cpu_ns(), Relaxed);
        }
    }

    /// A new request.
    fn take(&mut self, core: &mut Core, mut job: Box<Job>) {
        if self.stopping {
            return job.answer(Err(DiskError::Stopped));
        }
        let number = job.member;
        let Some(member) = self.members.get_mut(&number) else {
            return job.answer(Err(DiskError::Absent { member: number }));
        };
        let (offset, bytes) = job.work.place();
        if matches!(job.work, Work::Write { .. }) && offset.saturating_add(bytes as u64) > member.bytes {
            // A file would grow instead of refusing.
            return job.answer(Err(DiskError::Short { member: number, offset: member.bytes }));
        }
        let id = self.next_id;
        self.next_id += 1;
        if job.work.is_sync() {
            // A sync is not ordered: it concerns only what was answered before it was submitted.
            job.started_ns = core.now_ns();
            lock(&self.shared.activities[number]).begun(core.now_ns());
            core.ring.push(id, job.work.op(&member.file));
        } else {
            member.scheduler.push(job.queued(id), core.now_ns());
            member.changed();
            self.waiting.insert(job.id, id);
            self.shared.counters[number].queued.fetch_add(1, Relaxed);
        }
        self.jobs.insert(id, job);
    }

    /// A request is not needed any more. If it has not gone to the device, its buffer is given back
    /// at once.
    fn withdraw(&mut self, number: usize, request: RequestId) {
        let Some(member) = self.members.get_mut(&number) else { return };
        let Some(&id) = self.waiting.get(&request) else { return };
        if member.scheduler.withdraw(id) {
            member.changed();
            self.waiting.remove(&request);
            self.shared.counters[number].queued.fetch_sub(1, Relaxed);
            if let Some(job) = self.jobs.remove(&id) {
                job.answer(Err(DiskError::Withdrawn));
            }
        }
    }

    /// Replaces the file of a member. Waiting requests go to the new file; those in the device end
    /// on the old one.
    fn replace(&mut self, number: usize, file: &MemberFile) {
        let mut price = lock(&self.shared.prices[number]);
        match self.members.get_mut(&number) {
            Some(member) => *price = MemberPrice::of(member.reopen(file)),
            None => {
                let member = Driven::new(file, self.config.scheduler(price.measured.price), price.measured);
                self.members.insert(number, member);
            }
        }
    }

    /// Gives every device what its scheduler lets it have.
    fn dispatch(&mut self, core: &mut Core) {
        for (&number, member) in &mut self.members {
            let counters = &self.shared.counters[number];
            while let Some(next) = member.pop(core.now_ns()) {
                counters.queued.fetch_sub(1, Relaxed);
                counters.in_device.fetch_add(1, Relaxed);
                if let Some(job) = self.jobs.get_mut(&next.id) {
                    self.waiting.remove(&job.id);
                    // It may have been promoted.
                    (job.class, job.deadline_ns) = (next.class, next.deadline_ns);
                    job.started_ns = core.now_ns();
                    lock(&self.shared.activities[number]).begun(core.now_ns());
                    core.ring.push(next.id, job.work.op(&member.file));
                }
            }
            if let Some(kept_until_ns) = member.filled(core.now_ns()) {
                core.at(kept_until_ns, IDLE_END);
            }
        }
    }

    /// Publishes the views that have changed, each ten times a second at most. The last change is
    /// always published.
    fn show(&mut self, core: &mut Core) {
        let mut next_ns = None;
        for (&number, member) in &mut self.members {
            next_ns = next_ns.max(member.show(number, &self.shared, core.now_ns()));
        }
        if let Some(next_ns) = next_ns
            && !self.will_show
        {
            self.will_show = true;
            core.at(next_ns, VIEWS);
        }
    }

    /// A request has left the device, with this result.
    fn end(&mut self, core: &mut Core, id: u64, result: Result<(), DiskError>) {
        let Some(job) = self.jobs.remove(&id) else { return };
        let Some(member) = self.members.get_mut(&job.member) else { return };
        let counters = &self.shared.counters[job.member];
        let has_woken = lock(&self.shared.activities[job.member]).answered(core.now_ns());
        if !job.work.is_sync() {
            let (_, bytes) = job.work.place();
            let done = Outcome::Done { bytes, write: !job.work.is_read() };
            let outcome = if result.is_ok() { done } else { Outcome::Failed };
            if has_woken {
                member.woke(core.now_ns());
            }
            if let Some(price) = member.done(id, outcome, core.now_ns()) {
                lock(&self.shared.prices[job.member]).now = price;
            }
            counters.in_device.fetch_sub(1, Relaxed);
            counters.served(core.now_ns().saturating_sub(job.started_ns));
        }
        match &result {
            Ok(()) => counters.succeeded(job.class, &job.work),
            Err(error) => {
                counters.errors.fetch_add(1, Relaxed);
                member.log.failure(core.now_ns(), &member.path, error);
            }
        }
        if core.now_ns() > job.deadline_ns {
            counters.late(job.class);
        }
        job.answer(result);
    }

    fn stop_when_idle(&self, core: &mut Core) {
        if self.stopping && self.jobs.is_empty() {
            core.stop();
        }
    }
}

impl Service for DiskThread {
    type Message = DiskMessage;

    fn message(&mut self, core: &mut Core, message: DiskMessage) {
        match message {
            DiskMessage::Job(job) => self.take(core, job),
            DiskMessage::Promote { member, request, class, deadline_ns } => {
                let member = self.members.get_mut(&member);
                if let (Some(&id), Some(member)) = (self.waiting.get(&request), member) {
                    member.scheduler.promote(id, class, deadline_ns);
                }
            }
            DiskMessage::Withdraw { member, request } => self.withdraw(member, request),
            DiskMessage::Classes(classes) => {
                self.config.classes = ClassTable::clone(&classes);
                for member in self.members.values_mut() {
                    member.scheduler.set_classes(&classes);
                    member.changed();
                }
            }
            DiskMessage::Price { member, price } => {
                if let Some(driven) = self.members.get_mut(&member) {
                    // Again: a correction of the old one may have come between.
                    *lock(&self.shared.prices[member]) = MemberPrice::of(price);
                    driven.set_price(price);
                }
            }
            DiskMessage::Replace { member, file } => self.replace(member, &file),
        }
    }

    fn done(&mut self, core: &mut Core, done: Done) {
        let id = done.token;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(member) = self.members.get(&job.member) else { return };
        job.work.take_back(done.op);
        let result = match done.result {
            Ok(count) => match job.work.advance(count) {
                Progress::Complete => Ok(()),
                // Still the same request, and its place in the device is still taken.
                Progress::Partial => return core.ring.push(id, job.work.op(&member.file)),
                Progress::End(offset) => Err(DiskError::Short { member: job.member, offset }),
            },
            Err(error) => Err(job.failed(error)),
        };
        self.end(core, id, result);
    }

    fn timer(&mut self, _core: &mut Core, id: u64) {
        // Of the other timer, the turn that follows takes care.
        if id == VIEWS {
            self.will_show = false;
        }
    }

    fn turn(&mut self, core: &mut Core) {
        self.dispatch(core);
        self.show(core);
        self.read_cpu_time(core.now_ns());
        self.stop_when_idle(core);
    }

    fn stopping(&mut self, _core: &mut Core) {
        self.stopping = true;
    }
}

impl DiskMessage {
    /// Answers that the threads have stopped.
    pub(crate) fn refuse(self) {
        if let DiskMessage::Job(job) = self {
            job.answer(Err(DiskError::Stopped));
        }
    }
}
