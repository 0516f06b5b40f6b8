//! Faults begin and end, devices and classes change.

use super::{Event, SECOND_NS, Simulation};
use crate::changes::Change;
use crate::fault::{Fault, FaultSpan};
use crate::maintenance::Repair;
use reel_disk::DiskBackend;
use std::sync::Arc;

impl Simulation {
    pub(super) fn begin_fault(&mut self, span: FaultSpan) -> Result<(), String> {
        // The one before may have to wait for its rebuild.
        if self.fault.is_none() {
            self.report.faults += 1;
            (self.fault, self.fault_over) = (Some(span), false);
            for member in self.faulty_members(span) {
                self.disks.set_fault(member, Some(FaultSpan { member, ..span }));
            }
            if span.fault == Fault::Replaced {
                self.replace()?;
            }
            self.at(span.until_ns, Event::Repair);
        }
        Ok(())
    }

    /// Gives the faulty member a replacement, when the repair under way gives way.
    pub(super) fn replace(&mut self) -> Result<(), String> {
        let Some(span) = self.fault.filter(|span| span.fault == Fault::Replaced) else { return Ok(()) };
        if !self.begin_to_repair(Repair::Replace(span.member))? {
            self.at(self.now_ns + SECOND_NS, Event::Replace);
        }
        Ok(())
    }

    /// The fault is over when its member holds again all that it should, and is in use.
    pub(super) fn repair(&mut self) -> Result<(), String> {
        let Some(span) = self.fault else { return Ok(()) };
        let rots = matches!(span.fault, Fault::Rot(_));
        if !std::mem::replace(&mut self.fault_over, true) && !rots {
            self.faulty_members(span).for_each(|member| self.disks.set_fault(member, None));
        }
        let not_in_use = |member: &usize| !self.core.engine.units().health().readable(*member);
        let wanted = if let Some(member) = self.faulty_members(span).find(not_in_use) {
            Some(Repair::Rebuild(member))
        } else if self.disks.rotten_units(span.member) > 0 {
            Some(Repair::Scrub)
        } else {
            None
        };
        if let Some(what) = wanted {
            self.at(self.now_ns + SECOND_NS, Event::Repair);
            return self.begin_to_repair(what).map(|_| ());
        }
        if rots {
            self.faulty_members(span).for_each(|member| self.disks.set_fault(member, None));
        }
        self.repaired_ns = self.now_ns;
        self.fault = None;
        self.holds_all(span.member)
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
        self.refresh_capacity();
        self.capacity.check(&self.disks, &self.sessions, self.now_ns).map(|_| ())
    }

    /// The members that a fault strikes.
    pub(super) fn faulty_members(&self, span: FaultSpan) -> impl Iterator<Item = usize> + use<> {
        let members = self.scenario.members;
        (0..self.scenario.members_at_fault).map(move |next| (span.member + next) % members)
    }
}
