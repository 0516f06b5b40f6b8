//! Changes beside viewers: repairs, and what would remain if the server stopped.

use super::{Event, SECOND_NS, Simulation};
use crate::crash::CrashImage;
use crate::fault::Fault;
use crate::limits::{CRASH_IN_COMMIT_NS, CRASH_IN_COMMIT_PERMILLE, CRASH_REST_NS, SCRUB_REST_NS};
use crate::maintenance::{Repair, wrong_unit};
use crate::medium::Medium;
use reel_disk::DiskBackend;
use reel_volume::{MemberUse, Superblock};
use std::os::unix::fs::FileExt;
use std::path::Path;

impl Simulation {
    /// Begins to repair, or lets the repair under way continue and returns `false`.
    pub(super) fn begin_to_repair(&mut self, what: Repair) -> Result<bool, String> {
        self.maintenance.repair(what).map_err(|error| format!("there is no thread: {error}"))
    }

    /// Verifies everything, unless a repair is to be made anyway.
    pub(super) fn scrub(&mut self) -> Result<(), String> {
        let next_ns = self.now_ns + SECOND_NS + self.rng.wait_ns(SCRUB_REST_NS);
        self.at(next_ns, Event::Scrub);
        if self.fault.is_none() {
            self.begin_to_repair(Repair::Scrub)?;
        }
        Ok(())
    }

    /// Repairs make progress, and a member that has had no fault for some time is in use.
    pub(super) fn keeps_repairing(&mut self) -> Result<(), String> {
        let stands_still = self.fault.is_some_and(|span| span.fault == Fault::Stall && !self.fault_over);
        if !stands_still && let Some(stuck) = self.maintenance.stuck(self.now_ns) {
            return Err(stuck);
        }
        if self.fault.is_none() {
            let health = self.core.engine.units().health();
            let out = (0..self.scenario.members).find(|&member| health.member(member) != MemberUse::InUse);
            if let Some(member) = out {
                let why = health.reason(member).unwrap_or_default();
                return Err(format!("member {member} has no fault and is not in use: {why}"));
            }
        }
        Ok(())
    }

    /// A member in use holds all that it should, as it was written.
    pub(super) fn holds_all(&self, member: usize) -> Result<(), String> {
        let lacks = self.disks.blank_units(member);
        if lacks > 0 {
            return Err(format!("member {member} is in use and lacks {lacks} units"));
        }
        let jobs = self.maintenance.jobs();
        let wrong = self.disks.with_medium(member, |medium, stored| {
            let unit_of = |unit| medium.intact_unit(unit);
            // A title that is being removed may have been overwritten; no session reads it.
            let titles = jobs
                .ingested
                .iter()
                .filter(|title| jobs.changing.as_ref().is_none_or(|changing| changing.id != title.id));
            titles.map(|title| wrong_unit(title, &stored.geometry, member, unit_of)).find_map(|wrong| wrong)
        });
        wrong.flatten().map_or(Ok(()), Err)
    }

    /// The catalogue changes: the server might stop in the middle of that.
    pub(super) fn maybe_crash_in_commit(&mut self) {
        let changes = self.maintenance.jobs().changes;
        if changes > self.changes_seen && self.scenario.crashes {
            self.changes_seen = changes;
            if self.rng.permille(CRASH_IN_COMMIT_PERMILLE) {
                let at_ns = self.now_ns + self.rng.below(CRASH_IN_COMMIT_NS);
                self.at(at_ns, Event::Crash { again: false });
            }
        }
    }

