//! The heartbeat of an open volume, and the right to write that it renews.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use reel_arena::{Arena, ArenaConfig};
use reel_disk::DiskDone;
use reel_qos::Class;
use rustix::time::{ClockId, clock_gettime};

use crate::access::{Access, Span};
use crate::answers::Answers;
use crate::catalogue::MemberSet;
use crate::commit::write_failed;
use crate::counters::VolumeCounters;
use crate::error::VolumeError;
use crate::health::Health;
use crate::ids::VolumeId;
use crate::limits::{BEAT_NS, BLOCK_BYTES, LAST_BEAT_NS, LOCK_POLL_NS, TENURE_WAIT_NS};
use crate::owner::record::{OWNER_OFFSET, OwnerRecord};
use crate::owner::rest::Rest;
use crate::owner::take_over::{Owned, Session};
use crate::owner::tenure::Tenure;

/// Whether this process may write the volume. Clones share one state.
#[derive(Clone, Default)]
pub(crate) struct Ownership(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Until when nothing but this process writes.
    until_ns: AtomicU64,
    /// Who has taken the volume over.
    taken_over_by: OnceLock<String>,
    /// A caller waits for the right to write.
    is_wanted: AtomicBool,
    /// The record is not renewed because nothing is requested.
    rests: AtomicBool,
    /// The thread that renews the record has panicked.
    is_given_up: AtomicBool,
}

/// The thread that keeps the owner record alive. When it is dropped, the record says that the
/// session is over.
pub(crate) struct Heartbeat {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
struct Beats {
    volume: VolumeId,
    members: usize,
    tenure: Tenure,
    _session: Session,
    ownership: Ownership,
    access: Access,
    /// Of its own: when all media memory is in use, the record must be renewed all the same.
    memory: Arena,
    health: Health,
    counters: Arc<VolumeCounters>,
    answers: Answers,
    /// Requests of this thread that members have answered.
    answered: u64,
    rest: Rest,
}

/// The time of tenures: the time for which the machine sleeps counts.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Ownership {
    fn of(tenure: &Tenure) -> Ownership {
        let ownership = Ownership::default();
        ownership.publish(tenure);
        ownership
    }

    /// Why nothing may be written by this process; `None` if it may write.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self.0.taken_over_by.get() {
            Some(owner) => Some(format!(
                "it was taken over by {owner}, and nothing more is written here; stop this server, and start \
                 it again when the other one has stopped"
            )),
            None if self.may_write() => None,
            None if self.0.is_given_up.load(Ordering::Acquire) => Some(
                "the thread that renews its owner record panicked, which is a defect; restart the server to write again"
                    .to_owned(),
            ),
            None => Some(
                "its owner record could not be renewed in time, because the members did not answer; writing \
                 continues when they do"
                    .to_owned(),
            ),
        }
    }

    /// The same, for display and to decide whether to try: an owner that rests may write as soon as
    /// the members are awake.
    pub(crate) fn refusal_now(&self) -> Option<String> {
        let rests = self.0.rests.load(Ordering::Acquire) && !self.0.is_given_up.load(Ordering::Acquire);
        if rests && self.0.taken_over_by.get().is_none() { None } else { self.refusal() }
    }

    /// Whether this process may write now. Waits a while for the members to answer.
    pub(crate) fn await_right(&self) -> bool {
        let begun_ns = now_ns();
        while !self.may_write() {
            if self.0.taken_over_by.get().is_some() || now_ns() > begun_ns + TENURE_WAIT_NS {
                return false;
            }
            self.0.is_wanted.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_nanos(LOCK_POLL_NS));
        }
        true
    }

    fn may_write(&self) -> bool {
        now_ns() < self.0.until_ns.load(Ordering::Acquire)
    }

    /// Renews the record by `run`. A panic ends the right to write with its tenure: what the thread
    /// knew of other owners may be half changed, so it does not begin again.
    fn renewed_by(&self, run: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            self.0.is_given_up.store(true, Ordering::Release);
            tracing::error!(
                "the thread reel-owner panicked, which is a defect (the reason is above); nothing more is written to the volume, and \
                 viewers are served; restart the server to write again"
            );
        }
    }

    fn publish(&self, tenure: &Tenure) {
        if let Some(other) = tenure.taken_over_by() {
            let _ = self.0.taken_over_by.set(other.owner());
        }
        self.0.until_ns.store(tenure.until_ns(), Ordering::Release);
    }
}

