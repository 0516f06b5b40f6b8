//! One disk thread: requests in, schedulers in the middle, a ring out.

use crate::disks::{DisksConfig, Shared};
use crate::error::DiskError;
use crate::faults::{Fault, Faults};
use crate::job::{Job, JobName, Progress, Work};
use crate::limits::FAILURE_LOG_INTERVAL_NS;
use crate::member::MemberFile;
use crate::scheduler::Scheduler;
use reel_qos::{Class, ClassTable, DiskPrice};
use reel_ring::Done;
use reel_rt::{Core, Service};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// The service of a disk thread. Owns the order of everything its members get.
pub(crate) struct DiskThread {
    members: BTreeMap<usize, Member>,
    shared: Arc<Shared>,
    config: DisksConfig,
    /// Requests that wait in a scheduler, by what their callers call them.
    names: HashMap<JobName, u64>,
    /// In a scheduler or in the device.
    jobs: HashMap<u64, Box<Job>>,
    /// Answers held back by a fault.
    held: HashMap<u64, Box<Job>>,
    next_id: u64,
    stopping: bool,
}

/// What a disk thread is told.
pub(crate) enum Order {
    Job(Box<Job>),
    Promote { name: JobName, class: Class, deadline_ns: u64 },
    Classes(Arc<ClassTable>),
    Price { member: usize, price: DiskPrice },
    Replace { member: usize, file: Box<MemberFile> },
}

/// A member as its thread sees it.
pub(crate) struct Member {
    file: Arc<OwnedFd>,
    path: PathBuf,
    bytes: u64,
    scheduler: Box<dyn Scheduler>,
    log: FailureLog,
}

/// A dead member fails thousands of requests a second; the log gets one line a second.
#[derive(Default)]
struct FailureLog {
    silent_until_ns: u64,
    unsaid: u64,
}

impl DiskThread {
    pub(crate) fn new(members: BTreeMap<usize, Member>, shared: Arc<Shared>, config: DisksConfig) -> Self {
        let (jobs, held, names) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { members, shared, config, names, jobs, held, next_id: 0, stopping: false }
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
            // Nothing to order: it concerns only what was answered before it was asked.
            job.started_ns = core.now_ns();
            core.ring.push(id, job.work.op(&member.file));
        } else {
            member.scheduler.push(job.queued(id), core.now_ns());
            self.names.insert(job.name(), id);
            self.shared.counters[number].queued.fetch_add(1, Relaxed);
        }
        self.jobs.insert(id, job);
    }

    /// Another file takes the place of a member's. Requests that wait go to it; those in the device end on the old one.
    fn replace(&mut self, number: usize, file: &MemberFile) {
        match self.members.get_mut(&number) {
            Some(member) => member.reopen(file),
            None => {
                let price = *self.shared.prices[number].lock().unwrap_or_else(PoisonError::into_inner);
                self.members.insert(number, Member::new(file, self.config.scheduler(price)));
            }
        }
    }

    /// Gives every device what its scheduler lets it have.
    fn dispatch(&mut self, core: &mut Core) {
        for (&number, member) in &mut self.members {
            let counters = &self.shared.counters[number];
            while let Some(next) = member.scheduler.pop(core.now_ns()) {
                counters.queued.fetch_sub(1, Relaxed);
                counters.in_device.fetch_add(1, Relaxed);
                if let Some(job) = self.jobs.get_mut(&next.id) {
                    self.names.remove(&job.name());
                    job.started_ns = core.now_ns();
                    core.ring.push(next.id, job.work.op(&member.file));
                }
            }
        }
    }

    /// A request has left the device, with this result.
    fn end(&mut self, core: &mut Core, id: u64, result: Result<(), DiskError>) {
        let Some(mut job) = self.jobs.remove(&id) else { return };
        let Some(member) = self.members.get_mut(&job.member) else { return };
        let counters = &self.shared.counters[job.member];
        if !job.work.is_sync() {
            member.scheduler.done(id, core.now_ns());
            counters.in_device.fetch_sub(1, Relaxed);
            counters.served(core.now_ns().saturating_sub(job.started_ns));
        }
        let mut result = result;
        let delay_ns = apply_faults(&self.config.faults, &mut job, &mut result);
        match &result {
            Ok(()) => counters.succeeded(job.class, &job.work),
            Err(error) => {
                counters.errors.fetch_add(1, Relaxed);
                member.log.failure(core.now_ns(), &member.path, error);
            }
        }
        if delay_ns == 0 {
            return job.answer(result);
        }
        job.held = Some(result);
        core.at(core.now_ns().saturating_add(delay_ns), id);
        self.held.insert(id, job);
    }

    fn stop_when_idle(&self, core: &mut Core) {
        if self.stopping && self.jobs.is_empty() && self.held.is_empty() {
            core.stop();
        }
    }
}

