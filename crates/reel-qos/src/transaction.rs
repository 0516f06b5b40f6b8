//! Changes of a ledger that are made together or not at all.

use crate::claim::{DemandStart, Reservation};
use crate::ledger::{Ledger, ReservationId};
use crate::{AdmitError, Class, Demand, Sender};
use std::ops::Deref;
use std::sync::Arc;

/// Changes of a [`Ledger`] that are not final yet.
///
/// It is read as the ledger is, and shows what was changed so far. Time, capacities and classes
/// stay as they are while it lasts.
#[derive(Debug)]
pub struct Transaction<'l> {
    ledger: &'l mut Ledger,
    /// Each reservation that was changed, as it was before that; `None` if there was none. In the
    /// order of the changes.
    undo: Vec<(ReservationId, Option<Reservation>)>,
}

impl Ledger {
    /// Makes several changes as one. If `change` fails or panics, all reservations are as they were
    /// before. (Only the number of a reservation that was admitted meanwhile is not used again.)
    ///
    /// # Errors
    /// The error of `change`.
    pub fn try_change<T, E>(
        &mut self,
        change: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = Transaction { ledger: self, undo: Vec::new() };
        let result = transaction.try_change(change);
        transaction.undo.clear();
        result
    }
}

impl Transaction<'_> {
    /// Makes some of the changes as one: if `change` fails, those that were made before it remain.
    ///
    /// # Errors
    /// The error of `change`.
    pub fn try_change<T, E>(&mut self, change: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let kept = self.undo.len();
        let result = change(self);
        if result.is_err() {
            self.undo_to(kept);
        }
        result
    }

    /// See [`Ledger::admit`].
    ///
    /// # Errors
    /// As there.
    pub fn admit(
        &mut self,
        sender: impl Into<Sender>,
        demand: &Arc<Demand>,
        from_round: usize,
        start_round: u64,
        label: &str,
    ) -> Result<ReservationId, AdmitError> {
        let id = self.ledger.admit(sender, demand, from_round, start_round, label)?;
        self.undo.push((id, None));
        Ok(id)
    }

    /// See [`Ledger::change`].
    ///
    /// # Errors
    /// As there.
    pub fn change(
        &mut self,
        id: ReservationId,
        demand: &Arc<Demand>,
        from_round: usize,
        start_round: u64,
    ) -> Result<(), AdmitError> {
        let before = self.ledger.reservation(id);
        self.ledger.change(id, demand, from_round, start_round)?;
        self.undo.push((id, before));
        Ok(())
    }

    /// See [`Ledger::reclass`].
    ///
    /// # Errors
    /// As there.
    pub fn reclass(
        &mut self,
        id: ReservationId,
        class: Class,
        demand: &Arc<Demand>,
        from_round: usize,
        start_round: u64,
    ) -> Result<(), AdmitError> {
        let before = self.ledger.reservation(id);
        self.ledger.reclass(id, class, demand, from_round, start_round)?;
        self.undo.push((id, before));
        Ok(())
    }

    /// See [`Ledger::release`].
    pub fn release(&mut self, id: ReservationId) -> bool {
        let before = self.ledger.reservation(id);
        let is_released = self.ledger.release(id);
        if is_released {
            self.undo.push((id, before));
        }
        is_released
    }

    /// Replaces a reservation by the rest of a demand that needs no more in any round. It is not
    /// checked whether that fits. Nothing happens if the reservation has ended.
    pub(crate) fn reduce(&mut self, id: ReservationId, demand: &Arc<Demand>, start: DemandStart) {
        let Some(before) = self.ledger.reservation(id) else { return };
        let new = before.replaced_by(demand, start);
        self.ledger.restore(id, Some(new));
        self.undo.push((id, Some(before)));
    }

    /// Admits a demand of which the stream has all as a part of another reservation. It is not
    /// checked whether that fits.
    pub(crate) fn admit_unchecked(
        &mut self,
        sender: impl Into<Sender>,
        demand: &Arc<Demand>,
        start_round: u64,
        label: &str,
    ) -> ReservationId {
        let id = self.ledger.admit_unchecked(sender, demand, start_round, label);
        self.undo.push((id, None));
        id
    }

    fn undo_to(&mut self, kept: usize) {
        for (id, before) in self.undo.drain(kept..).rev() {
            self.ledger.restore(id, before);
        }
    }
}

