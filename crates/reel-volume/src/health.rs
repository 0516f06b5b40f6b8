//! Which members are read and written at the moment, and when one of them has failed or lied often enough.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reel_disk::DiskError;

use crate::limits::{READ_FAILURES_MAX, WRONG_ROWS_MAX, WRONG_ROWS_WINDOW};

/// How a member is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberUse {
    /// Read and written.
    InUse,
    /// Written, but not read: it is being filled with what it should hold.
    Rebuilding,
    /// Neither read nor written.
    Out,
}

/// The members of an open volume and how each is used. Clones see the same truth.
///
/// Whoever reads tells what came of it; a member that fails or lies again and again is taken out, unless others are
/// out already and its bytes could not be computed without it.
#[derive(Clone, Debug)]
pub struct Health(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    members: Vec<Member>,
    /// Members that the volume can do without.
    tolerated: usize,
    /// Held while the use of a member changes, so that two are not taken out where only one may be.
    change: Mutex<()>,
}

#[derive(Debug)]
struct Member {
    state: AtomicU8,
    /// How often it has begun a new life: been replaced, or begun to be rebuilt.
    life: AtomicU32,
    failures_in_a_row: AtomicU32,
    /// Rows looked at (low half) and wrong ones among them (high half), both halved when the window is full.
    rows: AtomicU64,
    /// Requests it has answered since the volume was opened, well or badly.
    answers: AtomicU64,
    /// Set while it should be out and cannot be spared.
    suspect: AtomicBool,
    reason: Mutex<String>,
}

impl Health {
    /// `readable[m]` says whether member m may be read. No member is ever taken out for failing reads; see
    /// [`Health::tolerating`].
    pub fn new(readable: &[bool]) -> Health {
        let uses = readable.iter().map(|&is| if is { MemberUse::InUse } else { MemberUse::Out });
        Health::tolerating(uses, 0)
    }

    /// Members in these uses, of which so many may be out.
    pub fn tolerating(uses: impl IntoIterator<Item = MemberUse>, tolerated: usize) -> Health {
        let members = uses.into_iter().map(Member::new).collect();
        Health(Arc::new(Inner { members, tolerated, change: Mutex::new(()) }))
    }

    /// How this member is used.
    pub fn member(&self, member: usize) -> MemberUse {
        self.0.members.get(member).map_or(MemberUse::Out, Member::state)
    }

    /// Whether this member is present and holds what was written.
    pub fn readable(&self, member: usize) -> bool {
        self.member(member) == MemberUse::InUse
    }

    /// Whether this member gets what is written.
    pub fn writable(&self, member: usize) -> bool {
        self.member(member) != MemberUse::Out
    }

    /// Members that are not readable.
    pub fn lost(&self) -> usize {
        self.0.members.iter().filter(|member| member.state() != MemberUse::InUse).count()
    }

    /// Members that the volume can do without.
    pub fn tolerated(&self) -> usize {
        self.0.tolerated
    }

    /// Why a member is out, or should be.
    pub fn reason(&self, member: usize) -> Option<String> {
        let member = self.0.members.get(member)?;
        Some(lock(&member.reason).clone()).filter(|reason| !reason.is_empty())
    }

    /// Whether a member fails or lies so often that it should be out, and only stays because it cannot be spared.
    pub fn suspect(&self, member: usize) -> bool {
        self.0.members.get(member).is_some_and(|member| member.suspect.load(Ordering::Relaxed))
    }

    /// Requests that a member has answered so far, well or badly, whoever asked.
    pub fn answers(&self, member: usize) -> u64 {
        self.0.members.get(member).map_or(0, |member| member.answers.load(Ordering::Relaxed))
    }

