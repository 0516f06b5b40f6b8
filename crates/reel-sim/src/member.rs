//! One simulated member: the real scheduler before a model of a device, and what is wrong with it.

use crate::content::Unit;
use crate::device::{Device, Transfer};
use crate::fault::{Fault, FaultSpan};
use crate::journal::{Journal, JournalEvent};
use crate::limits::{CHUNK_UNITS, SHARE_ROUNDS, STARVATION_NS, SYNC_NS};
use crate::medium::Medium;
use crate::scale::{MEMBER_SCALE, UNIT_BYTES};
use crate::shares::Shares;
use crate::start_waits::{StartWait, StartWaits};
use crate::stored_titles::StoredTitles;
use reel_arena::{Buffer, Lease};
use reel_disk::{
    ActivityTracker, DiskDone, DiskError, DiskRequest, DiskWork, MeasuredPrice, MemberActivity, MemberStats,
    PriceCorrection, Queued, Reply, RequestId, Scheduler,
};
use reel_qos::limits::ROUND_NS;
use reel_qos::{Class, ClassTable, DEADLINE_NONE_NS, DiskPrice};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

/// A member.
pub(crate) struct Member {
    number: usize,
    pub(crate) scheduler: Box<dyn Scheduler>,
    device: Box<dyn Device>,
    jobs: Vec<Option<Job>>,
    free: Vec<u32>,
    /// Requests wait that the device may be able to take.
    wants_turn: bool,
    /// The device has nothing to do until then, though requests wait: its scheduler expects
    /// another.
    kept_until_ns: Option<u64>,
    /// Given to the device while it stalls.
    parked: Vec<(u32, Transfer)>,
    /// Answers held back: errors that take their time.
    held: BinaryHeap<Reverse<(u64, u32)>>,
    fault: Option<FaultSpan>,
    pub(crate) medium: Medium,
    /// Disks that it has had.
    life: u32,
    /// How much farther apart chunks of the volume lie on the device.
    spread: u64,
    pub(crate) stats: MemberStats,
    correction: PriceCorrection,
    /// What everything takes without a fault, in thousandths of what it took when the device was
    /// measured.
    drift_permille: u64,
    shares: Shares,
    start_waits: StartWaits,
    /// When it answered last.
    answered_ns: u64,
    activity: ActivityTracker,
    /// When its disk spun up last.
    woke_ns: u64,
    pub(crate) woken: u64,
}

/// An answer on its way.
pub(crate) type Answer = (Arc<dyn Reply>, DiskDone);

struct Job {
    name: RequestId,
    token: u64,
    class: Class,
    deadline_ns: u64,
    reply: Arc<dyn Reply>,
    work: Work,
    offset: u64,
    bytes: usize,
    queued_ns: u64,
    started_ns: u64,
    life: u32,
    start_wait: Option<StartWait>,
    result: Option<Result<(), DiskError>>,
}

enum Work {
    Read(Buffer),
    Write(Lease),
    /// What had been written when it was asked for.
    Sync(u64),
}

/// The errors that Linux gives for a sector that cannot be read and for a device that is gone.
const EIO: i32 = 5;
const ENODEV: i32 = 19;

/// What a request that fails at once takes all the same: the way to the controller and back.
const REFUSAL_NS: u64 = 200_000;

impl Member {
    pub(crate) fn new(
        number: usize,
        scheduler: Box<dyn Scheduler>,
        price: MeasuredPrice,
        device: Box<dyn Device>,
        (medium, spread): (Medium, u64),
    ) -> Member {
        Member {
            number,
            scheduler,
            device,
            jobs: Vec::new(),
            free: Vec::new(),
            wants_turn: false,
            kept_until_ns: None,
            parked: Vec::new(),
            held: BinaryHeap::new(),
            fault: None,
            medium,
            life: 0,
            spread,
            stats: MemberStats { present: true, ..MemberStats::default() },
            correction: PriceCorrection::new(price),
            drift_permille: 1000,
            shares: Shares::default(),
            start_waits: StartWaits::new(&ClassTable::default()),
            answered_ns: 0,
            // It has had no request yet.
            activity: ActivityTracker::new(price.price.is_rotational(), 0),
            woke_ns: 0,
            woken: 0,
        }
    }

