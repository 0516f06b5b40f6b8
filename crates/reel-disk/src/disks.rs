//! Real members behind their threads.
//!
//! ```text
//!   submit -> mailbox -> Scheduler of the member -> ring -> device
//!   reply  <------------------------------------- done  <-'
//! ```
//! Member `m` belongs to thread `m mod threads`: one thread orders all requests to that member.

use crate::activity::{ActivityTracker, MemberActivity};
use crate::backend::{DiskBackend, Disks};
use crate::config::DisksConfig;
use crate::driven::Driven;
use crate::error::DiskError;
#[cfg(feature = "faults")]
use crate::faulty_thread::FaultyThread;
use crate::job::Job;
use crate::limits::{PRICE_UNKNOWN, RING_ENTRIES};
use crate::measured_price::MeasuredPrice;
use crate::member::MemberFile;
use crate::request::{DiskRequest, RequestId};
use crate::scheduler::SchedulerView;
use crate::shared::{MemberPrice, Shared};
use crate::stats::{Counters, MemberStats};
use crate::thread::{DiskMessage, DiskThread};
use reel_arena::Arena;
use reel_qos::{Class, ClassTable, DiskPrice};
use reel_ring::RingConfig;
use reel_rt::{Core, CoreConfig, CoreHandle, Mailbox, RtError, lock, now_ns};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Real members behind their threads.
struct Threads {
    /// The disk thread of each member, as an index into `mailboxes`.
    thread_of: Vec<usize>,
    present: Vec<AtomicBool>,
    mailboxes: Vec<Mailbox<DiskMessage>>,
    shared: Arc<Shared>,
    threads: Mutex<Vec<CoreHandle<DiskMessage>>>,
}

/// Starts the threads. `members[m]` is the file of member `m`, or `None` if it is absent. Every
/// request is answered exactly once, whatever happens to the member, the thread or the handle.
///
/// # Errors
/// A thread does not start, or cannot have a ring.
pub fn start_disks(
    members: Vec<Option<MemberFile>>,
    arena: &Arena,
    config: DisksConfig,
) -> Result<Disks, DiskError> {
    Ok(Arc::new(Threads::start(members, arena, config)?))
}

impl Threads {
    fn start(
        members: Vec<Option<MemberFile>>,
        arena: &Arena,
        config: DisksConfig,
    ) -> Result<Self, DiskError> {
        let count = members.len();
        let threads = match config.threads {
            0 => count.div_ceil(4).max(1),
            threads => threads.min(count.max(1)),
        };
        let price =
            |member: usize| config.prices.get(member).copied().unwrap_or(MeasuredPrice::from(PRICE_UNKNOWN));
        let shared = Arc::new(Shared {
            counters: (0..count).map(|_| Counters::default()).collect(),
            views: (0..count).map(|_| Mutex::default()).collect(),
            prices: (0..count).map(|member| Mutex::new(MemberPrice::of(price(member)))).collect(),
            activities: (0..count)
                .map(|member| ActivityTracker::new(price(member).price.is_rotational(), now_ns()))
                .map(Mutex::new)
                .collect(),
            classes: RwLock::new(Arc::new(config.classes.clone())),
            cpu_ns: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        });
        let mut by_thread: Vec<BTreeMap<usize, Driven>> = (0..threads).map(|_| BTreeMap::new()).collect();
        let present = members.iter().map(|file| AtomicBool::new(file.is_some())).collect();
        for (number, file) in members.into_iter().enumerate() {
            let Some(file) = file else { continue };
            let mut member = Driven::new(&file, config.scheduler(price(number).price), price(number));
            // The classes are visible before the first request.
            member.show(number, &shared, now_ns());
            by_thread[number % threads].insert(number, member);
        }
        let handles = spawn_all(by_thread, arena, &shared, &config)?;
        let mailboxes = handles.iter().map(CoreHandle::mailbox).collect();
        let thread_of = (0..count).map(|number| number % threads).collect();
        Ok(Self { thread_of, present, mailboxes, shared, threads: Mutex::new(handles) })
    }

    /// The job and its thread, if the request makes sense; otherwise it is answered here.
    fn admit(&self, request: DiskRequest) -> Option<(usize, Box<Job>)> {
        let job = Box::new(Job::new(request));
        if let Err(error) = job.check() {
            job.answer(Err(error));
            return None;
        }
        let member = job.member;
        if !self.is_present(member) {
            job.answer(Err(DiskError::Absent { member }));
            return None;
        }
        Some((self.thread_of[member], job))
    }
}

impl DiskBackend for Threads {
    fn submit_all(&self, requests: &mut dyn Iterator<Item = DiskRequest>) {
        let mut by_thread: Vec<Vec<DiskMessage>> = self.mailboxes.iter().map(|_| Vec::new()).collect();
        for request in requests {
            if let Some((thread, job)) = self.admit(request) {
                by_thread[thread].push(DiskMessage::Job(job));
            }
        }
        for (mailbox, messages) in self.mailboxes.iter().zip(by_thread) {
            if let Err(messages) = mailbox.send_all(messages) {
                messages.into_iter().for_each(DiskMessage::refuse);
            }
        }
    }

    fn promote(&self, member: usize, request: RequestId, class: Class, deadline_ns: u64) {
        if let Some(&thread) = self.thread_of.get(member) {
            self.mailboxes[thread].post(DiskMessage::Promote { member, request, class, deadline_ns });
        }
    }

