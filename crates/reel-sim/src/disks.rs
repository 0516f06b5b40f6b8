//! The members of a volume as simulated disks: the [`DiskBackend`] of a simulation.

use crate::device::Device;
use crate::fault::FaultSpan;
use crate::journal::{Journal, JournalEvent};
use crate::limits::CHUNK_UNITS;
use crate::medium::Medium;
use crate::member::{Answer, Member};
use crate::stored_titles::StoredTitles;
use reel_disk::limits::PRICE_UNKNOWN;
use reel_disk::{
    DiskBackend, DiskDone, DiskError, DiskRequest, DisksConfig, MeasuredPrice, MemberActivity, MemberFile,
    MemberStats, RequestId, SchedulerView,
};
use reel_qos::{Class, ClassTable, DiskPrice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All members, and the time.
pub struct SimDisks {
    inner: Mutex<Inner>,
}

struct Inner {
    now_ns: u64,
    members: Vec<Member>,
    stored: Arc<StoredTitles>,
    classes: Arc<ClassTable>,
    journal: Journal,
}

impl SimDisks {
    /// A scheduler as `config` wants it before each of `devices`, which hold `media` and are of
    /// `device_units`. Prices are of simulated bytes.
    pub(crate) fn new(
        devices: Vec<Box<dyn Device>>,
        config: &DisksConfig,
        (media, units, device_units): (Vec<Medium>, u64, u64),
        stored: Arc<StoredTitles>,
        now_ns: u64,
    ) -> SimDisks {
        // One more for superblocks and catalogues.
        let chunks = units.div_ceil(CHUNK_UNITS) + 1;
        let spread = (device_units / (chunks * CHUNK_UNITS)).max(1);
        let prices: Vec<MeasuredPrice> = (0..devices.len())
            .map(|member| config.prices.get(member).copied().unwrap_or(PRICE_UNKNOWN.into()))
            .collect();
        let members = devices.into_iter().zip(&prices).zip(media).enumerate();
        let members = members
            .map(|(number, ((device, price), medium))| {
                Member::new(
                    number,
                    config.policy.scheduler(&config.classes, price.price, config.depth),
                    *price,
                    device,
                    (medium, spread),
                )
            })
            .collect();
        let classes = Arc::new(config.classes.clone());
        let journal = Journal::default();
        let inner = Inner { now_ns, members, stored, classes, journal };
        SimDisks { inner: Mutex::new(inner) }
    }

    /// When something happens next.
    pub fn next_ns(&self) -> Option<u64> {
        self.lock().members.iter().filter_map(Member::next_ns).min()
    }

    /// It is now that late; what has ended is answered.
    ///
    /// # Errors
    /// A broken invariant: a request is answered twice, or bytes on a member are not what belongs
    /// there.
    pub fn advance(&self, now_ns: u64) -> Result<(), String> {
        let mut answers = Vec::new();
        {
            let mut inner = self.lock();
            let Inner { members, stored, journal, now_ns: clock_ns, .. } = &mut *inner;
            *clock_ns = now_ns;
            for member in members.iter_mut() {
                while member.next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                    answers.extend(member.advance(now_ns, stored, journal)?);
                }
            }
        }
        answers.into_iter().for_each(|(reply, done)| reply.deliver(done));
        Ok(())
    }

    /// Gives the devices what their schedulers let them have: what a disk thread does once per
    /// turn.
    ///
    /// # Errors
    /// A broken invariant: a start waited for longer than its bound, or a device is idle while
    /// requests wait for it.
    pub fn turn(&self) -> Result<(), String> {
        let mut inner = self.lock();
        let Inner { members, journal, now_ns, .. } = &mut *inner;
        members.iter_mut().try_for_each(|member| member.turn(*now_ns, journal))
    }

    /// From here on everything takes a member so many thousandths of what it took when it was
    /// measured.
    pub fn drift(&self, member: usize, permille: u64) {
        if let Some(member) = self.lock().members.get_mut(member) {
            member.drift(permille);
        }
    }

    /// How a member has drifted, in thousandths.
    pub fn drift_permille(&self, member: usize) -> u64 {
        self.lock().members.get(member).map_or(1000, Member::drift_permille)
    }

    /// Changes what is wrong with a member.
    pub fn set_fault(&self, member: usize, fault: Option<FaultSpan>) {
        let mut inner = self.lock();
        let Inner { members, journal, now_ns, .. } = &mut *inner;
        let Some(target) = members.get_mut(member) else { return };
        if let Some(span) = fault.or(target.fault()) {
            let happened = JournalEvent::Fault {
                member: member as u32,
                code: span.fault.code(),
                began: fault.is_some(),
            };
            journal.note(*now_ns, happened);
        }
        target.set_fault(fault, *now_ns);
    }

    /// The files of members that a volume has opened.
    pub(crate) fn opened(&self, files: Vec<Option<MemberFile>>) {
        let mut inner = self.lock();
        for (member, file) in inner.members.iter_mut().zip(files) {
            if let Some(file) = file {
                member.medium.opened(file);
            }
        }
    }

    /// Inspects what a member holds.
    pub(crate) fn with_medium<T>(
        &self,
        member: usize,
        inspect: impl FnOnce(&Medium, &StoredTitles) -> T,
    ) -> Option<T> {
        let inner = self.lock();
        Some(inspect(&inner.members.get(member)?.medium, &inner.stored))
    }

    /// Units of titles that a member lacks.
    pub fn blank_units(&self, member: usize) -> usize {
        self.with_medium(member, |medium, _| medium.blank_units()).unwrap_or_default()
    }

    /// Units of titles that have gone bad on a member.
    pub fn rotten_units(&self, member: usize) -> usize {
        self.with_medium(member, Medium::rotten_units).unwrap_or_default()
    }

    /// A request that waits longer than any request should.
    pub fn starved(&self) -> Option<String> {
        let inner = self.lock();
        inner.members.iter().find_map(|member| member.starved(inner.now_ns))
    }

    /// A round has ended; a class that wanted its share of a member and did not get it.
    pub fn round_ended(&self) -> Option<String> {
        let mut inner = self.lock();
        let Inner { members, classes, now_ns, .. } = &mut *inner;
        members.iter_mut().filter_map(|member| member.round_ended(classes, *now_ns)).last()
    }

    /// Times that a class wanted its share for long enough to be looked at.
    pub fn shares_looked_at(&self) -> u64 {
        self.lock().members.iter().map(Member::shares_looked_at).sum()
    }

    /// Times that disks spun up.
    pub fn woken(&self) -> u64 {
        self.lock().members.iter().map(|member| member.woken).sum()
    }

    /// Requests that have not been answered.
    pub fn unanswered(&self) -> usize {
        self.lock().members.iter().map(Member::unanswered).sum()
    }

    /// What happened so far.
    pub fn journal(&self) -> Journal {
        self.lock().journal.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // One thread only; a panic ends the run anyway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take(&mut self, request: DiskRequest) -> Option<Answer> {
        let number = request.member;
        match self.members.get_mut(number) {
            Some(member) => member.take(request, self.now_ns, &mut self.journal),
            None => {
                let DiskRequest { token, reply, .. } = request;
                let result = Err(DiskError::Absent { member: number });
                Some((
                    reply,
                    DiskDone { token, member: number, result, buffer: None, queued_ns: 0, device_ns: 0 },
                ))
            }
        }
    }
}