    /// Takes a request; the answer, if it has one at once.
    pub(crate) fn take(
        &mut self,
        request: DiskRequest,
        now_ns: u64,
        journal: &mut Journal,
    ) -> Option<Answer> {
        let DiskRequest { id: name, member, class, requester, deadline_ns, work, token, reply } = request;
        let (work, offset, bytes) = match work {
            DiskWork::Read { offset, bytes, buffer } => (Work::Read(buffer), offset, bytes),
            DiskWork::Write { offset, lease } => {
                let bytes = lease.len();
                (Work::Write(lease), offset, bytes)
            }
            DiskWork::Sync => (Work::Sync(self.medium.written()), 0, 0),
        };
        let id = self.free.pop().unwrap_or(self.jobs.len() as u32);
        let (write, sync) = (matches!(work, Work::Write(_)), matches!(work, Work::Sync(_)));
        let queued_ns = now_ns;
        let job = Job {
            name,
            token,
            class,
            deadline_ns,
            reply,
            work,
            offset,
            bytes,
            queued_ns,
            // Nothing orders a sync: it goes to the device at once.
            started_ns: if sync { now_ns } else { 0 },
            life: self.life,
            start_wait: self.start_waits.asked(class, deadline_ns, now_ns),
            result: None,
        };
        match self.jobs.get_mut(id as usize) {
            Some(place) => *place = Some(job),
            None => self.jobs.push(Some(job)),
        }
        let (number, class_number) = (member as u32, class.index() as u32);
        journal.note(
            now_ns,
            JournalEvent::Asked { member: number, job: id, class: class_number, offset, deadline_ns },
        );
        if sync {
            self.activity.begun(now_ns);
            self.stats.syncs += 1;
            self.held.push(Reverse((now_ns + SYNC_NS, id)));
            return None;
        }
        self.scheduler
            .push(Queued { id: u64::from(id), class, requester, deadline_ns, offset, bytes, write }, now_ns);
        self.shares.queued(class, now_ns);
        self.stats.queued += 1;
        self.wants_turn = true;
        None
    }

    /// Gives the device what its scheduler lets it have. The error is a broken invariant: a device
    /// without work while requests wait.
    pub(crate) fn turn(&mut self, now_ns: u64, journal: &mut Journal) -> Result<(), String> {
        if !std::mem::take(&mut self.wants_turn) {
            return Ok(());
        }
        while let Some(next) = self.scheduler.pop(now_ns) {
            self.correction.begun(next.offset, next.bytes as u64, next.write, now_ns);
            // A scheduler gives back what it was given.
            let id = next.id as u32;
            let Some(job) = self.jobs.get_mut(id as usize).and_then(Option::as_mut) else { continue };
            job.started_ns = now_ns;
            self.activity.begun(now_ns);
            self.stats.queued -= 1;
            self.stats.in_device += 1;
            journal.note(now_ns, JournalEvent::Started { member: self.number as u32, job: id });
            // What waits for a disk that spins up waits for no other request.
            let waits = self.fault.is_none() && job.queued_ns > self.woke_ns;
            let left = job.start_wait.filter(|_| waits);
            if let Some((waited_ns, took_ns)) = left.and_then(|of| self.start_waits.left(of, now_ns)) {
                return Err(format!(
                    "a beginning waited {} ms for member {} while others took {} ms of it",
                    waited_ns / 1_000_000,
                    self.number,
                    took_ns / 1_000_000
                ));
            }
            let (offset, bytes) = (place(job.offset, self.spread), job.bytes as u64 * MEMBER_SCALE);
            let transfer = Transfer { offset, bytes, write: matches!(job.work, Work::Write(_)) };
            self.shares.left(job.class);
            match self.fault {
                Some(FaultSpan { fault: Fault::Pulled, .. }) => {
                    self.held.push(Reverse((now_ns + REFUSAL_NS, id)))
                }
                Some(FaultSpan { fault: Fault::Stall, .. }) => self.parked.push((id, transfer)),
                _ => self.device.push(id, transfer, now_ns),
            }
        }
        self.kept_until_ns = self.scheduler.kept_until_ns();
        let is_kept = self.kept_until_ns.is_some();
        self.correction.filled(!self.scheduler.is_empty() && !is_kept, now_ns);
        if self.stats.in_device == 0 && !self.scheduler.is_empty() && !is_kept {
            let (number, queued) = (self.number, self.stats.queued);
            return Err(format!("member {number} has nothing to do while {queued} requests wait for it"));
        }
        Ok(())
    }

