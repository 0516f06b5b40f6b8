//! Where the answers to one caller's requests arrive, and until when answers to writes are awaited.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use reel_disk::{DiskDone, DiskError, MemberActivity, Reply, RequestId, Requester};
use reel_qos::Class;

use crate::access::Access;
use crate::health::Health;
use crate::limits::{WRITE_LOOKS, WRITE_PATIENCE_MAX};
use crate::waits::{CooperativeWait, Waits};

/// Where the answers to one caller's requests arrive.
///
/// A write or sync that its member does not answer in time is given up: it is answered with
/// [`DiskError::Unanswered`], for which the caller drops the member
/// ([`crate::commit::write_failed`]). Its buffer stays with the disk thread. It may still be
/// carried out later. [`Health::begin_to_rebuild_unless_written`] says why that does no harm.
pub(crate) struct Answers {
    requester: Requester,
    /// How long after submission each request is due; no deadline if `None`.
    due_after_ns: Option<u64>,
    sender: Sender<(u64, DiskDone)>,
    receiver: Receiver<(u64, DiskDone)>,
    /// By number. An answer to any other number comes too late.
    outstanding: BTreeMap<u64, Outstanding>,
    next_number: u64,
    /// Outstanding requests, by member.
    waiting: Vec<usize>,
    /// Of the first request.
    access: Option<Access>,
}

struct Outstanding {
    member: usize,
    id: RequestId,
    since_ns: u64,
    /// Of a write or sync: the life of the member in which it was requested.
    life: Option<u32>,
    promoted: bool,
}

/// Takes the answer to one request.
struct Numbered {
    number: u64,
    life: Option<u32>,
    sender: Sender<(u64, DiskDone)>,
    health: Health,
    waits: Waits,
    /// In a simulation: what to notify of the answer, and the id of the caller.
    turns: Option<(Arc<dyn CooperativeWait>, u64)>,
}

/// What came of a wait for an answer that others may give as well.
pub(crate) enum Awaited {
    Answer(DiskDone),
    /// There was none in time.
    Silence,
    /// Nothing is outstanding, or nothing will come any more.
    Ended,
}

/// What came of a wait.
enum Received {
    Answer(u64, DiskDone),
    /// Nothing in time.
    Nothing,
    /// Nothing will come any more.
    Ended,
}

impl Answers {
    /// For a new caller.
    pub(crate) fn new() -> Answers {
        Self::to(Requester::new())
    }

    pub(crate) fn to(requester: Requester) -> Answers {
        let (sender, receiver) = channel();
        Answers {
            requester,
            due_after_ns: None,
            sender,
            receiver,
            outstanding: BTreeMap::new(),
            next_number: 0,
            waiting: Vec::new(),
            access: None,
        }
    }

    /// Requests submitted from now on are due `ns` after their submission.
    pub(crate) fn due_after(self, ns: u64) -> Answers {
        Answers { due_after_ns: Some(ns), ..self }
    }

    pub(crate) fn due_after_ns(&self) -> Option<u64> {
        self.due_after_ns
    }

    pub(crate) fn requester(&self) -> Requester {
        self.requester
    }

    /// Records a request that is about to be submitted. Returns where its answer goes.
    pub(crate) fn expect(
        &mut self,
        access: &Access,
        (member, id): (usize, RequestId),
        life: Option<u32>,
    ) -> Arc<dyn Reply> {
        let access = self.access.get_or_insert_with(|| access.clone());
        let number = self.next_number;
        self.next_number += 1;
        let since_ns = access.waits.now_ns();
        self.outstanding.insert(number, Outstanding { member, id, since_ns, life, promoted: false });
        if self.waiting.len() <= member {
            self.waiting.resize(member + 1, 0);
        }
        self.waiting[member] += 1;
        Arc::new(Numbered {
            number,
            life,
            sender: self.sender.clone(),
            health: access.health.clone(),
            waits: access.waits.clone(),
            turns: access.waits.turns().map(|turns| (Arc::clone(turns), turns.caller())),
        })
    }

    /// Outstanding requests.
    pub(crate) fn waiting(&self) -> usize {
        self.outstanding.len()
    }

    /// Outstanding requests of a member.
    pub(crate) fn waiting_for(&self, member: usize) -> usize {
        self.waiting.get(member).copied().unwrap_or(0)
    }

    /// Outstanding requests of the member that has the most of them.
    pub(crate) fn waiting_at_one(&self) -> usize {
        self.waiting.iter().copied().max().unwrap_or(0)
    }

    /// The next answer; `None` if no request is outstanding.
    pub(crate) fn next(&mut self) -> Option<DiskDone> {
        while !self.outstanding.is_empty() {
            match self.receive(self.next_look_ns()) {
                Received::Answer(number, done) => {
                    if self.take(number).is_some() {
                        return Some(done);
                    }
                }
                Received::Nothing => {
                    if let Some(done) = self.give_up_one() {
                        return Some(done);
                    }
                }
                Received::Ended => return None,
            }
        }
        None
    }

