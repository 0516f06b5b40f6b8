//! Which members are read around at the moment, because they do not answer in time.
//!
//! There are never more of them at once than parity makes up for. A read that waits for more
//! members than that cannot be decoded without them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use reel_volume::Health;

use crate::limits::{LATENESS_READS, SLOW_AWAY_NS, SLOW_READS, STALL_NS};

/// A [`Member::lateness`] of 1: all reads are late.
const ALL: u32 = 1 << 16;

/// The members as all fetchers of a table see them.
pub(crate) struct Bypass {
    health: Health,
    members: Vec<Member>,
    /// Held while a member joins those that are read around.
    change: Mutex<()>,
}

#[derive(Default)]
struct Member {
    /// The member does not answer at all. New reads go around it.
    stalled: AtomicBool,
    /// The member answers, but too late repeatedly. New reads go around it until
    /// `slow_until_ns`.
    slow: AtomicBool,
    slow_until_ns: AtomicU64,
    /// Reads in a row that did not come in time.
    late_in_row: AtomicU32,
    /// The share of its recent reads that did not come in time: see [`LATENESS_READS`].
    lateness: AtomicU32,
    /// Reads in a row that came after their deadline.
    missed_in_row: AtomicU32,
    /// How many of its reads are being read around.
    reads: AtomicUsize,
    /// Requests of all fetchers that it has not answered.
    under_way: AtomicUsize,
    /// [`Health::answers`] at the last check, and the time at which it last changed.
    answers: AtomicU64,
    since_ns: AtomicU64,
}

impl Bypass {
    pub(crate) fn new(health: Health, members: usize) -> Self {
        let members = (0..members).map(|_| Member::default()).collect();
        Self { health, members, change: Mutex::new(()) }
    }

    /// Whether reads of this member go to the other members from the start.
    pub(crate) fn is_bypassed(&self, member: usize) -> bool {
        let known = &self.members[member];
        !self.health.readable(member)
            || known.stalled.load(Ordering::Relaxed)
            || known.slow.load(Ordering::Relaxed)
    }

    /// Whether reads of any member go to the other members from the start.
    pub(crate) fn is_any_bypassed(&self) -> bool {
        (0..self.members.len()).any(|member| self.is_bypassed(member))
    }

