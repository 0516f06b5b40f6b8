//! Disks that answer at once, and a clock that jumps: a wait of half a minute for memory ends at
//! once.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions as FileOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use reel_disk::limits::{IDLE_NS, PRICE_UNKNOWN};
use reel_disk::{
    ActivityTracker, DiskBackend, DiskDone, DiskError, DiskRequest, DiskWork, Disks, MeasuredPrice,
    MemberActivity, MemberFile, MemberStats, Reply, RequestId, SchedulerView,
};
use reel_qos::{Class, ClassTable, DiskPrice};
use reel_volume::{CooperativeWait, OpenOptions, Simulated, Volume};

use super::{Scratch, open_options};

/// The time at first: a disk may have been idle for long.
const START_NS: u64 = 10 * IDLE_NS;

/// Called before a request is executed; the request fails if it returns `true`.
type Fails = Box<dyn FnMut(usize, &DiskWork) -> bool + Send>;

/// An answer that is held back, and its receiver.
type Late = (Arc<dyn Reply>, DiskDone);

pub struct ImmediateDisks {
    files: Mutex<Vec<Option<File>>>,
    fails: Mutex<Option<Fails>>,
    refuses: AtomicBool,
    /// Answers of requests that failed, if they are held back.
    held: Mutex<Option<Vec<Late>>>,
    lagging: Mutex<Option<Lagging>>,
    sleeping: Mutex<Option<Sleeping>>,
    now_ns: AtomicU64,
}

/// A member that answers only when the caller waits for nothing else.
struct Lagging {
    member: usize,
    late: VecDeque<Late>,
    /// The most answers that were outstanding at once.
    most: usize,
}

/// A member whose disk sleeps.
struct Sleeping {
    member: usize,
    activity: ActivityTracker,
    /// How long it takes to spin up; `None` if it never answers.
    spin_up_ns: Option<u64>,
    /// What it has to answer, and when.
    waiting: VecDeque<(Option<u64>, Late)>,
}

struct JumpingClock {
    disks: Arc<ImmediateDisks>,
}

impl ImmediateDisks {
    /// Opens a volume on such disks.
    pub fn open(scratch: &Scratch) -> (Volume, Arc<ImmediateDisks>) {
        Self::open_with(scratch, |_| {})
    }

    /// The same, with other options.
    pub fn open_with(
        scratch: &Scratch,
        change: impl FnOnce(&mut OpenOptions),
    ) -> (Volume, Arc<ImmediateDisks>) {
        let disks = Arc::new(ImmediateDisks::at(START_NS));
        let own = Arc::clone(&disks);
        let make = move |files: Vec<Option<MemberFile>>| {
            let open = |file: Option<MemberFile>| file.map(|file| open(file.path()));
            *own.files.lock().unwrap() = files.into_iter().map(open).collect();
            Arc::clone(&own) as Disks
        };
        let turns = JumpingClock { disks: Arc::clone(&disks) };
        let simulated = Simulated { disks: Arc::new(make), turns: Arc::new(turns) };
        let mut options = OpenOptions { simulated: Some(simulated), ..open_options() };
        change(&mut options);
        (Volume::open(scratch.path(), options).unwrap(), disks)
    }

    fn at(now_ns: u64) -> ImmediateDisks {
        ImmediateDisks {
            files: Mutex::default(),
            fails: Mutex::default(),
            refuses: AtomicBool::default(),
            held: Mutex::default(),
            lagging: Mutex::default(),
            sleeping: Mutex::default(),
            now_ns: AtomicU64::new(now_ns),
        }
    }

    /// The time on the clock.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// This member has been idle for long, and takes so long to answer its next request.
    pub fn sleep(&self, member: usize, spin_up_ns: Option<u64>) {
        let activity = ActivityTracker::new(true, self.now_ns() - IDLE_NS);
        *self.sleeping.lock().unwrap() =
            Some(Sleeping { member, activity, spin_up_ns, waiting: VecDeque::new() });
    }

    /// Requests that the sleeping member has not answered.
    pub fn waiting(&self) -> usize {
        self.sleeping.lock().unwrap().as_ref().map_or(0, |sleeping| sleeping.waiting.len())
    }

    /// Lets time pass.
    pub fn pass(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
        while self.answer_awake() {}
    }

    /// Answers what the sleeping member has to answer by now.
    fn answer_awake(&self) -> bool {
        let now_ns = self.now_ns();
        let mut sleeping = self.sleeping.lock().unwrap();
        let Some(member) = sleeping.as_mut() else { return false };
        let is_due = |(at_ns, _): &mut (Option<u64>, Late)| at_ns.is_some_and(|at_ns| at_ns <= now_ns);
        let Some((_, (reply, done))) = member.waiting.pop_front_if(is_due) else { return false };
        member.activity.answered(now_ns);
        drop(sleeping);
        reply.deliver(done);
        true
    }

    /// When the sleeping member answers next.
    fn next_answer_ns(&self) -> Option<u64> {
        self.sleeping.lock().unwrap().as_ref()?.waiting.front()?.0
    }

    /// From now on requests for which `fails` returns `true` fail.
    pub fn fail(&self, fails: impl FnMut(usize, &DiskWork) -> bool + Send + 'static) {
        *self.fails.lock().unwrap() = Some(Box::new(fails));
    }

