//! A stream moves to another place, demand or class, and so perhaps to another group.

use super::group::{Group, Single};
use super::shape::{epoch, shape};
use super::{SharedReservations, Stream, own_from};
use crate::claim::DemandStart;
use crate::ledger::ReservationId;
use crate::limits::LATE_ROUNDS;
use crate::{AdmitError, Class, Demand, Sender};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

/// A requested move.
struct Move<'a> {
    stream: ReservationId,
    class: Class,
    demand: &'a Arc<Demand>,
    /// What a stream of this demand holds for itself.
    own: Arc<Demand>,
    /// What this one holds for itself from then on.
    begins: Arc<Demand>,
    start: DemandStart,
    epoch: i64,
    before: Stream,
    /// The group that it can follow in.
    into: Option<u64>,
}

/// What the ledger has granted.
enum Granted {
    /// A place in another group.
    Joined(u64),
    /// A stream that was single stays single and keeps its reservation.
    StaysSingle,
    /// A place farther behind in the group that it was in, which is like this from now on.
    MovedBehind(Group),
    /// A reservation for itself. The group that it was in is like this from now on.
    Left(Group, ReservationId),
}

impl SharedReservations {
    /// As [`Ledger::change`](crate::Ledger::change): all or nothing. The next stream behind it in
    /// its group reads in its place; no stream is charged more for that than before.
    ///
    /// # Errors
    /// As of [`Ledger::change`](crate::Ledger::change). Then nothing has changed.
    pub fn change(
        &mut self,
        stream: ReservationId,
        demand: &Arc<Demand>,
        start: DemandStart,
        is_held: bool,
    ) -> Result<(), AdmitError> {
        let before = self.streams.get(&stream).ok_or(AdmitError::Ended(stream))?;
        self.reclass(stream, self.groups[&before.group].class, demand, start, is_held)
    }

    /// The same into another class, as one step: what the stream had is free when the new class is
    /// asked, so nothing is needed twice. A refusal names all that the stream needs there.
    ///
    /// # Errors
    /// As of [`change`](Self::change). Then nothing has changed.
    pub fn reclass(
        &mut self,
        stream: ReservationId,
        class: Class,
        demand: &Arc<Demand>,
        start: DemandStart,
        is_held: bool,
    ) -> Result<(), AdmitError> {
        let before = *self.streams.get(&stream).ok_or(AdmitError::Ended(stream))?;
        let epoch = epoch(start);
        let group = &self.groups[&before.group];
        let is_same_demand = Arc::ptr_eq(&group.demand, demand);
        let is_same_class = group.class == class;
        if is_same_demand && is_same_class && before.epoch == epoch {
            return Ok(());
        }
        let own = if is_same_demand { Arc::clone(&group.own) } else { Arc::new(demand.without_disks()) };
        // A client that stays where it is has what it shows.
        let is_elsewhere = before.epoch.abs_diff(epoch) > LATE_ROUNDS;
        let start = DemandStart { has_shown: start.has_shown || !is_elsewhere, ..start };
        let begins = own_from(&own, demand, start);
        // It cannot follow itself.
        let ahead = self.ahead(class, demand, epoch, |_, other| other != stream);
        let into = ahead.filter(|_| is_held && start.early_rounds == 0).map(|ahead| ahead.group);
        let wanted = Move { stream, class, demand, own, begins, start, epoch, before, into };
        let label = self.ledger.view(stream).map_or_else(String::new, |view| view.label.to_owned());
        let granted = match self.grant(&wanted, &label) {
            Err(refused) if !is_same_class => return Err(self.refusal_as_one(&wanted).unwrap_or(refused)),
            granted => granted?,
        };
        self.write_down(wanted, granted, &label);
        Ok(())
    }