impl DiskBackend for SimDisks {
    fn submit_all(&self, requests: &mut dyn Iterator<Item = DiskRequest>) {
        for request in requests {
            let answer = self.lock().take(request);
            if let Some((reply, done)) = answer {
                reply.deliver(done);
            }
        }
    }

    fn promote(&self, member: usize, request: RequestId, class: Class, deadline_ns: u64) {
        let mut inner = self.lock();
        let now_ns = inner.now_ns;
        if let Some(member) = inner.members.get_mut(member) {
            member.promote(request, (class, deadline_ns), now_ns);
        }
    }

    fn withdraw(&self, member: usize, request: RequestId) {
        let answer = {
            let mut inner = self.lock();
            let Inner { members, journal, now_ns, .. } = &mut *inner;
            members.get_mut(member).and_then(|member| member.withdraw(request, *now_ns, journal))
        };
        if let Some((reply, done)) = answer {
            reply.deliver(done);
        }
    }

    fn members(&self) -> usize {
        self.lock().members.len()
    }

    fn is_present(&self, member: usize) -> bool {
        member < self.members()
    }

    fn activity(&self, member: usize) -> MemberActivity {
        let inner = self.lock();
        let member = inner.members.get(member);
        member.map_or(MemberActivity::Active, |member| member.activity(inner.now_ns))
    }

    fn stats(&self) -> Vec<MemberStats> {
        let inner = self.lock();
        inner.members.iter().map(|member| member.stats(inner.now_ns)).collect()
    }

    fn views(&self) -> Vec<SchedulerView> {
        let inner = self.lock();
        inner.members.iter().map(|member| member.scheduler.view(inner.now_ns)).collect()
    }

    fn classes(&self) -> Arc<ClassTable> {
        Arc::clone(&self.lock().classes)
    }

    fn set_classes(&self, classes: Arc<ClassTable>) {
        let mut inner = self.lock();
        let now_ns = inner.now_ns;
        inner.members.iter_mut().for_each(|member| member.set_classes(&classes, now_ns));
        inner.classes = classes;
    }

    fn price(&self, member: usize) -> DiskPrice {
        self.lock().members.get(member).map_or(PRICE_UNKNOWN, Member::price)
    }

    fn measured_price(&self, member: usize) -> MeasuredPrice {
        self.lock().members.get(member).map_or(PRICE_UNKNOWN.into(), Member::measured_price)
    }

    fn set_price(&self, member: usize, price: MeasuredPrice) {
        if let Some(member) = self.lock().members.get_mut(member) {
            member.set_price(price);
        }
    }

    /// A new disk that holds nothing, but for what is in its file.
    fn replace(&self, member: usize, file: MemberFile) -> Result<(), DiskError> {
        let mut inner = self.lock();
        let Inner { members, stored, .. } = &mut *inner;
        let target = members.get_mut(member).ok_or(DiskError::Absent { member })?;
        let mut medium = target.medium.replacement(file.path(), stored);
        medium.opened(file);
        target.replace(medium);
        Ok(())
    }

    /// What is under way is answered, as by threads that end.
    fn stop(&self) -> Result<(), DiskError> {
        Ok(())
    }
}
