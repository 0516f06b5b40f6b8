//! Which members are currently read and written, and when a member has failed or returned wrong
//! data too often.

use reel_rt::lock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use reel_disk::DiskError;

use crate::limits::{READ_FAILURES_MAX, WRONG_ROWS_MAX, WRONG_ROWS_WINDOW};

/// How a member is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberUse {
    /// Read and written.
    InUse,
    /// Written, but not read: it is being filled with the data that belongs on it.
    Rebuilding,
    /// Neither read nor written.
    Out,
}

/// The members of an open volume and how each is used. Clones share one state.
///
/// Every reader reports its results here. A member that repeatedly fails or returns wrong data is
/// taken out, unless other members are out already and its bytes could not be computed without it.
#[derive(Clone, Debug)]
pub struct Health(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    members: Vec<Member>,
    /// Number of members that may be lost.
    tolerated: usize,
    /// Held while the use of a member changes, so that at most the tolerated number of members is
    /// taken out.
    change: Mutex<()>,
    /// Why nothing may be written any more: members that cannot be spared do not answer writes.
    stuck: OnceLock<String>,
}

#[derive(Debug)]
struct Member {
    state: AtomicU8,
    /// How often it has begun a new life, that is, was replaced or began to be rebuilt.
    life: AtomicU32,
    failures_in_a_row: AtomicU32,
    /// Rows verified (low half) and wrong ones among them (high half), both halved when the window
    /// is full.
    rows: AtomicU64,
    /// Requests it has answered since the volume was opened, with success or failure.
    answers: AtomicU64,
    /// Writes and syncs that it has not answered.
    writes: AtomicU64,
    /// When it last answered one.
    last_write_ns: AtomicU64,
    /// Set while it should be out but cannot be spared.
    suspect: AtomicBool,
    /// Set while its reads fail repeatedly.
    fails_reads: AtomicBool,
    /// Set while its file is removed or exchanged, so that its bytes end with this program.
    is_removed: AtomicBool,
    reason: Mutex<String>,
}

impl Health {
    /// `readable[m]` says whether member m may be read. No member is ever taken out for failing
    /// reads; see [`Health::tolerating`].
    pub fn new(readable: &[bool]) -> Health {
        let uses = readable.iter().map(|&is| if is { MemberUse::InUse } else { MemberUse::Out });
        Health::tolerating(uses, 0)
    }

    /// Members in these uses, of which `tolerated` may be out.
    pub fn tolerating(uses: impl IntoIterator<Item = MemberUse>, tolerated: usize) -> Health {
        let members = uses.into_iter().map(Member::new).collect();
        Health(Arc::new(Inner { members, tolerated, change: Mutex::new(()), stuck: OnceLock::new() }))
    }

    /// How this member is used. A number without a member counts as out.
    pub fn member(&self, member: usize) -> MemberUse {
        self.0.members.get(member).map_or(MemberUse::Out, Member::state)
    }

    /// Whether this member is present and holds what was written.
    pub fn readable(&self, member: usize) -> bool {
        self.member(member) == MemberUse::InUse
    }

    /// Whether new data is written to this member.
    pub fn writable(&self, member: usize) -> bool {
        self.member(member) != MemberUse::Out
    }

    /// Number of members that are not readable.
    pub fn lost(&self) -> usize {
        self.0.members.iter().filter(|member| member.state() != MemberUse::InUse).count()
    }

    /// Number of members that may be lost.
    pub fn tolerated(&self) -> usize {
        self.0.tolerated
    }

    /// Why a member is out, or should be.
    pub fn reason(&self, member: usize) -> Option<String> {
        let member = self.0.members.get(member)?;
        Some(lock(&member.reason).clone()).filter(|reason| !reason.is_empty())
    }

    /// Whether a member should be out for repeated failures or wrong data, and only stays because
    /// it cannot be spared.
    pub fn suspect(&self, member: usize) -> bool {
        self.0.members.get(member).is_some_and(|member| member.suspect.load(Ordering::Relaxed))
    }