    /// When something happens here next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let held_ns = self.held.peek().map(|Reverse((at_ns, _))| *at_ns);
        let device_ns = match self.fault {
            // The simulation ends the stall; nothing ends before.
            Some(FaultSpan { fault: Fault::Stall, .. }) => None,
            _ => self.device.next_ns(),
        };
        [held_ns, device_ns, self.kept_until_ns].into_iter().flatten().min()
    }

    /// Something that has ended by now.
    pub(crate) fn advance(
        &mut self,
        now_ns: u64,
        stored: &StoredTitles,
        journal: &mut Journal,
    ) -> Result<Option<Answer>, String> {
        if self.kept_until_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.kept_until_ns = None;
            self.wants_turn = true;
            return Ok(None);
        }
        if let Some(Reverse((at_ns, id))) = self.held.peek().copied()
            && at_ns <= now_ns
        {
            self.held.pop();
            if let Some(FaultSpan { fault: Fault::Stall, until_ns, .. }) = self.fault
                && until_ns > now_ns
            {
                self.held.push(Reverse((until_ns, id)));
                return Ok(None);
            }
            return self.end(id, now_ns, stored, journal).map(Some);
        }
        if matches!(self.fault, Some(FaultSpan { fault: Fault::Stall, .. })) {
            return Ok(None);
        }
        let Some(id) = self.device.pop(now_ns) else { return Ok(None) };
        if let Some(span) = &self.fault
            && let Fault::ReadErrors { recovery_ns, .. } = span.fault
            && let Some(job) = self.jobs.get_mut(id as usize).and_then(Option::as_mut)
            && matches!(job.work, Work::Read(_))
            && span.fault.meets(span, job.offset / UNIT_BYTES as u64)
        {
            job.result = Some(Err(failed(self.number, job, "read", EIO)));
            self.held.push(Reverse((now_ns + recovery_ns, id)));
            return Ok(None);
        }
        self.end(id, now_ns, stored, journal).map(Some)
    }

    /// A fault begins, or the one that is ends.
    pub(crate) fn set_fault(&mut self, fault: Option<FaultSpan>, now_ns: u64) {
        match fault.map(|span| span.fault) {
            Some(Fault::Slow(permille)) => self.device.set_slowness(self.drift_permille * permille / 1000),
            Some(Fault::Rot(_)) => self.medium.rot(fault),
            Some(_) => {}
            None => {
                self.medium.rot(None);
                self.device.set_slowness(self.drift_permille);
                for (id, transfer) in std::mem::take(&mut self.parked) {
                    self.device.push(id, transfer, now_ns);
                }
            }
        }
        self.fault = fault;
        self.wants_turn = true;
    }

    /// From here on everything takes so many thousandths of what it took when the device was
    /// measured.
    pub(crate) fn drift(&mut self, permille: u64) {
        self.drift_permille = permille;
        let slowness = match self.fault.map(|span| span.fault) {
            Some(Fault::Slow(fault)) => permille * fault / 1000,
            _ => permille,
        };
        self.device.set_slowness(slowness);
    }

    /// How its device has drifted, in thousandths.
    pub(crate) fn drift_permille(&self) -> u64 {
        self.drift_permille
    }

    /// What is wrong with it now.
    pub(crate) fn fault(&self) -> Option<FaultSpan> {
        self.fault
    }

    /// A new disk in its place, of which nothing is known. What is under way on the old one ends
    /// there.
    pub(crate) fn replace(&mut self, medium: Medium) {
        self.medium = medium;
        self.life += 1;
        self.set_price(MeasuredPrice::from(self.correction.given().price));
    }

    /// Whether it answers.
    pub(crate) fn activity(&self, now_ns: u64) -> MemberActivity {
        self.activity.activity(now_ns)
    }

    /// What it did so far.
    pub(crate) fn stats(&self, now_ns: u64) -> MemberStats {
        MemberStats { activity: self.activity(now_ns), ..self.stats.clone() }
    }

    /// Requests that have not been answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// This request is more urgent from now on.
    pub(crate) fn promote(&mut self, request: RequestId, (class, deadline_ns): (Class, u64), now_ns: u64) {
        if let Some(id) = self.named(request)
            && let Some(job) = &mut self.jobs[id]
        {
            job.deadline_ns = job.deadline_ns.min(deadline_ns);
            let begins = self.start_waits.asked(job.class.min(class), job.deadline_ns, now_ns);
            job.start_wait = begins.map(|begins| job.start_wait.unwrap_or(begins));
            if class < job.class {
                self.shares.left(job.class);
                self.shares.queued(class, now_ns);
                job.class = class;
            }
            self.scheduler.promote(id as u64, class, deadline_ns);
            self.wants_turn = true;
        }
    }

    /// This request is not needed any more: its answer, if it has not gone to the device.
    pub(crate) fn withdraw(
        &mut self,
        request: RequestId,
        now_ns: u64,
        journal: &mut Journal,
    ) -> Option<Answer> {
        let id = self.named(request)?;
        if !self.scheduler.withdraw(id as u64) {
            return None;
        }
        let job = self.jobs[id].take()?;
        self.free.push(id as u32);
        self.shares.left(job.class);
        self.stats.queued -= 1;
        journal.note(now_ns, JournalEvent::Withdrawn { member: self.number as u32, job: id as u32 });
        let buffer = match job.work {
            Work::Read(buffer) => Some(buffer),
            Work::Write(_) | Work::Sync(_) => None,
        };
        let result = Err(DiskError::Withdrawn);
        let (token, member) = (job.token, self.number);
        let done = DiskDone { token, member, result, buffer, queued_ns: 0, device_ns: 0 };
        Some((job.reply, done))
    }

    /// The place of a request that has not gone to the device.
    fn named(&self, request: RequestId) -> Option<usize> {
        let same = |job: &Job| job.name == request && job.started_ns == 0;
        self.jobs.iter().position(|job| job.as_ref().is_some_and(same))
    }

    /// A round has ended; a class that did not get its share.
    pub(crate) fn round_ended(&mut self, classes: &ClassTable, now_ns: u64) -> Option<String> {
        if self.fault.is_some() || self.activity(now_ns).may_sleep() {
            self.shares.forget(now_ns);
            self.start_waits.forget(classes, now_ns);
        }
        let window_ns = SHARE_ROUNDS as u64 * ROUND_NS;
        let (class, permille, due) = self.shares.round_ended(classes, now_ns.saturating_sub(window_ns))?;
        let (number, name) = (self.number, &classes.spec(class).name);
        Some(format!(
            "member {number} gave {permille} thousandths of its time to class {name}, which had a right to {due}"
        ))
    }

    /// Times that a class wanted its share for long enough to be looked at.
    pub(crate) fn shares_looked_at(&self) -> u64 {
        self.shares.checks
    }

    /// A price from outside: what was learnt about the one before is forgotten.
    pub(crate) fn set_price(&mut self, price: MeasuredPrice) {
        self.correction.restart(price);
        self.scheduler.set_price(price.price);
    }

    /// The price that it was given.
    pub(crate) fn measured_price(&self) -> MeasuredPrice {
        self.correction.given()
    }

    /// The price that its scheduler counts with.
    pub(crate) fn price(&self) -> DiskPrice {
        self.correction.price()
    }

    /// Classes have other shares from here on.
    pub(crate) fn set_classes(&mut self, classes: &ClassTable, now_ns: u64) {
        self.scheduler.set_classes(classes);
        self.shares.forget(now_ns);
        self.start_waits.forget(classes, now_ns);
        self.wants_turn = true;
    }

    /// A request that waits longer than any request should.
    pub(crate) fn starved(&self, now_ns: u64) -> Option<String> {
        let since = self.fault.map_or(0, |span| span.from_ns);
        let starved = |job: &&Job| is_starved(job, now_ns) && since + STARVATION_NS < now_ns;
        let job = self.jobs.iter().flatten().find(starved)?;
        Some(self.starvation(job, now_ns))
    }

    fn end(
        &mut self,
        id: u32,
        now_ns: u64,
        stored: &StoredTitles,
        journal: &mut Journal,
    ) -> Result<Answer, String> {
        let Some(mut job) = self.jobs.get_mut(id as usize).and_then(Option::take) else {
            return Err(format!("member {} answered request {id} twice", self.number));
        };
        self.free.push(id);
        if self.activity.answered(now_ns) {
            self.correction.woke(now_ns);
            self.woke_ns = now_ns;
            self.woken += 1;
        }
        let device_ns = now_ns - job.started_ns;
        let pulled = matches!(self.fault, Some(FaultSpan { fault: Fault::Pulled, .. }));
        if !matches!(job.work, Work::Sync(_)) {
            self.left_device(u64::from(id), &job, now_ns, pulled || matches!(job.result, Some(Err(_))));
        }
        let result = match job.result.take() {
            Some(result) => result,
            None if pulled => Err(failed(self.number, &job, "reach", ENODEV)),
            None => self.carry_out(&mut job, stored)?,
        };
        match &result {
            Ok(()) => self.count(&job),
            Err(_) => self.stats.errors += 1,
        }
        let happened =
            JournalEvent::Answered { member: self.number as u32, job: id, well: result.is_ok(), device_ns };
        journal.note(now_ns, happened);
        let buffer = match job.work {
            Work::Read(buffer) => Some(buffer),
            Work::Write(_) | Work::Sync(_) => None,
        };
        let queued_ns = job.started_ns - job.queued_ns;
        Ok((
            job.reply,
            DiskDone { token: job.token, member: self.number, result, buffer, queued_ns, device_ns },
        ))
    }

    fn left_device(&mut self, id: u64, job: &Job, now_ns: u64, has_failed: bool) {
        self.scheduler.done(id, now_ns);
        let write = matches!(job.work, Work::Write(_));
        if has_failed {
            self.correction.failed(now_ns);
        } else if let Some(price) = self.correction.done(job.bytes as u64, write, now_ns) {
            self.scheduler.correct_price(price);
        }
        self.wants_turn = true;
        self.stats.in_device -= 1;
        self.stats.service_ns += now_ns - job.started_ns;
        let took_ns = now_ns - job.started_ns.max(self.answered_ns);
        self.shares.took(job.class, took_ns);
        if job.class == Class::INTERACTIVE {
            self.start_waits.took(job.start_wait.is_some(), job.started_ns - job.queued_ns, took_ns);
        }
        self.answered_ns = now_ns;
    }

    fn count(&mut self, job: &Job) {
        let bytes = job.bytes as u64;
        let (count, sum) = match job.work {
            Work::Read(_) => (&mut self.stats.reads, &mut self.stats.read_bytes),
            Work::Write(_) => (&mut self.stats.writes, &mut self.stats.written_bytes),
            Work::Sync(_) => return,
        };
        *count += 1;
        *sum += bytes;
        let class = &mut self.stats.classes[job.class.index()];
        class.requests += 1;
        class.bytes += bytes;
    }

    /// Moves the bytes. The error is a broken invariant: bytes were written that nothing should
    /// write.
    fn carry_out(&mut self, job: &mut Job, stored: &StoredTitles) -> Result<Result<(), DiskError>, String> {
        let old_disk = job.life != self.life;
        match &mut job.work {
            Work::Read(buffer) => {
                let target = &mut buffer[..job.bytes];
                if old_disk {
                    target.fill(0);
                } else {
                    self.medium.read(job.offset, target, Some(stored))?;
                    self.lie(job.offset, &mut buffer[..job.bytes]);
                }
            }
            Work::Write(lease) if !old_disk => self.medium.write(job.offset, lease, Some(stored))?,
            Work::Sync(written) if !old_disk => self.medium.sync(*written)?,
            Work::Write(_) | Work::Sync(_) => {}
        }
        Ok(Ok(()))
    }

    /// A member that returns wrong data changes a byte.
    fn lie(&self, offset: u64, bytes: &mut [u8]) {
        let Some(span) = self.fault.filter(|span| matches!(span.fault, Fault::Lies(_))) else { return };
        for (unit, bytes) in (offset / UNIT_BYTES as u64..).zip(bytes.chunks_mut(UNIT_BYTES)) {
            if span.fault.meets(&span, unit) {
                bytes[reel_testkit::mix(unit) as usize % size_of::<Unit>()] ^= 0x10;
            }
        }
    }

    fn starvation(&self, job: &Job, now_ns: u64) -> String {
        format!(
            "a request of class {} to member {} waits for {} s, {} s beyond its deadline",
            job.class.index(),
            self.number,
            (now_ns - job.queued_ns) / 1_000_000_000,
            if job.deadline_ns == DEADLINE_NONE_NS {
                0
            } else {
                now_ns.saturating_sub(job.deadline_ns) / 1_000_000_000
            }
        )
    }
}

/// Where on the device a byte of the volume lies, in real bytes.
fn place(offset: u64, spread: u64) -> u64 {
    let (chunk, within) = (CHUNK_UNITS * UNIT_BYTES as u64, offset % (CHUNK_UNITS * UNIT_BYTES as u64));
    (offset / chunk * chunk * spread + within) * MEMBER_SCALE
}

fn is_starved(job: &Job, now_ns: u64) -> bool {
    let due_ns = if job.deadline_ns == DEADLINE_NONE_NS { 0 } else { job.deadline_ns };
    now_ns > job.queued_ns.max(due_ns).saturating_add(STARVATION_NS)
}

fn failed(member: usize, job: &Job, what: &'static str, errno: i32) -> DiskError {
    let source = Arc::new(io::Error::from_raw_os_error(errno));
    DiskError::Failed { member, what, offset: job.offset, bytes: job.bytes, source }
}
