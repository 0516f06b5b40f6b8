//! All members of a volume, as their users see them.
//!
//! ```text
//!   submit -> mailbox -> Scheduler of the member -> ring -> device
//!   reply  <------------------------------------- done  <-'
//! ```
//! Member `m` belongs to thread `m mod threads`: one thread orders everything that member gets.

use crate::error::DiskError;
use crate::faults::Faults;
use crate::job::Job;
use crate::limits::RING_ENTRIES;
use crate::member::MemberFile;
use crate::request::DiskRequest;
use crate::scheduler::{CScan, DepthBound};
use crate::stats::{Counters, MemberStats};
use crate::thread::{DiskThread, Member};
use reel_arena::Arena;
use reel_ring::{DriverChoice, RingConfig};
use reel_rt::{Core, CoreConfig, CoreHandle, Mailbox, RtError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How the disk threads are set up.
#[derive(Clone, Debug)]
pub struct DisksConfig {
    /// Threads; 0 means one for every four members.
    pub threads: usize,
    /// Processors for the threads, in turn; empty means that they run anywhere.
    pub cpus: Vec<usize>,
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
    /// The disk thread of each member, as an index into `doors`; `None` if the member is absent.
    thread_of: Vec<Option<usize>>,
    doors: Vec<Mailbox<Box<Job>>>,
    counters: Arc<Vec<Counters>>,
    threads: Mutex<Vec<CoreHandle<Box<Job>>>>,
}

impl Default for DisksConfig {
    fn default() -> Self {
        let (depth, faults) = (DepthBound::default(), Faults::default());
        Self { threads: 0, cpus: Vec::new(), depth, driver: DriverChoice::Auto, faults }
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
        let mut thread_of = vec![None; count];
        for (number, file) in members.into_iter().enumerate() {
            let Some(file) = file else { continue };
            thread_of[number] = Some(number % threads);
            let (path, ring_file) = (file.path().to_owned(), Arc::clone(file.ring_file()));
            let scheduler = Box::new(CScan::new(config.depth));
            by_thread[number % threads].insert(number, Member::new(ring_file, path, file.bytes(), scheduler));
        }
        let mut handles = Vec::with_capacity(threads);
        for (number, members) in by_thread.into_iter().enumerate() {
            let core = CoreConfig {
                name: format!("reel-disk-{number}"),
                cpu: config.cpus.get(number % config.cpus.len().max(1)).copied(),
                ring: RingConfig { entries: RING_ENTRIES, driver: config.driver },
                arena: Some(arena.clone()),
            };
            let (counters, faults) = (Arc::clone(&counters), config.faults.clone());
            let make = move |_: &mut Core, _| DiskThread::new(members, counters, faults);
            // If one does not start, the handles of the others stop them.
            handles.push(reel_rt::spawn(core, make).map_err(thread_error)?);
        }
        let doors = handles.iter().map(CoreHandle::mailbox).collect();
        Ok(Self { inner: Arc::new(Inner { thread_of, doors, counters, threads: Mutex::new(handles) }) })
    }

    /// Takes a request; its answer goes to its `reply`, possibly before this returns. Every request is answered
    /// exactly once, whatever happens to the member, the thread or this handle.
    pub fn submit(&self, request: DiskRequest) {
        if let Some((thread, job)) = self.admit(request)
            && let Err(job) = self.inner.doors[thread].send(job)
        {
            job.answer(Err(DiskError::Stopped));
        }
    }

    /// Takes several requests with one hand-over per disk thread: cheaper than one by one, and the schedulers see
    /// them together.
    pub fn submit_all(&self, requests: impl IntoIterator<Item = DiskRequest>) {
        let mut by_thread: Vec<Vec<Box<Job>>> = self.inner.doors.iter().map(|_| Vec::new()).collect();
        for request in requests {
            if let Some((thread, job)) = self.admit(request) {
                by_thread[thread].push(job);
            }
        }
        for (door, jobs) in self.inner.doors.iter().zip(by_thread) {
            if let Err(jobs) = door.send_all(jobs) {
                jobs.into_iter().for_each(|job| job.answer(Err(DiskError::Stopped)));
            }
        }
    }

    /// Members, present or not.
    pub fn members(&self) -> usize {
        self.inner.thread_of.len()
    }

    /// Whether there is a member of this number.
    pub fn is_present(&self, member: usize) -> bool {
        self.inner.thread_of.get(member).is_some_and(Option::is_some)
    }

    /// What every member did so far.
    pub fn stats(&self) -> Vec<MemberStats> {
        let snapshot = |(member, counters): (usize, &Counters)| counters.snapshot(self.is_present(member));
        self.inner.counters.iter().enumerate().map(snapshot).collect()
    }

    /// Finishes and answers everything under way, ends the threads and waits for them. Requests that come later, by
    /// whichever clone, are answered with [`DiskError::Stopped`].
    pub fn stop(&self) -> Result<(), DiskError> {
        self.inner.stop()
    }

    /// The job and its thread, if the request makes sense; otherwise it is answered here.
    fn admit(&self, request: DiskRequest) -> Option<(usize, Box<Job>)> {
        let job = Box::new(Job::new(request));
        if let Err(error) = job.check() {
            job.answer(Err(error));
            return None;
        }
        let member = job.member;
        let Some(&Some(thread)) = self.inner.thread_of.get(member) else {
            job.answer(Err(DiskError::Absent { member }));
            return None;
        };
        Some((thread, job))
    }
}

impl Inner {
    fn stop(&self) -> Result<(), DiskError> {
        // Taken out first: a reply that drops the last clone, or stops again, must not find the lock held.
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.iter().for_each(CoreHandle::stop);
        let mut result = Ok(());
        for thread in threads {
            // A reply may drop the last clone on a disk thread, which cannot wait for itself.
            if !thread.is_current()
                && let Err(error) = thread.join()
            {
                tracing::error!(%error, "a disk thread ended badly");
                result = Err(thread_error(error));
            }
        }
        result
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Told in the log; a drop has nobody else to tell.
        let _ = self.stop();
    }
}

fn thread_error(error: RtError) -> DiskError {
    DiskError::Thread(Arc::new(error))
}