    /// A member has answered a request.
    pub fn answered(&self, member: usize) {
        if let Some(member) = self.0.members.get(member) {
            member.answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Rows that were read from a member, and how many of them were not what was written. Tells whether the member was
    /// taken out for it.
    pub(crate) fn looked_at(&self, number: usize, rows: usize, wrong: usize) -> bool {
        let Some(member) = self.0.members.get(number) else { return false };
        member.failures_in_a_row.store(0, Ordering::Relaxed);
        if wrong == 0 && member.rows.load(Ordering::Relaxed) >> 32 == 0 {
            return false;
        }
        let add = |sums: u64| {
            let (mut seen, mut bad) = ((sums & 0xffff_ffff) + rows as u64, (sums >> 32) + wrong as u64);
            while seen > WRONG_ROWS_WINDOW {
                (seen, bad) = (seen / 2, bad / 2);
            }
            Some(bad << 32 | seen)
        };
        // The closure always gives a value.
        let before = member.rows.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).unwrap_or_default();
        let bad = add(before).unwrap_or_default() >> 32;
        wrong > 0
            && bad >= WRONG_ROWS_MAX
            && self.take_out(number, &format!("{bad} of the rows last read from it are not what was written"))
    }

    /// A read of a member has failed. Tells whether the member was taken out for it.
    pub(crate) fn failed_to_read(&self, number: usize, error: &DiskError) -> bool {
        let Some(member) = self.0.members.get(number) else { return false };
        if matches!(error, DiskError::Stopped | DiskError::Absent { .. }) {
            return false;
        }
        let failures = member.failures_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        (failures >= READ_FAILURES_MAX || is_gone(error)) && self.take_out(number, &error.to_string())
    }

    /// Takes a member out because it did not take a write, so that it lacks what it should hold. Tells whether it was in.
    ///
    /// `life` is the one in which the write was asked for. In another it says nothing: the member may be another disk by now,
    /// and what was begun before that is looked at before it counts on the member.
    pub(crate) fn drop_member(&self, number: usize, life: u32, reason: &str) -> bool {
        let _change = lock(&self.0.change);
        let Some(member) = self.0.members.get(number) else { return false };
        if member.state() == MemberUse::Out || member.life.load(Ordering::Acquire) != life {
            return false;
        }
        member.set(MemberUse::Out, reason);
        true
    }

    /// From here on a member gets what is written and is not read: it lacks an unknown part of what it should hold.
    pub fn begin_to_rebuild(&self, number: usize, reason: &str) {
        let _change = lock(&self.0.change);
        if let Some(member) = self.0.members.get(number) {
            member.failures_in_a_row.store(0, Ordering::Relaxed);
            member.rows.store(0, Ordering::Relaxed);
            // Before it is another life: who begins to write in that one must not find the member out, since what he writes
            // is not completed.
            member.set(MemberUse::Rebuilding, reason);
            member.life.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A member holds all it should. `false` if it failed meanwhile.
    pub fn rebuilt(&self, number: usize) -> bool {
        let _change = lock(&self.0.change);
        let member = &self.0.members[number];
        if member.state() != MemberUse::Rebuilding {
            return false;
        }
        member.set(MemberUse::InUse, "");
        true
    }

    /// How often a member has begun a new life so far.
    pub(crate) fn life(&self, number: usize) -> u32 {
        self.0.members.get(number).map_or(0, |member| member.life.load(Ordering::Acquire))
    }

    /// How often each member has begun a new life so far.
    pub(crate) fn lives(&self) -> Vec<u32> {
        self.0.members.iter().map(|member| member.life.load(Ordering::Acquire)).collect()
    }

    /// Takes a member out if it can be spared; otherwise says that it should be.
    fn take_out(&self, number: usize, reason: &str) -> bool {
        let _change = lock(&self.0.change);
        let member = &self.0.members[number];
        if member.state() != MemberUse::InUse {
            return false;
        }
        if self.lost() < self.0.tolerated {
            member.set(MemberUse::Out, reason);
            tracing::error!(
                member = number,
                reason,
                "a member fails again and again and is not used any more; its bytes are computed from the others. Replace it"
            );
            return true;
        }
        if !member.suspect.swap(true, Ordering::Relaxed) {
            reason.clone_into(&mut lock(&member.reason));
            tracing::error!(
                member = number,
                reason,
                "a member fails again and again and stays in use only because no other can be spared"
            );
        }
        false
    }
}

impl Member {
    fn new(state: MemberUse) -> Member {
        Member {
            state: AtomicU8::new(state as u8),
            life: AtomicU32::new(0),
            failures_in_a_row: AtomicU32::new(0),
            rows: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            suspect: AtomicBool::new(false),
            reason: Mutex::default(),
        }
    }

    fn state(&self) -> MemberUse {
        match self.state.load(Ordering::Acquire) {
            state if state == MemberUse::InUse as u8 => MemberUse::InUse,
            state if state == MemberUse::Rebuilding as u8 => MemberUse::Rebuilding,
            _ => MemberUse::Out,
        }
    }

    fn set(&self, state: MemberUse, reason: &str) {
        reason.clone_into(&mut lock(&self.reason));
        self.suspect.store(false, Ordering::Relaxed);
        self.state.store(state as u8, Ordering::Release);
    }
}

/// Whether the device says that it is not there any more, so that there is nothing to wait for.
fn is_gone(error: &DiskError) -> bool {
    let DiskError::Failed { source, .. } = error else { return false };
    let gone = [rustix::io::Errno::NODEV, rustix::io::Errno::NXIO];
    gone.iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Single steps that do not panic.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn three() -> Health {
        Health::tolerating([MemberUse::InUse; 3], 1)
    }

    fn failed(errno: rustix::io::Errno) -> DiskError {
        let source = Arc::new(errno.into());
        DiskError::Failed { member: 0, what: "read", offset: 0, bytes: 4096, source }
    }

    #[test]
    fn failures_in_a_row_take_a_member_out_and_single_ones_do_not() {
        let health = three();
        for _ in 0..5 {
            for _ in 1..READ_FAILURES_MAX {
                assert!(!health.failed_to_read(1, &failed(rustix::io::Errno::IO)));
            }
            health.looked_at(1, 6, 0);
        }
        assert_eq!(health.lost(), 0);
        let out: Vec<bool> = (0..READ_FAILURES_MAX)
            .map(|_| health.failed_to_read(1, &failed(rustix::io::Errno::IO)))
            .collect();
        assert_eq!(out.iter().filter(|&&out| out).count(), 1);
        assert_eq!((health.member(1), health.lost()), (MemberUse::Out, 1));
        assert!(health.reason(1).unwrap().contains("failed to read"));
        assert!(!health.writable(1));
    }

    #[test]
    fn what_a_disk_failed_to_write_is_not_held_against_its_successor() {
        let health = three();
        let life = health.life(1);
        assert!(health.drop_member(1, life, "replaced"));
        health.begin_to_rebuild(1, "new");
        assert!(!health.drop_member(1, life, "late"));
        assert_eq!(health.member(1), MemberUse::Rebuilding);
        assert!(health.drop_member(1, health.life(1), "its own"));
    }

    #[test]
    fn a_member_that_is_gone_is_out_at_once() {
        let health = three();
        assert!(health.failed_to_read(2, &failed(rustix::io::Errno::NODEV)));
        assert!(!health.readable(2));
        // Nor is the end of the disk threads a fault of a member.
        (0..100).for_each(|_| assert!(!health.failed_to_read(1, &DiskError::Stopped)));
    }

    #[test]
    fn lies_count_in_a_window() {
        let health = three();
        // One in two hundred is below the rule, for ever.
        for _ in 0..10_000 {
            assert!(!health.looked_at(0, 200, 1));
        }
        assert_eq!(health.lost(), 0);
        assert!((0..100).any(|_| health.looked_at(0, 6, 3)));
        assert_eq!(health.member(0), MemberUse::Out);
    }

    #[test]
    fn no_more_are_taken_out_than_can_be_spared() {
        let health = three();
        assert!(health.failed_to_read(0, &failed(rustix::io::Errno::NODEV)));
        assert!(!health.failed_to_read(1, &failed(rustix::io::Errno::NODEV)));
        assert!(health.readable(1) && health.suspect(1) && !health.suspect(2));
        health.begin_to_rebuild(0, "replaced");
        assert!(health.writable(0) && !health.readable(0));
        assert_eq!(health.lives(), [1, 0, 0]);
        assert!(health.rebuilt(0) && !health.rebuilt(1));
        assert!(health.failed_to_read(1, &failed(rustix::io::Errno::NODEV)));
        // A write that failed leaves no choice.
        assert!(health.drop_member(2, 0, "no") && !health.drop_member(2, 0, "no"));
        assert_eq!(health.lost(), 2);
    }
}