    /// From now on requests that fail are not answered.
    pub fn hold_failures(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    /// Answers the requests that were held back.
    pub fn release_failures(&self) {
        let held = self.held.lock().unwrap().take().unwrap_or_default();
        held.into_iter().for_each(|(reply, done)| reply.deliver(done));
    }

    /// From now on this member answers only when the caller waits for nothing else.
    pub fn lag(&self, member: usize) {
        *self.lagging.lock().unwrap() = Some(Lagging { member, late: VecDeque::new(), most: 0 });
    }

    /// The most answers of the lagging member that were outstanding at once.
    pub fn most_outstanding(&self) -> usize {
        self.lagging.lock().unwrap().as_ref().map_or(0, |lagging| lagging.most)
    }

    /// Delivers the oldest outstanding answer. `false` if there is none.
    fn answer_one(&self) -> bool {
        let late = self.lagging.lock().unwrap().as_mut().and_then(|lagging| lagging.late.pop_front());
        let Some((reply, done)) = late else { return false };
        reply.deliver(done);
        true
    }

    /// Sets whether replacing a disk fails from now on.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    fn carry_out(&self, member: usize, work: &mut DiskWork) -> io::Result<()> {
        if self.fails.lock().unwrap().as_mut().is_some_and(|fails| fails(member, work)) {
            return Err(io::Error::other("it fails on purpose"));
        }
        let files = self.files.lock().unwrap();
        let file = files[member].as_ref().ok_or_else(|| io::Error::other("there is none"))?;
        match work {
            DiskWork::Read { offset, bytes, buffer } => file.read_exact_at(&mut buffer[..*bytes], *offset),
            DiskWork::Write { offset, lease } => file.write_all_at(lease, *offset),
            DiskWork::Sync => Ok(()),
        }
    }
}

fn open(path: &Path) -> File {
    FileOptions::new().read(true).write(true).open(path).unwrap()
}

impl DiskBackend for ImmediateDisks {
    fn submit_all(&self, requests: &mut dyn Iterator<Item = DiskRequest>) {
        for DiskRequest { member, mut work, token, reply, .. } in requests {
            let failed = |source| DiskError::Failed {
                member,
                what: "carry out",
                offset: 0,
                bytes: 0,
                source: Arc::new(source),
            };
            let result = self.carry_out(member, &mut work).map_err(failed);
            let buffer = if let DiskWork::Read { buffer, .. } = work { Some(buffer) } else { None };
            let done = DiskDone { token, member, result, buffer, queued_ns: 0, device_ns: 0 };
            if let Some(lagging) =
                self.lagging.lock().unwrap().as_mut().filter(|lagging| lagging.member == member)
            {
                lagging.late.push_back((reply, done));
                lagging.most = lagging.most.max(lagging.late.len());
                continue;
            }
            if let Some(sleeping) =
                self.sleeping.lock().unwrap().as_mut().filter(|sleeping| sleeping.member == member)
            {
                let now_ns = self.now_ns();
                let wakes_ns = sleeping.waiting.front().map(|(at_ns, _)| *at_ns);
                let at_ns = wakes_ns.unwrap_or_else(|| match sleeping.activity.activity(now_ns) {
                    MemberActivity::Idle => sleeping.spin_up_ns.map(|ns| now_ns + ns),
                    _ => Some(now_ns),
                });
                sleeping.activity.begun(now_ns);
                sleeping.waiting.push_back((at_ns, (reply, done)));
                continue;
            }
            match &mut *self.held.lock().unwrap() {
                Some(held) if done.result.is_err() => held.push((reply, done)),
                _ => reply.deliver(done),
            }
        }
    }

    fn promote(&self, _: usize, _: RequestId, _: Class, _: u64) {}

    fn members(&self) -> usize {
        self.files.lock().unwrap().len()
    }

    fn is_present(&self, member: usize) -> bool {
        self.files.lock().unwrap()[member].is_some()
    }

    fn activity(&self, member: usize) -> MemberActivity {
        let sleeping = self.sleeping.lock().unwrap();
        let found = sleeping.as_ref().filter(|sleeping| sleeping.member == member);
        found.map_or(MemberActivity::Active, |sleeping| sleeping.activity.activity(self.now_ns()))
    }

    fn stats(&self) -> Vec<MemberStats> {
        Vec::new()
    }

    fn views(&self) -> Vec<SchedulerView> {
        Vec::new()
    }

    fn classes(&self) -> Arc<ClassTable> {
        Arc::default()
    }

    fn set_classes(&self, _: Arc<ClassTable>) {}

    fn price(&self, _: usize) -> DiskPrice {
        PRICE_UNKNOWN
    }

    fn set_price(&self, _: usize, _: MeasuredPrice) {}

    fn replace(&self, member: usize, file: MemberFile) -> Result<(), DiskError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(DiskError::Stopped);
        }
        self.files.lock().unwrap()[member] = Some(open(file.path()));
        Ok(())
    }

    fn stop(&self) -> Result<(), DiskError> {
        Ok(())
    }
}

impl CooperativeWait for JumpingClock {
    fn now_ns(&self) -> u64 {
        self.disks.now_ns()
    }

    fn caller(&self) -> u64 {
        0
    }

    fn wait(&self, until_ns: Option<u64>) -> bool {
        if self.disks.answer_one() || self.disks.answer_awake() {
            return true;
        }
        let next_ns = until_ns.into_iter().chain(self.disks.next_answer_ns()).min();
        next_ns.is_some_and(|next_ns| self.disks.now_ns.fetch_max(next_ns, Ordering::Relaxed) < next_ns)
    }

    fn notify(&self, _: u64) {}
}