    /// Members that are lost, in use or not: not readable by their use, or in use only because they
    /// cannot be spared while their reads fail or their files are gone. With more than
    /// [`Health::tolerated`], titles cannot be read, or only until this program ends.
    pub fn lost_or_unspared(&self) -> usize {
        let is_lost = |member: &&Member| {
            let is_gone =
                || member.fails_reads.load(Ordering::Relaxed) || member.is_removed.load(Ordering::Relaxed);
            member.state() != MemberUse::InUse || member.suspect.load(Ordering::Relaxed) && is_gone()
        };
        self.0.members.iter().filter(is_lost).count()
    }

    /// Records that the file of a member is where its path leads, or was exchanged or removed.
    pub(crate) fn set_removed(&self, number: usize, is_removed: bool) {
        if let Some(member) = self.0.members.get(number) {
            member.is_removed.store(is_removed, Ordering::Relaxed);
        }
    }

    /// Why members are out: of each the last error.
    pub(crate) fn reasons(&self) -> String {
        let out = (0..self.0.members.len()).filter(|&member| !self.readable(member));
        let reason = |member| self.reason(member).unwrap_or_else(|| "it is not in use".to_owned());
        out.map(|member| format!("member {member}: {}", reason(member))).collect::<Vec<_>>().join("; ")
    }

    /// Requests that a member has answered so far, with success or failure, from any caller.
    pub fn answers(&self, member: usize) -> u64 {
        self.0.members.get(member).map_or(0, |member| member.answers.load(Ordering::Relaxed))
    }