impl Service for DiskThread {
    type Message = Order;

    fn message(&mut self, core: &mut Core, order: Order) {
        match order {
            Order::Job(job) => self.take(core, job),
            Order::Promote { name, class, deadline_ns } => {
                let member = self.members.get_mut(&name.member());
                if let (Some(&id), Some(member)) = (self.names.get(&name), member) {
                    member.scheduler.promote(id, class, deadline_ns);
                }
            }
            Order::Classes(classes) => {
                self.config.classes = ClassTable::clone(&classes);
                self.members.values_mut().for_each(|member| member.scheduler.set_classes(&classes));
            }
            Order::Price { member, price } => {
                if let Some(member) = self.members.get_mut(&member) {
                    member.scheduler.set_price(price);
                }
            }
            Order::Replace { member, file } => self.replace(member, &file),
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
        if let Some(mut job) = self.held.remove(&id)
            && let Some(result) = job.held.take()
        {
            job.answer(result);
        }
    }

    fn turn(&mut self, core: &mut Core) {
        self.dispatch(core);
        self.stop_when_idle(core);
    }

    fn stopping(&mut self, _core: &mut Core) {
        self.stopping = true;
    }
}

impl Order {
    /// Tells whoever waits that there is nobody to carry it out any more.
    pub(crate) fn refuse(self) {
        if let Order::Job(job) = self {
            job.answer(Err(DiskError::Stopped));
        }
    }
}

impl Member {
    pub(crate) fn new(file: &MemberFile, scheduler: Box<dyn Scheduler>) -> Self {
        let (path, bytes) = (file.path().to_owned(), file.bytes());
        Self { file: Arc::clone(file.ring_file()), path, bytes, scheduler, log: FailureLog::default() }
    }

    fn reopen(&mut self, file: &MemberFile) {
        (self.path, self.bytes) = (file.path().to_owned(), file.bytes());
        self.file = Arc::clone(file.ring_file());
    }
}

impl FailureLog {
    fn failure(&mut self, now_ns: u64, path: &std::path::Path, error: &DiskError) {
        if now_ns < self.silent_until_ns {
            self.unsaid += 1;
            return;
        }
        tracing::warn!(path = %path.display(), %error, unsaid = self.unsaid, "a member failed a request");
        self.silent_until_ns = now_ns.saturating_add(FAILURE_LOG_INTERVAL_NS);
        self.unsaid = 0;
    }
}

/// Does to the job what its member was told to do wrong; how long to hold the answer back.
fn apply_faults(faults: &Faults, job: &mut Job, result: &mut Result<(), DiskError>) -> u64 {
    let mut delay_ns = 0;
    for fault in faults.of(job.member) {
        let (offset, bytes) = job.work.place();
        let hits = |range: &std::ops::Range<u64>| offset < range.end && range.start < offset + bytes as u64;
        match fault {
            Fault::CorruptReads => job.work.corrupt(),
            Fault::CorruptRange(range) => job.work.invert(range.start, range.end),
            Fault::Delay { delay_ns: by_ns } => delay_ns += by_ns,
            Fault::FailReads if job.work.is_read() => *result = Err(job.failed(rustix::io::Errno::IO.into())),
            Fault::FailWrites if !job.work.is_read() => {
                *result = Err(job.failed(rustix::io::Errno::IO.into()))
            }
            Fault::FailRange(range) if job.work.is_read() && hits(&range) => {
                *result = Err(job.failed(rustix::io::Errno::IO.into()));
            }
            Fault::Vanish => *result = Err(job.failed(rustix::io::Errno::NODEV.into())),
            Fault::FailReads | Fault::FailWrites | Fault::FailRange(_) => {}
        }
    }
    delay_ns
}
