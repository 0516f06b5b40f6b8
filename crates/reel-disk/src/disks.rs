//! The disk threads: requests in, schedulers in the middle, rings out.
//!
//! ```text
//!   submit -> mailbox -> Scheduler of the member -> ring -> device
//!   reply  <-------------- verified length  <------ done
//! ```
//! Member `m` belongs to thread `m mod threads`: one thread per member orders everything that member gets.

use crate::error::DiskError;
use crate::faults::{Fault, Faults};
use crate::limits::RING_ENTRIES;
use crate::member::{MemberFile, is_aligned};
use crate::request::{DiskDone, DiskRequest, DiskWork, Reply};
use crate::scheduler::{CScan, DepthBound, Queued, Scheduler};
use crate::stats::{Counters, MemberStats};
use reel_arena::{Arena, Buffer, Lease};
use reel_qos::Class;
use reel_ring::{Done, DriverChoice, Op, RingConfig};
use reel_rt::{Core, CoreConfig, CoreHandle, Mailbox, Service, now_ns};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, RwLock};

/// How the disk threads are set up.
#[derive(Clone, Debug)]
pub struct DisksConfig {
    /// Threads; 0 means one for every four members.
    pub threads: usize,
    /// What may be in the queue of one device.
    pub depth: DepthBound,
    /// io_uring or the portable driver.
    pub driver: DriverChoice,
    /// Faults on purpose.
    pub faults: Faults,
}

/// All members of a volume; cheap to clone, usable from any thread.
#[derive(Clone)]
pub struct Disks {
    inner: Arc<Inner>,
}

struct Inner {
    /// Where the requests of each member go; `None` if it is absent.
    doors: Vec<Option<Mailbox<Message>>>,
    counters: Arc<Vec<Counters>>,
    /// `false` once the threads were asked to stop. Held for reading while a request is posted, so that none is
    /// posted after the last look into the mailboxes.
    open: RwLock<bool>,
    threads: Mutex<Vec<CoreHandle<Message>>>,
}

enum Message {
    Request(Box<Job>),
    Stop,
}

/// One disk thread.
struct DiskThread {
    members: BTreeMap<usize, Member>,
    counters: Arc<Vec<Counters>>,
    faults: Faults,
    jobs: HashMap<u64, Box<Job>>,
    /// Answers held back by a fault.
    delayed: HashMap<u64, Box<Job>>,
    next_id: u64,
    stopping: bool,
}

struct Member {
    file: Arc<OwnedFd>,
    path: PathBuf,
    scheduler: Box<dyn Scheduler>,
}

struct Job {
    ticket: Ticket,
    class: Class,
    deadline_ns: u64,
    work: Work,
    queued_ns: u64,
    started_ns: u64,
    answer: Option<Result<(), DiskError>>,
}

enum Work {
    Read { offset: u64, bytes: usize, done_bytes: usize, buffer: Option<Buffer> },
    Write { offset: u64, rest: Option<Lease>, done_bytes: usize, bytes: usize },
    Sync,
}

/// The right to one answer: whoever drops it unanswered, by a panic or otherwise, tells the caller.
struct Ticket {
    token: u64,
    member: usize,
    reply: Option<Arc<dyn Reply>>,
}

impl Default for DisksConfig {
    fn default() -> Self {
        let (depth, faults) = (DepthBound::default(), Faults::default());
        Self { threads: 0, depth, driver: DriverChoice::Auto, faults }
    }
}

