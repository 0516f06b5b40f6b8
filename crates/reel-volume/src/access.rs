//! Blocking access to the disks: the only path from the volume to the members for callers that may
//! wait.

use std::sync::Arc;

use reel_arena::{Arena, Buffer, Lease};
use reel_disk::{DiskDone, DiskError, DiskRequest, DiskWork, Disks, Reply, RequestId, Requester};
use reel_qos::{Class, DEADLINE_NONE_NS};

use crate::answers::Answers;
use crate::error::VolumeError;
use crate::health::Health;
use crate::limits::BUFFER_WAIT_MS;
use crate::owner::Ownership;
use crate::waits::Waits;

/// Observes every write and sync of a member, and its completion: a journal for crash tests, or a
/// trace.
pub trait WriteObserver: Send + Sync {
    /// A write is about to be submitted. Returns an id for it, which is passed to `done`.
    fn write(&self, member: usize, offset: u64, bytes: &[u8]) -> u64;
    /// A sync is about to be submitted.
    fn sync(&self, member: usize) -> u64;
    /// The write or sync was completed.
    fn done(&self, name: u64, succeeded: bool);
    /// From now on, writes to `member` go to the new disk. While the new disk was formatted, its
    /// writes were reported under number N, one after the last member.
    fn replaced(&self, _member: usize) {}
    /// `volume.toml` has been rewritten, in one step, and is durable.
    fn manifest(&self) {}
}

/// Submits requests and reports every write and sync to the observer.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) disks: Disks,
    /// Notified of every answer: a member that answers any request does not stall.
    pub(crate) health: Health,
    pub(crate) arena: Arena,
    pub(crate) observer: Option<Arc<dyn WriteObserver>>,
    pub(crate) waits: Waits,
    /// The right to write; `None` where no other host can be.
    pub(crate) ownership: Option<Ownership>,
    /// How long a member may leave writes unanswered.
    pub(crate) write_patience_ns: u64,
}

/// Bytes of a member, in whole blocks.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) member: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

/// The class of a read and the caller that it is accounted to.
#[derive(Clone, Copy)]
pub(crate) struct ReadContext {
    pub(crate) class: Class,
    pub(crate) requester: Requester,
}

struct Observed {
    observer: Arc<dyn WriteObserver>,
    name: u64,
    reply: Arc<dyn Reply>,
}

impl Access {
    /// Reads a span into the front of a buffer.
    pub(crate) fn read(&self, answers: &mut Answers, class: Class, token: u64, span: Span, buffer: Buffer) {
        let Span { member, offset, bytes } = span;
        self.submit(answers, class, token, member, DiskWork::Read { offset, bytes, buffer });
    }

    /// Writes all of a lease. The token of the answer is the life of the member, see
    /// [`Health::drop_member`].
    pub(crate) fn write(
        &self,
        answers: &mut Answers,
        class: Class,
        (member, offset): (usize, u64),
        lease: Lease,
    ) {
        let life = u64::from(self.health.begin_write(member));
        self.submit(answers, class, life, member, DiskWork::Write { offset, lease });
    }

    /// Makes durable the writes that were answered before. The token is as for writes.
    pub(crate) fn sync(&self, answers: &mut Answers, class: Class, member: usize) {
        let life = u64::from(self.health.begin_write(member));
        self.submit(answers, class, life, member, DiskWork::Sync);
    }

    /// Why nothing may be written; `None` if this process may write. Waits while that is open
    /// because members do not answer.
    pub(crate) fn await_refusal(&self) -> Option<String> {
        let pending = self.ownership.as_ref().filter(|ownership| !ownership.await_right());
        pending.and_then(Ownership::refusal).or_else(|| self.health.stuck())
    }

    /// Why nothing may be written now; `None` if this process may write.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.ownership.as_ref().and_then(Ownership::refusal_now).or_else(|| self.health.stuck())
    }

    /// A buffer of at least `bytes`. Waits until one is free.
    pub(crate) fn buffer(&self, bytes: usize) -> Result<Buffer, VolumeError> {
        let mut one = self.buffers(1, bytes)?;
        one.pop().ok_or(VolumeError::NoMemory { bytes, waited_ms: 0 })
    }

    /// `count` buffers at once. Waits until all of them are free. A waiting caller holds none, so
    /// that two callers cannot block each other for ever.
    pub(crate) fn buffers(&self, count: usize, bytes: usize) -> Result<Vec<Buffer>, VolumeError> {
        let from_ns = self.waits.now_ns();
        loop {
            let taken: Vec<Buffer> = (0..count).map_while(|_| self.arena.take(bytes)).collect();
            if taken.len() == count {
                return Ok(taken);
            }
            drop(taken);
            let waited_ms = self.waits.now_ns().saturating_sub(from_ns) / 1_000_000;
            if waited_ms > BUFFER_WAIT_MS || !self.waits.sleep_for_memory() {
                return Err(VolumeError::NoMemory { bytes: bytes * count, waited_ms });
            }
        }
    }

    fn submit(&self, answers: &mut Answers, class: Class, token: u64, member: usize, work: DiskWork) {
        let id = RequestId::new();
        let life = (!matches!(work, DiskWork::Read { .. })).then_some(token as u32);
        let reply = answers.expect(self, (member, id), life);
        let reply = match (&self.observer, &work) {
            (None, _) | (_, DiskWork::Read { .. }) => reply,
            (Some(observer), DiskWork::Write { offset, lease }) => {
                observed(observer, observer.write(member, *offset, lease), reply)
            }
            (Some(observer), DiskWork::Sync) => observed(observer, observer.sync(member), reply),
        };
        if !matches!(work, DiskWork::Read { .. })
            && self.ownership.as_ref().is_some_and(|ownership| !ownership.await_right())
        {
            let result = Err(DiskError::Withheld);
            reply.deliver(DiskDone { token, member, result, buffer: None, queued_ns: 0, device_ns: 0 });
            return;
        }
        let due_ns = answers.due_after_ns().map(|ns| self.waits.now_ns().saturating_add(ns));
        self.disks.submit(DiskRequest {
            id,
            member,
            class,
            requester: answers.requester(),
            deadline_ns: due_ns.unwrap_or(DEADLINE_NONE_NS),
            work,
            token,
            reply,
        });
    }
}

impl ReadContext {
    /// For a new caller in this class.
    pub(crate) fn of(class: Class) -> ReadContext {
        ReadContext { class, requester: Requester::new() }
    }

    /// For a maintenance job (scrub, rebuild), whose reads no client waits for.
    pub(crate) fn maintenance() -> ReadContext {
        ReadContext { class: Class::APERIODIC, requester: Requester::maintenance() }
    }
}

fn observed(observer: &Arc<dyn WriteObserver>, name: u64, reply: Arc<dyn Reply>) -> Arc<dyn Reply> {
    Arc::new(Observed { observer: Arc::clone(observer), name, reply })
}

impl Reply for Observed {
    fn deliver(&self, done: DiskDone) {
        self.observer.done(self.name, done.result.is_ok());
        self.reply.deliver(done);
    }
}
