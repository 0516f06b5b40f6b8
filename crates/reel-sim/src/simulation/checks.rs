//! What must hold at every step and every second.

use super::clients::Kind;
use super::{Event, SECOND_NS, Simulation};
use crate::limits::{LEDGER_CHECK_SECONDS, MOVING_SEGMENT_NS, RECOVERY_NS};
use crate::scale::UNIT_BYTES;
use reel_qos::Class;
use std::sync::atomic::Ordering;

impl Simulation {
    /// Whether what is late breaks a promise.
    pub(super) fn is_promised(&self) -> bool {
        (self.scenario.admission || self.scenario.strict) && !self.capacity.is_strained(self.now_ns)
    }

    /// Whether no member has a fault, and what was late because of one has had time to come.
    /// Requests that were made late are due soon; a member that has a fault cannot be held to
    /// those. Nor can one of which some reads take far longer; what viewers notice is held to its
    /// time with both.
    pub(super) fn is_healthy(&self) -> bool {
        let device = self.scenario.device;
        self.fault.is_none()
            && self.now_ns > self.repaired_ns + RECOVERY_NS
            && device == device.without_tail()
    }

    /// No unit that was read for an admitted viewer, or ahead of one, came after its deadline.
    pub(super) fn keeps_deadlines(&mut self) -> Result<(), String> {
        let counters = self.core.engine.units().counters();
        let misses = counters.deadline_misses[Class::PERIODIC.index()].load(Ordering::Relaxed);
        if misses > self.report.deadline_misses && self.is_healthy() && self.is_promised() {
            return Err("a unit for an admitted stream came after its deadline".to_owned());
        }
        self.report.deadline_misses = misses;
        Ok(())
    }
    /// The checks of every second: writers, and the invariants that no request would show.
    pub(super) fn second(&mut self) -> Result<(), String> {
        self.at(self.now_ns + SECOND_NS, Event::Second);
        self.keeps_repairing()?;
        if let Some(starved) = self.disks.starved() {
            return Err(starved);
        }
        self.keeps_within_memory()?;
        self.keeps_promises()?;
        self.keeps_files_playing()?;
        let mut late = None;
        let mut viewing = 0;
        for (number, client) in self.clients.iter().enumerate() {
            if let Kind::Viewer(player) = &client.kind {
                viewing += u64::from(player.title().is_some());
                // One that stands still for longer is found here even if its segment never comes.
                late = late.or(player
                    .late_ns(self.now_ns)
                    .filter(|(_, ns)| *ns > MOVING_SEGMENT_NS)
                    .map(|(kind, ns)| (number, player.next_segment(kind), ns)));
            }
        }
        self.report.viewing_most = self.report.viewing_most.max(viewing);
        if let Some((number, segment, late_ns)) = late
            && self.is_promised()
        {
            return self.late(number as u32, segment as u64, late_ns);
        }
        Ok(())
    }

    /// No player of files stands still. One that does so for longer is found here even if nothing
    /// comes.
    fn keeps_files_playing(&mut self) -> Result<(), String> {
        let (now_ns, mut playing, mut late) = (self.now_ns, 0, Vec::new());
        for (number, client) in self.clients.iter_mut().enumerate() {
            let Kind::Mounted(mounted) = &mut client.kind else { continue };
            playing += u64::from(mounted.player.title().is_some());
            if let Some(late_ns) = mounted.player.late_ns(now_ns).filter(|ns| *ns > MOVING_SEGMENT_NS) {
                mounted.player.stands_still();
                late.push((number as u32, late_ns));
            }
        }
        let most = &mut self.report.mounted.playing_most;
        *most = playing.max(*most);
        late.into_iter().try_for_each(|(number, late_ns)| self.file_late(number, late_ns))
    }

    pub(super) fn keeps_promises(&mut self) -> Result<(), String> {
        if !self.scenario.admission {
            return Ok(());
        }
        if !self.casts.touch(&self.sessions, self.now_ns) {
            return Err("what was reserved for a cast was ended".to_owned());
        }
        if !self.pourers.touch(&self.sessions, self.now_ns) {
            return Err("what was reserved for a viewer of a poured stream was ended".to_owned());
        }
        self.sessions.tick(self.now_ns);
        let permille = self.capacity.check(&self.disks, &self.sessions, self.now_ns)?;
        self.report.promised_most_permille = self.report.promised_most_permille.max(permille);
        let dear_ns = self.capacity.dear_ns(&self.disks, self.fault.map(|span| span.member), self.now_ns);
        self.report.dear_most_ns = self.report.dear_most_ns.max(dear_ns);
        self.report.priced_permille = self.capacity.priced_permille(&self.disks);
        let sharing = self.sessions.sharing();
        let arena_bytes = (self.scenario.buffers * UNIT_BYTES) as u64;
        self.report.followers_most = self.report.followers_most.max(sharing.followers as u64);
        self.report.intervals_most_permille =
            self.report.intervals_most_permille.max(sharing.interval_bytes * 1000 / arena_bytes);
        // It takes as long as reserving everything again, so it is not done every second.
        let second = (self.now_ns - self.start_ns) / SECOND_NS;
        if second.is_multiple_of(LEDGER_CHECK_SECONDS) && !self.sessions.adds_up() {
            return Err("the ledger is not the sum of its reservations".to_owned());
        }
        Ok(())
    }

    pub(super) fn keeps_within_memory(&mut self) -> Result<(), String> {
        let budget = self.core.engine.units().budget();
        let (reserved, kept, total) = (budget.reserved(), budget.kept(), budget.total());
        if reserved + kept > total {
            return Err(format!("{reserved} buffers are reserved and {kept} kept for followers of {total}"));
        }
        let gone = self.core.engine.units().counters().kept_evictions.load(Ordering::Relaxed);
        if gone > 0 {
            return Err(format!("{gone} units are gone that were to stay for who follows"));
        }
        let taken = self.arena.usage().buffers_taken;
        self.report.buffers_most = self.report.buffers_most.max(taken as u64);
        if taken > self.scenario.buffers {
            return Err(format!("{taken} buffers are taken of {}", self.scenario.buffers));
        }
        Ok(())
    }
}