    /// Notes the groups as the ledger has them now.
    fn write_down(&mut self, wanted: Move<'_>, granted: Granted, label: &str) {
        let Move { stream, class, demand, own, start, epoch, before, .. } = wanted;
        match granted {
            Granted::Joined(group) => {
                self.take_out(stream, before);
                self.list(stream, group, epoch);
            }
            Granted::StaysSingle => {
                self.remove_from_index(before.group);
                if let Some(group) = self.groups.get_mut(&before.group) {
                    (group.class, group.demand, group.own) = (class, Arc::clone(demand), own);
                    group.streams = BTreeSet::from([(epoch, stream)]);
                }
                self.index(before.group);
                self.list(stream, before.group, epoch);
            }
            Granted::MovedBehind(group) => {
                self.groups.insert(before.group, group);
                self.list(stream, before.group, epoch);
            }
            Granted::Left(group, reservation) => {
                self.groups.insert(before.group, group);
                let single = Single { class, demand, epoch, label, had: None };
                self.open_group(&single, own, stream, reservation);
            }
        }
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.is_spread = start.early_rounds > 0;
        }
    }

    /// Why a stream that needs all of its demand for itself is not granted that in another class.
    fn refusal_as_one(&mut self, wanted: &Move<'_>) -> Option<AdmitError> {
        let group = &self.groups[&wanted.before.group];
        let reservation = (group.streams.len() == 1).then_some(group.reservation);
        let front_end = self.ledger.reservation(wanted.stream)?.front_end;
        let sender = Sender { class: wanted.class, front_end };
        let DemandStart { from_round, start_round, .. } = wanted.start;
        let refused: Result<Infallible, Option<AdmitError>> = self.ledger.try_change(|ledger| {
            ledger.release(wanted.stream);
            if let Some(reservation) = reservation {
                ledger.release(reservation);
            }
            Err(ledger.check(sender, wanted.demand, from_round, start_round).err())
        });
        refused.map_or_else(|refusal| refusal, |never| match never {})
    }

    /// A stream leaves its group and continues with `demand` from its position. Nothing happens to
    /// a stream without others.
    ///
    /// # Errors
    /// As of [`change`](Self::change). A stream that needs no more of the disks than it holds for
    /// itself is not refused.
    pub fn leave(&mut self, stream: ReservationId, demand: &Arc<Demand>) -> Result<(), AdmitError> {
        let epoch = self.streams.get(&stream).ok_or(AdmitError::Ended(stream))?.epoch;
        if !self.is_sharing(stream) {
            return Ok(());
        }
        self.change(stream, demand, DemandStart::playing_on(epoch, self.ledger.now_round()), false)
    }

    /// Changes the ledger, if the move can be granted. Groups other than the one that is joined
    /// stay as they are: the caller writes down what was granted.
    fn grant(&mut self, wanted: &Move<'_>, label: &str) -> Result<Granted, AdmitError> {
        let Move { stream, class, epoch, before, into, .. } = *wanted;
        let rooms = into.map(|group| (group, self.room_beside(group)));
        let SharedReservations { ledger, groups, .. } = self;
        ledger.try_change(|ledger| {
            let had = ledger.reservation(stream);
            let DemandStart { from_round, .. } = wanted.start;
            ledger.reclass(stream, class, &wanted.begins, from_round, wanted.start.first_round())?;
            let from = &groups[&before.group];
            let (reservation, is_single) = (from.reservation, from.streams.len() == 1);
            if let Some((other, room)) = rooms.filter(|(other, _)| *other != before.group)
                && let Some(group) = groups.get_mut(&other)
            {
                let joined = ledger.try_change(|ledger| {
                    if is_single {
                        // It need not hold the disks both for itself and beside others.
                        ledger.release(reservation);
                    }
                    group.extend(ledger, room, epoch, stream)
                });
                if joined.is_ok() {
                    return Ok(Granted::Joined(other));
                }
            }
            if is_single {
                // The reservation is changed, not replaced: a stream that needs no more than it has
                // is granted that.
                let (shape, base) = shape(wanted.demand, &[epoch], ledger.now_round());
                ledger.reclass(reservation, class, &Arc::new(shape), 0, base)?;
                return Ok(Granted::StaysSingle);
            }
            let mut rest = groups[&before.group].clone();
            rest.streams.remove(&(before.epoch, stream));
            rest.settle(ledger);
            if let Some((_, room)) = rooms.filter(|(other, _)| *other == before.group)
                && ledger.try_change(|ledger| rest.extend(ledger, room, epoch, stream)).is_ok()
            {
                return Ok(Granted::MovedBehind(rest));
            }
            // What it had as a part of another class is no part of this one.
            let had = had.filter(|had| had.class == class);
            let single = Single { class, demand: wanted.demand, epoch, label, had: had.as_ref() };
            let reservation = single.reserve(ledger)?;
            Ok(Granted::Left(rest, reservation))
        })
    }
}