impl Disks {
    /// Starts the threads. `members[m]` is the file of member `m`, or `None` if it is absent.
    pub fn start(
        members: Vec<Option<MemberFile>>,
        arena: &Arena,
        config: DisksConfig,
    ) -> Result<Self, DiskError> {
        let count = members.len();
        let threads = match config.threads {
            0 => count.div_ceil(4).max(1),
            threads => threads.min(count.max(1)),
        };
        let counters: Arc<Vec<Counters>> = Arc::new((0..count).map(|_| Counters::default()).collect());
        let mut by_thread: Vec<BTreeMap<usize, Member>> = (0..threads).map(|_| BTreeMap::new()).collect();
        let mut present = vec![false; count];
        for (number, file) in members.into_iter().enumerate() {
            let Some(file) = file else { continue };
            present[number] = true;
            let scheduler = Box::new(CScan::new(config.depth));
            let (path, file) = (file.path().to_owned(), Arc::clone(file.ring_file()));
            by_thread[number % threads].insert(number, Member { file, path, scheduler });
        }
        let mut handles = Vec::with_capacity(threads);
        for (number, members) in by_thread.into_iter().enumerate() {
            let core = CoreConfig {
                name: format!("reel-disk-{number}"),
                cpu: None,
                ring: RingConfig { entries: RING_ENTRIES, driver: config.driver },
                arena: Some(arena.clone()),
            };
            let counters = Arc::clone(&counters);
            let faults = config.faults.clone();
            let make = move |_: &mut Core, _| DiskThread {
                members,
                counters,
                faults,
                jobs: HashMap::new(),
                delayed: HashMap::new(),
                next_id: 0,
                stopping: false,
            };
            handles.push(reel_rt::spawn(core, make).map_err(|error| DiskError::Thread(Arc::new(error)))?);
        }
        let door = |member: usize| present[member].then(|| handles[member % threads].mailbox());
        let inner = Inner {
            doors: (0..count).map(door).collect(),
            counters,
            open: RwLock::new(true),
            threads: Mutex::new(handles),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Takes a request; its answer goes to its `reply`, possibly before this returns.
    pub fn submit(&self, request: DiskRequest) {
        let job = Box::new(Job::new(request));
        if let Err(error) = job.check() {
            return job.answer(Err(error));
        }
        let member = job.ticket.member;
        let Some(Some(door)) = self.inner.doors.get(member) else {
            return job.answer(Err(DiskError::Absent { member }));
        };
        let open = self.inner.open.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *open {
            door.post(Message::Request(job));
        } else {
            job.answer(Err(DiskError::Stopped));
        }
    }

    /// Members, present or not.
    pub fn members(&self) -> usize {
        self.inner.doors.len()
    }

    /// Whether there is a member of this number.
    pub fn is_present(&self, member: usize) -> bool {
        self.inner.doors.get(member).is_some_and(Option::is_some)
    }

    /// What every member did so far.
    pub fn stats(&self) -> Vec<MemberStats> {
        let snapshot = |(member, counters): (usize, &Counters)| counters.snapshot(self.is_present(member));
        self.inner.counters.iter().enumerate().map(snapshot).collect()
    }

    /// Answers everything under way, ends the threads and waits for them. Requests that come later are answered with
    /// [`DiskError::Stopped`].
    pub fn stop(&self) -> Result<(), DiskError> {
        self.inner.stop()
    }
}

impl Inner {
    fn stop(&self) -> Result<(), DiskError> {
        *self.open.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = false;
        let mut threads = self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for thread in threads.iter() {
            thread.mailbox().post(Message::Stop);
        }
        let ends = threads.drain(..).map(|thread| thread.join());
        let all: Vec<_> = ends.collect();
        all.into_iter().collect::<Result<(), _>>().map_err(|error| DiskError::Thread(Arc::new(error)))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!(%error, "a disk thread ended badly");
        }
    }
}

impl DiskThread {
    fn take(&mut self, core: &mut Core, mut job: Box<Job>) {
        let member = job.ticket.member;
        let id = self.next_id;
        self.next_id += 1;
        let (offset, bytes) = job.work.place();
        let queued = Queued { id, class: job.class, deadline_ns: job.deadline_ns, offset, bytes };
        let Some(state) = self.members.get_mut(&member) else {
            return job.answer(Err(DiskError::Absent { member }));
        };
        if matches!(job.work, Work::Sync) {
            // Nothing to order: it concerns what was answered already.
            job.started_ns = core.now_ns();
            core.ring.push(id, Op::Sync { file: Arc::clone(&state.file) });
            self.jobs.insert(id, job);
            return;
        }
        state.scheduler.push(queued);
        self.counters[member].queued.fetch_add(1, Ordering::Relaxed);
        self.jobs.insert(id, job);
    }

    /// Gives every device what its scheduler lets it have.
    fn dispatch(&mut self, core: &mut Core) {
        for (&number, member) in &mut self.members {
            while let Some(next) = member.scheduler.pop(core.now_ns()) {
                let counters = &self.counters[number];
                counters.queued.fetch_sub(1, Ordering::Relaxed);
                counters.in_device.fetch_add(1, Ordering::Relaxed);
                if let Some(job) = self.jobs.get_mut(&next.id) {
                    job.started_ns = core.now_ns();
                    core.ring.push(next.id, job.work.op(&member.file));
                }
            }
        }
    }