    /// Looks at what would be left if the server stopped now.
    pub(super) fn crash(&mut self, again: bool) -> Result<(), String> {
        if again {
            let next_ns = self.now_ns + SECOND_NS + self.rng.wait_ns(CRASH_REST_NS);
            self.at(next_ns, Event::Crash { again });
        }
        self.report.crashes += 1;
        let health = self.core.engine.units().health().clone();
        (0..self.scenario.members).filter(|&m| health.readable(m)).try_for_each(|m| self.holds_all(m))?;
        let mut rng = self.rng.part(self.now_ns);
        // A rebuild of everything takes long, and is the same each time.
        let lost = self.core.engine.units().health().lost() > 0;
        let rebuild = lost && self.report.rebuilt_after_crash == 0;
        self.report.rebuilt_after_crash += u64::from(rebuild);
        let found = self.crash_image(&mut rng).and_then(|crash_image| {
            crash_image.inspect(&self.stored, &self.maintenance.jobs(), (rebuild, &mut rng))
        });
        found.map_err(|error| format!("had the world stopped now: {error:#}"))
    }

    fn crash_image(&self, rng: &mut reel_testkit::Rng) -> anyhow::Result<CrashImage> {
        let member_at = |path: &Path| {
            let is_there = |medium: &Medium| medium.path() == path;
            (0..self.disks.members())
                .find(|&m| self.disks.with_medium(m, |medium, _| is_there(medium)) == Some(true))
        };
        let after_crash = |from: &Path, to: &Path| {
            let member = member_at(from)?;
            self.disks.with_medium(member, |medium, _| medium.after_crash(to, rng))
        };
        let data_offset = self.disks.with_medium(0, |medium, _| medium.data_offset()).unwrap_or_default();
        let blank = |from: &Path, to: &Path| {
            let mut block = vec![0; 4096];
            let read = std::fs::File::open(from).and_then(|file| file.read_exact_at(&mut block, 0));
            let found = read.ok().and_then(|()| Superblock::decode(&block).ok());
            let member = found.map_or(0, |superblock| superblock.index);
            (Medium::blank(member, to, data_offset, &self.stored), data_offset)
        };
        CrashImage::of(self.directory.path(), after_crash, blank)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]
mod tests {
    use super::*;
    use crate::device::{DeviceSpec, HddSpec};
    use crate::fault::FaultSpan;
    use crate::scenario::Scenario;

    #[test]
    fn a_repair_begins_while_the_catalogue_is_being_changed() {
        let mut scenario = Scenario::plain(1, 60 * SECOND_NS, 1);
        scenario.ingest_stripes_per_s = 1000;
        let mut simulation = Simulation::new(scenario).unwrap();
        while simulation.maintenance.jobs().changing.is_none() {
            assert!(simulation.step(u64::MAX).unwrap());
        }
        // The title is being published just now, and has the lock on the catalogue while it waits
        // for the members.
        assert!(simulation.begin_to_repair(Repair::Scrub).unwrap());
        while simulation.maintenance.jobs().changing.is_some() {
            assert!(simulation.step(u64::MAX).unwrap());
        }
        assert_eq!(simulation.maintenance.jobs().done.ingested, 1);
    }

    #[test]
    fn a_replacement_is_known_soon_beside_a_crowd_of_interactive_clients() {
        let mut scenario = Scenario::plain(5, 180 * SECOND_NS, 120);
        scenario.device = DeviceSpec::Hdd(HddSpec::default());
        (scenario.browsers, scenario.browse_ns) = (400, SECOND_NS / 4);
        let mut simulation = Simulation::new(scenario).unwrap();
        let begun_ns = simulation.now_ns + 30 * SECOND_NS;
        while simulation.now_ns < begun_ns {
            assert!(simulation.step(u64::MAX).unwrap());
        }
        let until_ns = u64::MAX;
        simulation.fault = Some(FaultSpan { fault: Fault::Replaced, member: 0, from_ns: begun_ns, until_ns });
        assert!(simulation.begin_to_repair(Repair::Replace(0)).unwrap());
        while simulation.maintenance.jobs().done.replaced == 0 {
            assert!(simulation.step(u64::MAX).unwrap());
        }
        let took_ns = simulation.now_ns - begun_ns;
        assert!(simulation.report.browse_most_ns > SECOND_NS, "no client waits: {}", simulation.report);
        // Each of its steps waits for one start at most, and not for all interactive clients.
        assert!(took_ns < 5 * SECOND_NS, "{took_ns} ns");
    }
}