    fn withdraw(&self, member: usize, request: RequestId) {
        if let Some(&thread) = self.thread_of.get(member) {
            self.mailboxes[thread].post(DiskMessage::Withdraw { member, request });
        }
    }

    fn members(&self) -> usize {
        self.thread_of.len()
    }

    fn is_present(&self, member: usize) -> bool {
        self.present.get(member).is_some_and(|is| is.load(Ordering::Acquire))
    }

    fn activity(&self, member: usize) -> MemberActivity {
        let tracker = self.shared.activities.get(member);
        tracker.map_or(MemberActivity::Active, |tracker| lock(tracker).activity(now_ns()))
    }

    fn stats(&self) -> Vec<MemberStats> {
        let snapshot = |(member, counters): (usize, &Counters)| {
            counters.snapshot(self.is_present(member), self.activity(member))
        };
        self.shared.counters.iter().enumerate().map(snapshot).collect()
    }

    fn views(&self) -> Vec<SchedulerView> {
        self.shared.views.iter().map(|view| lock(view).clone()).collect()
    }

    fn classes(&self) -> Arc<ClassTable> {
        Arc::clone(&self.shared.classes.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_classes(&self, classes: Arc<ClassTable>) {
        // The lock is held meanwhile. So if two callers change the classes at once, all threads get
        // the two changes in the order in which they are stored here.
        let mut place = self.shared.classes.write().unwrap_or_else(PoisonError::into_inner);
        for mailbox in &self.mailboxes {
            mailbox.post(DiskMessage::Classes(Arc::clone(&classes)));
        }
        *place = classes;
    }

    fn price(&self, member: usize) -> DiskPrice {
        self.shared.prices.get(member).map_or(PRICE_UNKNOWN, |price| lock(price).now)
    }

    fn measured_price(&self, member: usize) -> MeasuredPrice {
        let unknown = MeasuredPrice::from(PRICE_UNKNOWN);
        self.shared.prices.get(member).map_or(unknown, |price| lock(price).measured)
    }

    fn set_price(&self, member: usize, price: MeasuredPrice) {
        if let (Some(place), Some(&thread)) = (self.shared.prices.get(member), self.thread_of.get(member)) {
            *lock(place) = MemberPrice::of(price);
            lock(&self.shared.activities[member]).set_may_sleep(price.price.is_rotational());
            self.mailboxes[thread].post(DiskMessage::Price { member, price });
        }
    }

    fn replace(&self, member: usize, file: MemberFile) -> Result<(), DiskError> {
        let Some(&thread) = self.thread_of.get(member) else { return Err(DiskError::Absent { member }) };
        match self.mailboxes[thread].send(DiskMessage::Replace { member, file: Box::new(file) }) {
            Ok(()) => {
                // Messages keep their order: what is submitted from here on finds the new file.
                self.present[member].store(true, Ordering::Release);
                Ok(())
            }
            Err(_) => Err(DiskError::Stopped),
        }
    }

    fn cpu_ns(&self) -> u64 {
        self.shared.cpu_ns.iter().map(|ns| ns.load(Ordering::Relaxed)).sum()
    }

    fn is_whole(&self) -> bool {
        !self.mailboxes.iter().any(Mailbox::is_closed)
    }

    fn stop(&self) -> Result<(), DiskError> {
        // Taken out first: a reply that drops the last clone, or calls `stop` again, must not find
        // the lock held.
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads.iter().for_each(CoreHandle::stop);
        let mut result = Ok(());
        for thread in threads {
            // A reply may drop the last clone on a disk thread, which cannot wait for itself.
            if !thread.is_current()
                && let Err(error) = thread.join()
            {
                tracing::error!(%error, "a disk thread ended with an error");
                result = Err(thread_error(error));
            }
        }
        result
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // The error is in the log; a drop cannot return it.
        let _ = self.stop();
    }
}

/// A thread for each group of members. If one does not start, the handles of the others stop them.
fn spawn_all(
    by_thread: Vec<BTreeMap<usize, Driven>>,
    arena: &Arena,
    shared: &Arc<Shared>,
    config: &DisksConfig,
) -> Result<Vec<CoreHandle<DiskMessage>>, DiskError> {
    let spawn = |(number, members): (usize, BTreeMap<usize, Driven>)| {
        let core = CoreConfig {
            name: format!("reel-disk-{number}"),
            cpu: config.cpus.get(number % config.cpus.len().max(1)).copied(),
            ring: RingConfig { entries: RING_ENTRIES, driver: config.driver },
            arena: Some(arena.clone()),
        };
        let thread = {
            let (shared, config) = (Arc::clone(shared), config.clone());
            move || DiskThread::new(number, members, shared, config)
        };
        #[cfg(feature = "faults")]
        if let Some(faults) = config.faults.clone() {
            return reel_rt::spawn(core, move |_: &mut Core, _| FaultyThread::new(thread(), faults));
        }
        reel_rt::spawn(core, move |_: &mut Core, _| thread())
    };
    by_thread.into_iter().enumerate().map(spawn).map(|handle| handle.map_err(thread_error)).collect()
}

fn thread_error(error: RtError) -> DiskError {
    DiskError::Thread(Arc::new(error))
}