    fn end(&mut self, core: &mut Core, id: u64, result: Result<(), DiskError>) {
        let Some(mut job) = self.jobs.remove(&id) else { return };
        let number = job.ticket.member;
        let counters = &self.counters[number];
        if let (Some(member), false) = (self.members.get_mut(&number), matches!(job.work, Work::Sync)) {
            member.scheduler.done(id);
            counters.in_device.fetch_sub(1, Ordering::Relaxed);
        }
        counters.served(core.now_ns().saturating_sub(job.started_ns));
        let mut result = result;
        let mut delay_ns = 0;
        for fault in self.faults.of(number) {
            match fault {
                Fault::CorruptReads => job.work.corrupt(),
                Fault::Delay { delay_ns: by_ns } => delay_ns = by_ns,
                Fault::FailReads if matches!(job.work, Work::Read { .. }) => result = Err(job.injected()),
                Fault::FailWrites if !matches!(job.work, Work::Read { .. }) => result = Err(job.injected()),
                Fault::FailReads | Fault::FailWrites => {}
            }
        }
        match (&result, &job.work) {
            (Err(_), _) => {
                counters.errors.fetch_add(1, Ordering::Relaxed);
            }
            (Ok(()), Work::Read { bytes, .. }) => {
                counters.reads.fetch_add(1, Ordering::Relaxed);
                counters.read_bytes.fetch_add(*bytes as u64, Ordering::Relaxed);
            }
            (Ok(()), Work::Write { bytes, .. }) => {
                counters.writes.fetch_add(1, Ordering::Relaxed);
                counters.written_bytes.fetch_add(*bytes as u64, Ordering::Relaxed);
            }
            (Ok(()), Work::Sync) => {}
        }
        if delay_ns == 0 {
            return job.answer(result);
        }
        job.answer = Some(result);
        core.at(core.now_ns() + delay_ns, id);
        self.delayed.insert(id, job);
    }
}

impl Service for DiskThread {
    type Message = Message;

    fn message(&mut self, core: &mut Core, message: Message) {
        match message {
            Message::Request(job) => self.take(core, job),
            Message::Stop => self.stopping = true,
        }
    }

    fn done(&mut self, core: &mut Core, done: Done) {
        let id = done.token;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(member) = self.members.get(&job.ticket.member) else { return };
        job.work.give_back(done.op);
        let retry = matches!(&done.result, Err(error) if error.kind() == io::ErrorKind::Interrupted);
        let result = match done.result {
            _ if retry => Ok(false),
            Ok(0) if !matches!(job.work, Work::Sync) => {
                Err(DiskError::Short { member: job.ticket.member, offset: job.work.next_offset() })
            }
            Ok(bytes) => Ok(job.work.advance(bytes)),
            Err(error) => Err(job.failed(error)),
        };
        match result {
            Ok(true) => self.end(core, id, Ok(())),
            // The device did part of it: the rest goes at once, it is the same request.
            Ok(false) => core.ring.push(id, job.work.op(&member.file)),
            Err(error) => {
                tracing::warn!(path = %member.path.display(), %error, "a member failed a request");
                self.end(core, id, Err(error));
            }
        }
    }

    fn timer(&mut self, _core: &mut Core, id: u64) {
        if let Some(mut job) = self.delayed.remove(&id)
            && let Some(result) = job.answer.take()
        {
            job.answer(result);
        }
    }

    fn turn(&mut self, core: &mut Core) {
        self.dispatch(core);
        if self.stopping && self.jobs.is_empty() && self.delayed.is_empty() {
            core.stop();
        }
    }
}

impl Job {
    fn new(request: DiskRequest) -> Self {
        let work = match request.work {
            DiskWork::Read { offset, bytes, buffer } => {
                Work::Read { offset, bytes, done_bytes: 0, buffer: Some(buffer) }
            }
            DiskWork::Write { offset, lease } => {
                Work::Write { offset, bytes: lease.len(), rest: Some(lease), done_bytes: 0 }
            }
            DiskWork::Sync => Work::Sync,
        };
        let ticket = Ticket { token: request.token, member: request.member, reply: Some(request.reply) };
        let (class, deadline_ns) = (request.class, request.deadline_ns);
        Self { ticket, class, deadline_ns, work, queued_ns: now_ns(), started_ns: 0, answer: None }
    }