impl Heartbeat {
    /// Starts the thread. `access` gets the right to write.
    pub(crate) fn start(
        owned: Owned,
        volume: VolumeId,
        members: usize,
        access: &mut Access,
        counters: &Arc<VolumeCounters>,
    ) -> Result<Heartbeat, VolumeError> {
        let ownership = Ownership::of(&owned.tenure);
        let beats = Beats {
            volume,
            members,
            tenure: owned.tenure,
            _session: owned.session,
            ownership: ownership.clone(),
            // The record is written without the right that it renews.
            access: access.clone(),
            memory: Arena::new(ArenaConfig {
                buffer_bytes: BLOCK_BYTES,
                buffer_count: 2 * members,
                cells_per_buffer: 1,
                huge_pages: false,
            })?,
            health: access.health.clone(),
            counters: Arc::clone(counters),
            answers: Answers::new().due_after(BEAT_NS),
            answered: 0,
            rest: Rest::new(owned.rests_after_ns, now_ns()),
        };
        access.ownership = Some(ownership);
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("reel-owner".to_owned())
            .spawn(move || beats.ownership.clone().renewed_by(|| beats.run(&stopped)))
            .map_err(|error| VolumeError::options(format!("cannot start a thread: {error}"), None))?;
        Ok(Heartbeat { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Beats {
    fn run(mut self, stopped: &Receiver<()>) {
        let mut pause_ns = BEAT_NS;
        while stopped.recv_timeout(Duration::from_nanos(pause_ns)) == Err(RecvTimeoutError::Timeout) {
            let begun_ns = now_ns();
            self.take_late_answers(begun_ns);
            if !self.is_due(begun_ns) {
                pause_ns = BEAT_NS;
                continue;
            }
            self.beat(begun_ns);
            if let Some(other) = self.tenure.taken_over_by() {
                tracing::error!(
                    owner = other.owner(),
                    "the volume was taken over; nothing more is written here. Stop this server"
                );
                return;
            }
            pause_ns = (begun_ns + BEAT_NS).saturating_sub(now_ns());
        }
        self.end();
    }

    /// Takes the answers to the writes of the last beat. A member that still owes one is silent.
    fn take_late_answers(&mut self, begun_ns: u64) {
        while let Some(done) = self.answers.next_until(begun_ns, now_ns) {
            self.answered += 1;
            self.answered(done);
        }
    }

    /// Whether the record is to be renewed, or the owner rests.
    fn is_due(&mut self, now_ns: u64) -> bool {
        let all: u64 = (0..self.members).map(|member| self.health.answers(member)).sum();
        let is_wanted = self.ownership.0.is_wanted.swap(false, Ordering::AcqRel);
        let renews = self.rest.renews(all.saturating_sub(self.answered), is_wanted, now_ns);
        self.ownership.0.rests.store(self.rest.is_reason(now_ns), Ordering::Release);
        renews
    }

    fn beat(&mut self, begun_ns: u64) {
        let readable = (0..self.members).filter(|&member| self.health.readable(member));
        let readable = readable.fold(MemberSet::default(), MemberSet::with);
        let mut reads = 0;
        for member in self.tenure.begin_beat(begun_ns, readable) {
            // A member that still owes an answer is not asked again, so the memory is enough.
            let is_silent = self.answers.waiting_for(member) > 0;
            let Some(buffer) = self.memory.take(BLOCK_BYTES).filter(|_| !is_silent) else { continue };
            let span = Span { member, offset: OWNER_OFFSET, bytes: BLOCK_BYTES };
            self.access.read(&mut self.answers, Class::INTERACTIVE, now_ns(), span, buffer);
            reads += 1;
        }
        while reads > 0
            && let Some(done) = self.answers.next_until(begun_ns + BEAT_NS, now_ns)
        {
            reads -= usize::from(done.buffer.is_some());
            self.answered += 1;
            self.answered(done);
        }
        while let Some(done) = self.answers.give_up_one() {
            self.answered(done);
        }
        self.tenure.end_beat();
        self.ownership.publish(&self.tenure);
    }

    /// Takes the answer to a read, and writes the record if it was the own one, or the answer to a
    /// write.
    fn answered(&mut self, mut done: DiskDone) {
        match (done.buffer.take(), &done.result) {
            (Some(buffer), Ok(())) => {
                let record = OwnerRecord::decode(&buffer[..BLOCK_BYTES], self.volume);
                if let Some(own) = self.tenure.read(done.member, done.token, record, now_ns()) {
                    self.write(done.member, &own);
                }
            }
            // Without space for it, the record is not renewed there; the member is sound.
            (None, Err(error)) if !error.is_no_space() => {
                write_failed(&self.health, &self.counters, &done, error)
            }
            _ => {}
        }
    }

    fn write(&mut self, member: usize, record: &OwnerRecord) {
        let Some(mut buffer) = self.memory.take(BLOCK_BYTES) else { return };
        buffer[..BLOCK_BYTES].copy_from_slice(&record.encode());
        let block = buffer.freeze().slice(0..BLOCK_BYTES);
        self.access.write(&mut self.answers, Class::INTERACTIVE, (member, OWNER_OFFSET), block);
    }

    /// Writes that the session is over, so that another host need not watch it.
    fn end(mut self) {
        let record = self.tenure.last_record();
        for member in (0..self.members).filter(|&member| self.health.readable(member)).collect::<Vec<_>>() {
            self.write(member, &record);
        }
        let until_ns = now_ns() + LAST_BEAT_NS;
        while self.answers.next_until(until_ns, now_ns).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_thread_is_the_reason_why_nothing_is_written() {
        let ownership = Ownership::default();
        ownership.renewed_by(|| ());
        assert!(ownership.refusal().is_some_and(|reason| reason.contains("did not answer")));
        ownership.renewed_by(|| panic!("on purpose"));
        assert!(ownership.refusal().is_some_and(|reason| reason.contains("restart the server")));
    }
}