    /// The next answer, or silence until `until_ns` on the clock of deadlines.
    pub(crate) fn next_or_silence(&mut self, until_ns: u64) -> Awaited {
        while !self.outstanding.is_empty() {
            let look_ns = self.next_look_ns().map_or(until_ns, |look_ns| look_ns.min(until_ns));
            match self.receive(Some(look_ns)) {
                Received::Answer(number, done) => {
                    if self.take(number).is_some() {
                        return Awaited::Answer(done);
                    }
                }
                Received::Nothing => match self.give_up_one() {
                    Some(done) => return Awaited::Answer(done),
                    None if look_ns == until_ns => return Awaited::Silence,
                    None => {}
                },
                Received::Ended => return Awaited::Ended,
            }
        }
        Awaited::Ended
    }

    /// The next answer until a time of this clock; `None` if there is none by then, or if no
    /// request is outstanding.
    pub(crate) fn next_until(&mut self, until_ns: u64, now_ns: impl Fn() -> u64) -> Option<DiskDone> {
        while !self.outstanding.is_empty() {
            let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            let (number, done) = self.receiver.recv_timeout(left).ok()?;
            if self.take(number).is_some() {
                return Some(done);
            }
        }
        None
    }

    /// Gives up a write that its member has not answered in time, if there is one.
    pub(crate) fn give_up_one(&mut self) -> Option<DiskDone> {
        let access = self.access.as_ref()?;
        let now_ns = access.waits.now_ns();
        let mut overdue = None;
        for (&number, one) in &mut self.outstanding {
            let Some(due_ns) = one.overdue_at_ns(access) else { continue };
            if now_ns >= due_ns {
                overdue = Some(number);
                break;
            }
            if !one.promoted && now_ns >= one.since_ns + access.write_patience_ns / 2 {
                // It may only have waited for its turn. From now on it has no other to wait for.
                one.promoted = true;
                access.disks.promote(one.member, one.id, Class::INTERACTIVE, now_ns);
            }
        }
        let access = access.clone();
        let one = self.take(overdue?)?;
        // If it has not gone to the device, it must not go to a disk that replaces this one either.
        access.disks.withdraw(one.member, one.id);
        let waited_s = now_ns.saturating_sub(one.since_ns) / 1_000_000_000;
        let result = Err(DiskError::Unanswered { member: one.member, waited_s });
        let token = one.life.unwrap_or_default().into();
        Some(DiskDone { token, member: one.member, result, buffer: None, queued_ns: 0, device_ns: 0 })
    }

    /// When to look for writes that are not answered in time; `None` if there are only reads.
    fn next_look_ns(&self) -> Option<u64> {
        let access = self.access.as_ref()?;
        let due_ns = self.outstanding.values().filter_map(|one| one.overdue_at_ns(access)).min()?;
        Some(due_ns.min(access.waits.now_ns() + access.write_patience_ns / WRITE_LOOKS))
    }

    fn take(&mut self, number: u64) -> Option<Outstanding> {
        let one = self.outstanding.remove(&number)?;
        self.waiting[one.member] -= 1;
        Some(one)
    }

    /// Waits for any answer, at most until a time.
    fn receive(&self, until_ns: Option<u64>) -> Received {
        let Some(access) = &self.access else { return Received::Ended };
        let answer = |(number, done)| Received::Answer(number, done);
        while let Some(turns) = access.waits.turns() {
            match self.receiver.try_recv() {
                Ok(one) => return answer(one),
                Err(TryRecvError::Disconnected) => return Received::Ended,
                Err(TryRecvError::Empty) => {}
            }
            if until_ns.is_some_and(|until_ns| turns.now_ns() >= until_ns) {
                return Received::Nothing;
            }
            if !turns.wait(until_ns) {
                return Received::Ended;
            }
        }
        // The sender lives in `self`, and every request is answered even if its disk thread dies.
        let Some(until_ns) = until_ns else {
            return self.receiver.recv().map_or(Received::Ended, answer);
        };
        let left = Duration::from_nanos(until_ns.saturating_sub(access.waits.now_ns()));
        match self.receiver.recv_timeout(left) {
            Ok(one) => answer(one),
            Err(RecvTimeoutError::Timeout) => Received::Nothing,
            Err(RecvTimeoutError::Disconnected) => Received::Ended,
        }
    }
}

impl Outstanding {
    /// When it is given up; `None` for a read. A member that answers other writes has a queue, and
    /// gets more time, and so does one whose disk spins up. One that is out gets little, since
    /// nothing depends on its answer.
    fn overdue_at_ns(&self, access: &Access) -> Option<u64> {
        self.life?;
        let patience_ns = access.write_patience_ns;
        if !access.health.writable(self.member) {
            return Some(self.since_ns + patience_ns / WRITE_LOOKS);
        }
        let quiet_since_ns = self.since_ns.max(access.health.last_write_ns(self.member));
        let overdue_ns = (quiet_since_ns + patience_ns).min(self.since_ns + WRITE_PATIENCE_MAX * patience_ns);
        match access.disks.activity(self.member) {
            // That ends: a member that does not wake in time is silent.
            MemberActivity::Waking => Some(overdue_ns.max(access.waits.now_ns() + patience_ns / WRITE_LOOKS)),
            _ => Some(overdue_ns),
        }
    }
}

impl Reply for Numbered {
    fn deliver(&self, done: DiskDone) {
        self.health.answered(done.member);
        if self.life.is_some() {
            self.health.end_write(done.member, self.waits.now_ns());
        }
        // The caller may be gone; the buffer then returns to the arena.
        let _ = self.sender.send((self.number, done));
        if let Some((turns, caller)) = &self.turns {
            turns.notify(*caller);
        }
    }
}