    fn check(&self) -> Result<(), DiskError> {
        let (offset, bytes) = self.work.place();
        let fits = match &self.work {
            Work::Read { buffer, .. } => buffer.as_ref().is_some_and(|buffer| bytes <= buffer.len()),
            _ => true,
        };
        if fits && is_aligned(offset, bytes) { Ok(()) } else { Err(DiskError::Unaligned { offset, bytes }) }
    }

    fn answer(mut self, result: Result<(), DiskError>) {
        let now_ns = now_ns();
        let started_ns = if self.started_ns == 0 { now_ns } else { self.started_ns };
        let buffer = match &mut self.work {
            Work::Read { buffer, .. } => buffer.take(),
            _ => None,
        };
        if let Some(reply) = self.ticket.reply.take() {
            reply.deliver(DiskDone {
                token: self.ticket.token,
                member: self.ticket.member,
                result,
                buffer,
                queued_ns: started_ns.saturating_sub(self.queued_ns),
                device_ns: now_ns.saturating_sub(started_ns),
            });
        }
    }

    fn failed(&self, error: io::Error) -> DiskError {
        let (offset, bytes) = self.work.place();
        let (what, source) = (self.work.name(), Arc::new(error));
        DiskError::Failed { member: self.ticket.member, what, offset, bytes, source }
    }

    fn injected(&self) -> DiskError {
        self.failed(rustix::io::Errno::IO.into())
    }
}

impl Work {
    fn name(&self) -> &'static str {
        match self {
            Work::Read { .. } => "read",
            Work::Write { .. } => "write",
            Work::Sync => "sync",
        }
    }

    fn place(&self) -> (u64, usize) {
        match self {
            Work::Read { offset, bytes, .. } | Work::Write { offset, bytes, .. } => (*offset, *bytes),
            Work::Sync => (0, 0),
        }
    }

    fn next_offset(&self) -> u64 {
        match self {
            Work::Read { offset, done_bytes, .. } | Work::Write { offset, done_bytes, .. } => {
                offset + *done_bytes as u64
            }
            Work::Sync => 0,
        }
    }

    /// The operation for what is not done yet.
    fn op(&mut self, file: &Arc<OwnedFd>) -> Op {
        let (file, offset) = (Arc::clone(file), self.next_offset());
        match self {
            Work::Read { bytes, done_bytes, buffer, .. } => {
                let buffer = buffer.take().expect("the buffer is back whenever nothing is in the ring");
                Op::Read { file, offset, buffer, start: *done_bytes, bytes: *bytes - *done_bytes }
            }
            Work::Write { rest, .. } => {
                let lease = rest.take().expect("the lease is back whenever nothing is in the ring");
                Op::Write { file, offset, lease }
            }
            Work::Sync => Op::Sync { file },
        }
    }

    fn give_back(&mut self, op: Op) {
        match (self, op) {
            (Work::Read { buffer, .. }, Op::Read { buffer: back, .. }) => *buffer = Some(back),
            (Work::Write { rest, .. }, Op::Write { lease, .. }) => *rest = Some(lease),
            _ => {}
        }
    }

    /// Counts `count` more bytes; `true` when everything is done.
    fn advance(&mut self, count: usize) -> bool {
        match self {
            Work::Read { bytes, done_bytes, .. } => {
                *done_bytes += count;
                done_bytes >= bytes
            }
            Work::Write { rest, done_bytes, bytes, .. } => {
                *done_bytes += count;
                if let Some(lease) = rest.take() {
                    let len = lease.len();
                    *rest = Some(lease.slice(count.min(len)..len));
                }
                done_bytes >= bytes
            }
            Work::Sync => true,
        }
    }

    fn corrupt(&mut self) {
        if let Work::Read { bytes, buffer: Some(buffer), .. } = self {
            for block in buffer[..*bytes].chunks_mut(4096) {
                block[block.len() / 2] ^= 0x10;
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            let (token, member, result) = (self.token, self.member, Err(DiskError::Stopped));
            reply.deliver(DiskDone { token, member, result, buffer: None, queued_ns: 0, device_ns: 0 });
        }
    }
}