    /// Records that a member has answered a request.
    pub fn answered(&self, member: usize) {
        if let Some(member) = self.0.members.get(member) {
            member.answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes and syncs that a member has not answered.
    pub fn unanswered_writes(&self, member: usize) -> u64 {
        self.0.members.get(member).map_or(0, |member| member.writes.load(Ordering::Acquire))
    }

    /// Records that a write or sync is about to be submitted. Returns the life of the member.
    pub(crate) fn begin_write(&self, number: usize) -> u32 {
        // With the lock, so that no life begins between the two steps.
        let _change = lock(&self.0.change);
        let Some(member) = self.0.members.get(number) else { return 0 };
        member.writes.fetch_add(1, Ordering::AcqRel);
        member.life.load(Ordering::Acquire)
    }

    /// Records that a write or sync was answered.
    pub(crate) fn end_write(&self, number: usize, now_ns: u64) {
        if let Some(member) = self.0.members.get(number) {
            member.last_write_ns.fetch_max(now_ns, Ordering::AcqRel);
            member.writes.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// When a member last answered a write or sync; 0 if never.
    pub(crate) fn last_write_ns(&self, member: usize) -> u64 {
        self.0.members.get(member).map_or(0, |member| member.last_write_ns.load(Ordering::Acquire))
    }

    /// Why nothing may be written any more, if members that cannot be spared do not answer writes.
    pub(crate) fn stuck(&self) -> Option<String> {
        self.0.stuck.get().cloned()
    }

    /// Takes a member out that did not answer a write of this life. Returns whether it was in.
    ///
    /// If it cannot be spared, it stays in use, since reads may work: all members may be on one
    /// frozen file system. Then nothing more is written until the volume is opened again, so that
    /// the outstanding writes, which may be carried out later, overwrite nothing newer.
    pub(crate) fn drop_silent(&self, number: usize, life: u32, reason: &str) -> bool {
        let _change = lock(&self.0.change);
        let Some(member) = self.0.members.get(number) else { return false };
        if member.state() == MemberUse::Out || member.life.load(Ordering::Acquire) != life {
            return false;
        }
        if member.state() == MemberUse::InUse && self.lost() >= self.0.tolerated {
            let first = self.0.stuck.set(format!(
                "{reason}, and no other member can be spared; see why writes hang, and open the volume again"
            ));
            if first.is_ok() {
                tracing::error!(member = number, reason, "writes hang, so nothing more is written");
            }
            member.suspect.store(true, Ordering::Relaxed);
            reason.clone_into(&mut lock(&member.reason));
            return false;
        }
        member.set(MemberUse::Out, reason);
        true
    }

    /// Records rows that were read from a member, and how many of them were not what was written.
    /// Returns whether the member was taken out for it.
    pub(crate) fn record_rows(&self, number: usize, rows: usize, wrong: usize) -> bool {
        let Some(member) = self.0.members.get(number) else { return false };
        member.failures_in_a_row.store(0, Ordering::Relaxed);
        member.fails_reads.store(false, Ordering::Relaxed);
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

    /// Records that a read of a member has failed. Returns whether the member was taken out for it.
    pub(crate) fn record_read_failure(&self, number: usize, error: &DiskError) -> bool {
        let Some(member) = self.0.members.get(number) else { return false };
        if matches!(error, DiskError::Stopped | DiskError::Absent { .. }) {
            return false;
        }
        let failures = member.failures_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if failures < READ_FAILURES_MAX && !is_gone(error) {
            return false;
        }
        member.fails_reads.store(true, Ordering::Relaxed);
        self.take_out(number, &format!("it repeatedly fails: {error}"))
    }

    /// Takes a member out because a write to it failed, so that data is missing on it. Returns
    /// whether it was in.
    ///
    /// `life` is the member's life in which the write was requested. A write of an earlier life has
    /// no effect: the member may be another disk by now, and a title that was begun before is
    /// completed on the member when it is published.
    pub(crate) fn drop_member(&self, number: usize, life: u32, reason: &str) -> bool {
        let _change = lock(&self.0.change);
        let Some(member) = self.0.members.get(number) else { return false };
        if member.state() == MemberUse::Out || member.life.load(Ordering::Acquire) != life {
            return false;
        }
        member.set(MemberUse::Out, reason);
        true
    }

    /// From now on a member is written and not read, because an unknown part of its data is
    /// missing.
    pub fn begin_to_rebuild(&self, number: usize, reason: &str) {
        let _change = lock(&self.0.change);
        if let Some(member) = self.0.members.get(number) {
            member.begin_to_rebuild(reason);
        }
    }

    /// Like [`Health::begin_to_rebuild`], for a disk that stays. Returns how many writes of before
    /// are unanswered; if there are any, nothing has changed.
    ///
    /// They may be carried out at any time, when their slots have long been given to other objects.
    /// As long as the member is out, that does no harm: nothing is read from it, and a rebuild
    /// verifies every unit. After that it would overwrite what the rebuild has written.
    pub(crate) fn begin_to_rebuild_unless_written(&self, number: usize, reason: &str) -> Result<(), u64> {
        let _change = lock(&self.0.change);
        match self.unanswered_writes(number) {
            0 => {
                if let Some(member) = self.0.members.get(number) {
                    member.begin_to_rebuild(reason);
                }
                Ok(())
            }
            writes => Err(writes),
        }
    }

    /// Marks a member as holding everything that belongs on it. `false` if it failed meanwhile.
    ///
    /// # Panics
    /// If there is no such member.
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

    /// Takes a member out that will be gone. Like one that repeatedly fails, it is only marked as
    /// suspect if it is in use and cannot be spared. Returns whether it was taken out.
    pub(crate) fn lose(&self, number: usize, reason: &str) -> bool {
        if self.member(number) != MemberUse::Rebuilding {
            return self.take_out(number, reason);
        }
        let was_in = self.drop_member(number, self.life(number), reason);
        if was_in {
            tracing::error!(member = number, reason, "a member that was being rebuilt is not used any more");
        }
        was_in
    }

    /// Takes a member out if it can be spared; otherwise marks it as suspect.
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
                "a member is not used any more; its bytes are computed from the others. Replace it"
            );
            return true;
        }
        if !member.suspect.swap(true, Ordering::Relaxed) {
            reason.clone_into(&mut lock(&member.reason));
            tracing::error!(
                member = number,
                reason,
                "a member should not be used any more and stays in use only because no other can be spared"
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
            writes: AtomicU64::new(0),
            last_write_ns: AtomicU64::new(0),
            suspect: AtomicBool::new(false),
            fails_reads: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
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

    fn begin_to_rebuild(&self, reason: &str) {
        self.failures_in_a_row.store(0, Ordering::Relaxed);
        self.rows.store(0, Ordering::Relaxed);
        // Set before the new life begins: a writer that starts in the new life must find the member
        // writable, since its object is not completed on the member when it is published.
        self.set(MemberUse::Rebuilding, reason);
        self.life.fetch_add(1, Ordering::AcqRel);
    }

    fn set(&self, state: MemberUse, reason: &str) {
        reason.clone_into(&mut lock(&self.reason));
        self.suspect.store(false, Ordering::Relaxed);
        self.fails_reads.store(false, Ordering::Relaxed);
        self.is_removed.store(false, Ordering::Relaxed);
        self.state.store(state as u8, Ordering::Release);
    }
}

/// Whether the device reports that it no longer exists, so that retries are useless.
fn is_gone(error: &DiskError) -> bool {
    let DiskError::Failed { source, .. } = error else { return false };
    let gone = [rustix::io::Errno::NODEV, rustix::io::Errno::NXIO];
    gone.iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
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
                assert!(!health.record_read_failure(1, &failed(rustix::io::Errno::IO)));
            }
            health.record_rows(1, 6, 0);
        }
        assert_eq!(health.lost(), 0);
        let out: Vec<bool> = (0..READ_FAILURES_MAX)
            .map(|_| health.record_read_failure(1, &failed(rustix::io::Errno::IO)))
            .collect();
        assert_eq!(out.iter().filter(|&&out| out).count(), 1);
        assert_eq!((health.member(1), health.lost()), (MemberUse::Out, 1));
        assert!(health.reason(1).unwrap().contains("failed to read"));
        assert!(!health.writable(1));
    }

    #[test]
    fn a_late_write_failure_of_a_replaced_disk_does_not_count_against_the_new_one() {
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
        assert!(health.record_read_failure(2, &failed(rustix::io::Errno::NODEV)));
        assert!(!health.readable(2));
        // The end of the disk threads is not a fault of a member either.
        (0..100).for_each(|_| assert!(!health.record_read_failure(1, &DiskError::Stopped)));
    }

    #[test]
    fn wrong_rows_count_within_a_window() {
        let health = three();
        // One in two hundred is below the limit, however long it lasts.
        for _ in 0..10_000 {
            assert!(!health.record_rows(0, 200, 1));
        }
        assert_eq!(health.lost(), 0);
        assert!((0..100).any(|_| health.record_rows(0, 6, 3)));
        assert_eq!(health.member(0), MemberUse::Out);
    }

    #[test]
    fn a_member_that_cannot_be_spared_is_lost_while_its_reads_fail_or_its_file_is_gone() {
        let health = three();
        let gone = failed(rustix::io::Errno::NODEV);
        assert!(health.record_read_failure(0, &gone) && !health.record_read_failure(1, &gone));
        assert_eq!((health.lost(), health.lost_or_unspared()), (1, 2));
        health.record_rows(1, 6, 0);
        assert_eq!(health.lost_or_unspared(), 1, "it reads again");
        health.set_removed(1, true);
        assert_eq!(health.lost_or_unspared(), 2);
        health.set_removed(1, false);
        assert_eq!(health.lost_or_unspared(), 1);
        // What does not answer writes is read all the same.
        assert!(!health.drop_silent(2, 0, "no answer") && health.suspect(2));
        assert_eq!(health.lost_or_unspared(), 1);
    }

    #[test]
    fn no_more_are_taken_out_than_can_be_spared() {
        let health = three();
        assert!(health.record_read_failure(0, &failed(rustix::io::Errno::NODEV)));
        assert!(!health.record_read_failure(1, &failed(rustix::io::Errno::NODEV)));
        assert!(health.readable(1) && health.suspect(1) && !health.suspect(2));
        health.begin_to_rebuild(0, "replaced");
        assert!(health.writable(0) && !health.readable(0));
        assert_eq!(health.lives(), [1, 0, 0]);
        assert!(health.rebuilt(0) && !health.rebuilt(1));
        assert!(health.record_read_failure(1, &failed(rustix::io::Errno::NODEV)));
        // A failed write always takes the member out.
        assert!(health.drop_member(2, 0, "no") && !health.drop_member(2, 0, "no"));
        assert_eq!(health.lost(), 2);
    }
}