    /// Takes the right to read around one read of this member. [`Bypass::end`] gives it back.
    /// `false` if parity does not allow it now.
    pub(crate) fn begin(&self, member: usize) -> bool {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let may = self.may_join(member);
        if may {
            self.members[member].reads.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    pub(crate) fn end(&self, member: usize) {
        self.members[member].reads.fetch_sub(1, Ordering::Relaxed);
    }

    /// A request was given to a member.
    pub(crate) fn submitted(&self, number: usize, now_ns: u64) {
        let member = &self.members[number];
        if member.under_way.fetch_add(1, Ordering::Relaxed) == 0 {
            member.answers.store(self.health.answers(number), Ordering::Relaxed);
            member.since_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// A member has answered a request. If it had stalled, the stall ends.
    pub(crate) fn answered(&self, number: usize, now_ns: u64) {
        self.health.answered(number);
        let member = &self.members[number];
        member.under_way.fetch_sub(1, Ordering::Relaxed);
        member.answers.store(self.health.answers(number), Ordering::Relaxed);
        member.since_ns.fetch_max(now_ns, Ordering::Relaxed);
        if member.stalled.swap(false, Ordering::Relaxed) {
            tracing::info!(member = number, "a member that did not answer answers again");
        }
    }

    /// A request was withdrawn: no fetcher takes its answer any more.
    pub(crate) fn withdrawn(&self, number: usize) {
        let member = &self.members[number];
        if member.under_way.fetch_sub(1, Ordering::Relaxed) == 1 {
            // There is no request left whose answer could end the stall.
            member.stalled.store(false, Ordering::Relaxed);
        }
    }

    /// When to check a member whose oldest request is from `oldest_ns`. `None` if it is known to
    /// stall.
    pub(crate) fn stall_check_ns(&self, number: usize, oldest_ns: u64) -> Option<u64> {
        let member = &self.members[number];
        let since_ns = member.since_ns.load(Ordering::Relaxed).max(oldest_ns);
        (!member.stalled.load(Ordering::Relaxed)).then(|| since_ns.saturating_add(STALL_NS))
    }

    /// Checks a member whose oldest request is from `oldest_ns`. `true` if it has answered no
    /// request for so long that it counts as stalled from now on.
    pub(crate) fn check_stall(&self, number: usize, oldest_ns: u64, now_ns: u64) -> bool {
        let member = &self.members[number];
        let answers = self.health.answers(number);
        if member.answers.swap(answers, Ordering::Relaxed) != answers {
            // Other requests were answered: the member works, and has not reached this request yet.
            member.since_ns.store(now_ns, Ordering::Relaxed);
        }
        if self.stall_check_ns(number, oldest_ns).is_none_or(|stall_check_ns| stall_check_ns > now_ns) {
            return false;
        }
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.may_join(number) {
            member.since_ns.store(now_ns, Ordering::Relaxed);
            return false;
        }
        !member.stalled.swap(true, Ordering::Relaxed)
    }

    /// A read of this member was not answered when half of its time was over. A member for which
    /// this happens repeatedly, while the others are in time, is slow. `true` if it counts as
    /// slow from now on.
    pub(crate) fn late(&self, number: usize, now_ns: u64) -> bool {
        let member = &self.members[number];
        change(&member.lateness, |lateness| lateness + (ALL - lateness) / LATENESS_READS);
        let late = member.late_in_row.fetch_add(1, Ordering::Relaxed) + 1;
        late >= SLOW_READS && !self.others_are_late(number) && self.mark_slow(number, now_ns)
    }

    /// Whether another member is at least half as late as this one. Then the cause is the load, and
    /// reading around would only add to it.
    pub(crate) fn others_are_late(&self, number: usize) -> bool {
        let lateness = |member: &Member| member.lateness.load(Ordering::Relaxed);
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != number);
        let latest = others.map(|(_, member)| lateness(member)).max().unwrap_or(0);
        latest >= ALL / 8 && latest >= lateness(&self.members[number]) / 2
    }

    /// Stops reading a member that is much slower than the others, for a while. That costs the
    /// others no more than its loss would. `false` if it is left out already, or if parity has to
    /// make up for other members.
    pub(crate) fn mark_slow(&self, number: usize, now_ns: u64) -> bool {
        let member = &self.members[number];
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_bypassed(number) || !self.may_join(number) {
            return false;
        }
        member.slow_until_ns.store(now_ns.saturating_add(SLOW_AWAY_NS), Ordering::Relaxed);
        member.slow.store(true, Ordering::Relaxed);
        tracing::warn!(
            member = number,
            "a member is much slower than the others; reading around it for a while"
        );
        true
    }

    /// A read of this member was answered, by its deadline or not. If a member misses deadlines
    /// repeatedly while another member is left out as slow, the slow one is read again at
    /// once: its late answers are worth more than what the others cannot do for it. A member that
    /// has only promised work to do does not miss deadlines.
    pub(crate) fn count_deadline(&self, number: usize, has_missed: bool, now_ns: u64) {
        let member = &self.members[number];
        if !has_missed {
            return member.missed_in_row.store(0, Ordering::Relaxed);
        }
        if member.missed_in_row.fetch_add(1, Ordering::Relaxed) + 1 < SLOW_READS {
            return;
        }
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != number);
        for (slow, member) in others.filter(|(_, member)| member.slow.load(Ordering::Relaxed)) {
            if member.slow_until_ns.fetch_min(now_ns, Ordering::Relaxed) > now_ns {
                tracing::warn!(
                    member = slow,
                    overloaded = number,
                    "the other members miss deadlines without a slow member; reading it again"
                );
            }
        }
    }

    /// A read of this member came in time.
    pub(crate) fn answered_in_time(&self, number: usize) {
        let member = &self.members[number];
        member.late_in_row.store(0, Ordering::Relaxed);
        change(&member.lateness, |lateness| lateness - lateness / LATENESS_READS);
    }

    /// Reads members again that were left out as slow, when their time is over.
    pub(crate) fn unmark_slow(&self, now_ns: u64) {
        for member in &self.members {
            if member.slow.load(Ordering::Relaxed) && member.slow_until_ns.load(Ordering::Relaxed) <= now_ns {
                // It is half way to being slow again: it has to show that it is in time.
                member.late_in_row.store(SLOW_READS / 2, Ordering::Relaxed);
                member.slow.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Whether parity makes up for this member beside those that are missing, left out or read
    /// around already.
    fn may_join(&self, number: usize) -> bool {
        let is_out =
            |other: usize| self.is_bypassed(other) || self.members[other].reads.load(Ordering::Relaxed) > 0;
        let others = (0..self.members.len()).filter(|&other| other != number && is_out(other)).count();
        others < self.health.tolerated()
    }
}

/// Changes an average. Of two changes at the same time one may be lost, which does no harm.
fn change(average: &AtomicU32, next: impl FnOnce(u32) -> u32) {
    average.store(next(average.load(Ordering::Relaxed)), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_volume::MemberUse;

    fn four() -> (Health, Bypass) {
        let health = Health::tolerating([MemberUse::InUse; 4], 1);
        (health.clone(), Bypass::new(health, 4))
    }

    #[test]
    fn a_member_that_answers_no_request_stalls_until_it_answers() {
        let (_, bypass) = four();
        bypass.submitted(1, 100);
        assert_eq!(bypass.stall_check_ns(1, 100), Some(100 + STALL_NS));
        assert!(!bypass.check_stall(1, 100, 99 + STALL_NS) && !bypass.is_bypassed(1));
        assert!(bypass.check_stall(1, 100, 100 + STALL_NS) && bypass.is_bypassed(1));
        assert!(!bypass.check_stall(1, 100, 200 + STALL_NS), "told once");
        bypass.answered(1, 300 + STALL_NS);
        assert!(!bypass.is_any_bypassed());
    }

    #[test]
    fn a_member_that_answers_other_requests_has_not_stalled() {
        let (health, bypass) = four();
        bypass.submitted(1, 0);
        health.answered(1);
        assert!(!bypass.check_stall(1, 0, STALL_NS));
        assert!(bypass.check_stall(1, 0, 2 * STALL_NS), "no answer came since");
        bypass.withdrawn(1);
        assert!(!bypass.is_bypassed(1), "no request is left whose answer could end the stall");
    }

    #[test]
    fn a_member_that_is_repeatedly_late_is_left_alone_for_a_while() {
        let (_, bypass) = four();
        for _ in 0..SLOW_READS {
            bypass.late(1, 50);
            bypass.late(2, 50);
            (0..3).for_each(|_| bypass.answered_in_time(2));
        }
        assert!(bypass.is_bypassed(1) && !bypass.is_bypassed(2));
        bypass.unmark_slow(49 + SLOW_AWAY_NS);
        assert!(bypass.is_bypassed(1));
        bypass.unmark_slow(50 + SLOW_AWAY_NS);
        assert!(!bypass.is_any_bypassed());
    }

    #[test]
    fn a_slow_member_is_read_again_when_the_others_miss_deadlines_without_it() {
        let (_, bypass) = four();
        assert!(bypass.mark_slow(1, 0));
        for read in 0..10 * SLOW_READS {
            bypass.count_deadline(2, read % SLOW_READS != 0, 10);
            bypass.count_deadline(1, true, 10);
        }
        bypass.unmark_slow(10);
        assert!(bypass.is_bypassed(1), "some reads are in time");
        for _ in 0..SLOW_READS {
            bypass.count_deadline(2, true, 10);
        }
        bypass.unmark_slow(10);
        assert!(!bypass.is_any_bypassed());
    }

    #[test]
    fn no_more_members_are_left_alone_than_parity_makes_up_for() {
        let (health, bypass) = four();
        assert!(bypass.mark_slow(1, 0));
        assert!(!bypass.mark_slow(1, 0), "told once");
        assert!(!bypass.mark_slow(2, 0) && !bypass.is_bypassed(2));
        bypass.unmark_slow(SLOW_AWAY_NS);
        assert!(bypass.begin(3) && !bypass.mark_slow(2, 0), "another member is read around");
        bypass.end(3);
        health.begin_to_rebuild(0, "replaced");
        assert!(!bypass.mark_slow(2, 0), "another member is not readable");
    }

    #[test]
    fn members_that_are_all_late_are_loaded_and_not_slow() {
        let (_, bypass) = four();
        for _ in 0..2 * SLOW_READS {
            bypass.late(1, 0);
            bypass.late(2, 0);
        }
        assert!(!bypass.is_any_bypassed());
        assert!(bypass.others_are_late(1) && bypass.others_are_late(2) && bypass.others_are_late(3));
        for _ in 0..2 * LATENESS_READS {
            bypass.late(1, 0);
            bypass.answered_in_time(2);
        }
        assert!(!bypass.others_are_late(1), "only one member is still late");
    }

    #[test]
    fn no_more_members_are_read_around_than_parity_makes_up_for() {
        let (_, bypass) = four();
        assert!(bypass.begin(2) && bypass.begin(2) && !bypass.begin(3));
        bypass.submitted(0, 0);
        assert!(!bypass.check_stall(0, 0, STALL_NS));
        bypass.end(2);
        assert!(!bypass.begin(3));
        bypass.end(2);
        assert!(bypass.begin(3));
    }
}