impl Deref for Transaction<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.ledger
    }
}

impl Drop for Transaction<'_> {
    /// What is still in the list was not finished: a panic came between.
    fn drop(&mut self) {
        self.undo_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ROUND_NS;
    use crate::{Capacities, DiskDemand, DiskPrice, MemberCapacity, Resource};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// One member that reads `reads` times in a round for the periodic class, which has 70 % of it.
    fn ledger(reads: u64) -> Ledger {
        let price = DiskPrice { read_request_ns: 1_000, ..DiskPrice::FREE };
        let capacities = Capacities {
            members: vec![MemberCapacity { price, round_ns: (reads * 1_000).div_ceil(7) * 10 }],
            network_bytes: 1 << 40,
            core_ns: ROUND_NS,
            core_mib_ns: Vec::new(),
            local_front_ends: Vec::new(),
            arena_bytes: 1 << 30,
        };
        Ledger::new(capacities, 100)
    }

    fn demand(reads: u32) -> Arc<Demand> {
        Arc::new(Demand::new(vec![vec![DiskDemand::scattered(reads, 0); 10]], vec![1; 10], 1))
    }

    fn state(ledger: &Ledger) -> (Vec<String>, u64) {
        let all = ledger.reservations().map(|one| format!("{one:?}")).collect();
        (all, ledger.used(None, Resource::Member(0), 3))
    }

    /// Changes of every kind, the last of which is refused if `refused`.
    fn changes(
        change: &mut Transaction<'_>,
        [first, second]: [ReservationId; 2],
        refused: bool,
    ) -> Result<(), AdmitError> {
        change.release(first);
        change.admit(Class::PERIODIC, &demand(4), 0, 1, "third")?;
        change.change(second, &demand(1), 0, 2)?;
        change.change(second, &demand(2), 1, 2)?;
        change.reduce(second, &demand(1), DemandStart::new(0, 2));
        change.admit(Class::PERIODIC, &demand(if refused { 9 } else { 1 }), 0, 0, "fourth")?;
        Ok(())
    }

    #[test]
    fn a_transaction_that_fails_or_panics_leaves_the_ledger_as_it_was() {
        let mut ledger = ledger(8);
        let both = [3, 2].map(|reads| ledger.admit(Class::PERIODIC, &demand(reads), 0, 0, "early").unwrap());
        let before = state(&ledger);
        assert!(ledger.try_change(|change| changes(change, both, true)).is_err());
        assert_eq!((state(&ledger), ledger.adds_up()), (before.clone(), true));
        let panics = |change: &mut Transaction<'_>| -> Result<(), AdmitError> {
            changes(change, both, false)?;
            panic!("a defect in a caller");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| ledger.try_change(panics))).is_err());
        assert_eq!((state(&ledger), ledger.adds_up()), (before.clone(), true));
        ledger.try_change(|change| changes(change, both, false)).unwrap();
        assert!(state(&ledger) != before && ledger.adds_up());
        assert_eq!(ledger.reservations().len(), 3);
    }

    #[test]
    fn a_part_that_fails_leaves_what_was_changed_before_it() {
        let mut ledger = ledger(8);
        let both = [3, 2].map(|reads| ledger.admit(Class::PERIODIC, &demand(reads), 0, 0, "early").unwrap());
        let result = ledger.try_change(|change| -> Result<(), AdmitError> {
            change.release(both[1]);
            let before = state(change);
            assert!(change.try_change(|part| changes(part, both, true)).is_err());
            assert_eq!(state(change), before);
            Ok(())
        });
        result.unwrap();
        assert_eq!((ledger.reservations().len(), ledger.adds_up()), (1, true));
    }
}
