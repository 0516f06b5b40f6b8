//! Faults begin and end, devices and classes change.

use super::{Event, SECOND_NS, World};
use crate::changes::Change;
use crate::fault::{Fault, FaultSpan};
use reel_disk::DiskBackend;
use reel_volume::MemberUse;
use std::sync::Arc;

impl World {
    pub(super) fn begin_fault(&mut self, span: FaultSpan) {
        // The one before may have to wait for its rebuild.
        if self.fault.is_none() {
            self.report.faults += 1;
            self.fault = Some(span);
            for member in self.struck(span) {
                self.disks.set_fault(member, Some(FaultSpan { member, ..span }));
            }
            if span.fault == Fault::Replaced {
                self.writer.rebuild(span.member);
            }
            self.at(span.until_ns, Event::Mend);
        }
    }

    pub(super) fn mend(&mut self) {
        let Some(span) = self.fault else { return };
        if span.fault == Fault::Replaced && self.disks.blank_units(span.member) > 0 {
            return self.at(self.now_ns + SECOND_NS, Event::Mend);
        }
        self.struck(span).for_each(|member| self.disks.set_fault(member, None));
        self.mended_ns = self.now_ns;
        let health = self.core.fetcher.units().health();
        if !health.readable(span.member) {
            // Nothing was written to titles meanwhile, so it holds all it should.
            if health.member(span.member) == MemberUse::Out {
                health.begin_to_rebuild(span.member, "back");
            }
            health.rebuilt(span.member);
        }
        self.fault = None;
    }

    pub(super) fn change(&mut self, number: usize) -> Result<(), String> {
        self.report.changes += 1;
        match &self.changes[number].1 {
            Change::Drift { member, permille } => self.disks.drift(*member, *permille),
            Change::Classes(classes) => self.disks.set_classes(Arc::new(classes.clone())),
        }
        if !self.scenario.admission {
            return Ok(());
        }
        self.capacity.refresh(&self.disks, &self.desk, self.now_ns);
        self.capacity.look(&self.disks, &self.desk, self.now_ns).map(|_| ())
    }

    /// The members that a fault strikes.
    pub(super) fn struck(&self, span: FaultSpan) -> impl Iterator<Item = usize> + use<> {
        let members = self.scenario.members;
        (0..self.scenario.members_at_fault).map(move |next| (span.member + next) % members)
    }
}
