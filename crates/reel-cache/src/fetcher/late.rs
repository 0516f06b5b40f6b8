//! Reads around members that do not answer in time.

use super::{Fetcher, Hedge, WaitingFetches};
use crate::limits::{AROUND_AGAIN_NS, AROUND_LEAD_MAX_NS, LAG_LOOK_NS, LAG_NS};
use reel_disk::MemberActivity;
use reel_qos::{DEADLINE_NONE_NS, Kind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Fetcher {
    /// When [`Fetcher::overdue`] is to be called next; `None` while nothing is under way.
    pub fn next_due_ns(&self) -> Option<u64> {
        let check = |(member, oldest_ns)| self.units.bypass().stall_check_ns(member, oldest_ns);
        let stalls = self.with_disks.oldest().filter_map(check).min();
        let due = self.due.first().map(|(due_ns, _)| *due_ns);
        let lags = self.with_disks.oldest().map(|(_, oldest_ns)| oldest_ns.saturating_add(LAG_NS)).min();
        let lags = lags.map(|lag_ns| lag_ns.max(self.lag_check_ns));
        [stalls, due, lags].into_iter().flatten().min()
    }

    /// Reads around members that have not answered in time.
    pub fn overdue(&mut self, now_ns: u64) {
        let units = self.units.clone();
        let (bypass, mut slow) = (units.bypass(), Vec::new());
        let check = |&(member, oldest_ns): &(usize, u64)| bypass.check_stall(member, oldest_ns, now_ns);
        let stalled: Vec<usize> = self.with_disks.oldest().filter(check).map(|(member, _)| member).collect();
        for &member in &stalled {
            self.report_stall(member);
            self.read_around_all(member, now_ns);
        }
        if let Some(member) = self.lagging(now_ns)
            && bypass.mark_slow(member, now_ns)
        {
            slow.push(member);
        }
        while let Some(&(due_ns, id)) = self.due.first() {
            if due_ns > now_ns {
                break;
            }
            self.due.pop_first();
            let Some(flight) = self.reads.get_mut(&id) else { continue };
            flight.due_ns = None;
            let member = flight.read.member();
            if !std::mem::replace(&mut flight.is_late, true) && bypass.late(member, now_ns) {
                slow.push(member);
            }
            let may = bypass.is_bypassed(member) || !bypass.others_are_late(member);
            if !may || !self.read_around(id, now_ns) {
                self.try_again(id, now_ns);
            }
        }
        for member in slow {
            self.read_around_all(member, now_ns);
        }
    }

    /// A member is read around because it answers nothing. A disk that spins up is no fault.
    fn report_stall(&self, member: usize) {
        if self.units.disks().activity(member) == MemberActivity::Waking {
            tracing::info!(member, "a member wakes; reading around it until it answers");
            return;
        }
        self.units.counters().stalled.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(member, "a member has stalled; reading around it");
    }

    /// A member that keeps a read of a class with deadlines waiting for long, while no other member
    /// does. The deadline itself may be far away. But a viewer that is ahead of its deadlines plays
    /// from its own buffer, and the server does not know how much that holds.
    fn lagging(&mut self, now_ns: u64) -> Option<usize> {
        if now_ns < self.lag_check_ns {
            return None;
        }
        let waits = |&(_, oldest_ns): &(usize, u64)| oldest_ns.saturating_add(LAG_NS) <= now_ns;
        self.with_disks.oldest().find(waits)?;
        self.lag_check_ns = now_ns + LAG_LOOK_NS;
        let waiting: Vec<(usize, u64)> = (0..self.units.disks().members())
            .filter_map(|member| Some((member, self.with_deadline(member, now_ns)?)))
            .filter(|(_, oldest_ns)| oldest_ns.saturating_add(LAG_NS / 4) <= now_ns)
            .collect();
        match waiting[..] {
            [(member, oldest_ns)] if oldest_ns.saturating_add(LAG_NS) <= now_ns => Some(member),
            _ => None,
        }
    }

    /// The oldest request of a class with deadlines to a member, among those that have waited for a
    /// while.
    fn with_deadline(&self, member: usize, now_ns: u64) -> Option<u64> {
        let classes = self.units.disks().classes();
        let mut old = self.with_disks.of(member).take_while(|(since_ns, _)| since_ns + LAG_NS / 4 <= now_ns);
        old.find_map(|(since_ns, id)| {
            let (class, _) = self.reads.get(&id)?.flight.urgency();
            (classes.kind(class) == Kind::Periodic).then_some(since_ns)
        })
    }

    /// Reads around this member for every read that waits for it, with a deadline or without. What
    /// finds no memory now is tried again: the member may never answer.
    fn read_around_all(&mut self, member: usize, now_ns: u64) {
        let reads: Vec<u64> = self.with_disks.of(member).map(|(_, id)| id).collect();
        for id in reads {
            if !self.read_around(id, now_ns) {
                self.try_again(id, now_ns);
            }
        }
    }

    /// A read could not be read around now: sets when that is tried again.
    fn try_again(&mut self, id: u64, now_ns: u64) {
        let Some(flight) = self.reads.get_mut(&id) else { return };
        let again_ns = now_ns.saturating_add(AROUND_AGAIN_NS);
        // The member is counted as late once for each read at most, and not for this.
        flight.is_late = true;
        if let Some(before_ns) = flight.due_ns.replace(again_ns) {
            self.due.remove(&(before_ns, id));
        }
        self.due.insert((again_ns, id));
    }

    /// Reads the others of the stripe while the unit's own member is still asked. `false` if that
    /// cannot be done now.
    pub(super) fn read_around(&mut self, id: u64, now_ns: u64) -> bool {
        let Some(flight) = self.reads.get_mut(&id) else { return true };
        let member = flight.read.member();
        let geometry = flight.read.map().geometry();
        if flight.hedge.is_some() || !self.units.health().readable(member) {
            return true;
        }
        // Reserves the most memory it may take. Readers that wait for their first bytes come before
        // reads that have waited for long.
        let Some(reservation) = self.units.budget().lend(geometry.width()) else { return false };
        if !self.units.bypass().begin(member) {
            return false;
        }
        let fetches = flight.read.hedged_reads();
        self.set_hedge(id, Hedge { member, reservation: Some(Arc::new(reservation)) });
        if !fetches.is_empty()
            && let Some(waiting) = self.try_start(WaitingFetches { id, fetches, plain: false }, now_ns)
        {
            self.waiting.push_back(waiting);
        }
        true
    }

    pub(super) fn set_hedge(&mut self, id: u64, hedge: Hedge) {
        if let Some(flight) = self.reads.get_mut(&id) {
            flight.hedge = Some(hedge);
            self.units.counters().read_around.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A read was answered: notes whether that was by its deadline.
    pub(super) fn note_deadline(&self, id: u64, now_ns: u64) {
        let Some(flight) = self.reads.get(&id) else { return };
        let (class, deadline_ns) = flight.flight.urgency();
        if self.units.disks().classes().kind(class) == Kind::Periodic {
            self.units.bypass().count_deadline(flight.read.member(), now_ns > deadline_ns, now_ns);
        }
    }

    /// Sets when a read is to be read around, by the deadline that its viewers have now.
    pub(super) fn set_due(&mut self, id: u64, now_ns: u64) {
        let Some(flight) = self.reads.get_mut(&id) else { return };
        let (class, deadline_ns) = flight.flight.urgency();
        let periodic = self.units.disks().classes().kind(class) == Kind::Periodic;
        if !periodic || deadline_ns == DEADLINE_NONE_NS || flight.hedge.is_some() {
            return;
        }
        let lead_ns = deadline_ns.saturating_sub(now_ns);
        let due_ns = deadline_ns.saturating_sub((lead_ns / 2).min(AROUND_LEAD_MAX_NS)).max(now_ns);
        if let Some(before_ns) = flight.due_ns.replace(due_ns) {
            self.due.remove(&(before_ns, id));
        }
        self.due.insert((due_ns, id));
    }
}
