//! The streams that share one reservation of the disks.

use super::shape::shape;
use crate::claim::{DemandStart, Reservation};
use crate::ledger::ReservationId;
use crate::limits::GROUP_EXACT_STREAMS;
use crate::transaction::Transaction;
use crate::{AdmitError, Class, Demand};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Streams of one class and demand.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) class: Class,
    pub(super) demand: Arc<Demand>,
    /// What each stream holds for itself.
    pub(super) own: Arc<Demand>,
    /// Disks for one of them, memory for the interval.
    pub(super) reservation: ReservationId,
    /// By epoch: the stream that is farthest on is the first.
    pub(super) streams: BTreeSet<(i64, ReservationId)>,
    pub(super) interval_bytes: u64,
    /// The epochs of the first and the last stream, if all places between them are charged. Then a
    /// stream that joins or leaves between them changes nothing.
    between: Option<(i64, i64)>,
}

/// A stream that is to have the disks for itself.
pub(super) struct Single<'a> {
    pub(super) class: Class,
    pub(super) demand: &'a Arc<Demand>,
    pub(super) epoch: i64,
    pub(super) label: &'a str,
    /// The reservation that it had before.
    pub(super) had: Option<&'a Reservation>,
}

/// The memory for intervals.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// What other groups hold.
    pub(super) others_bytes: u64,
    /// What all groups may hold.
    pub(super) most_bytes: u128,
}

/// Why a stream does not join a group.
pub(super) enum NotShared {
    /// What it holds for itself was refused.
    Refused(AdmitError),
    /// The group cannot hold what it would need.
    Interval,
}

impl Room {
    /// Whether an interval of this size fits.
    fn holds(self, interval_bytes: u64) -> bool {
        u128::from(self.others_bytes) + u128::from(interval_bytes) <= self.most_bytes
    }
}

impl From<AdmitError> for NotShared {
    fn from(error: AdmitError) -> NotShared {
        NotShared::Refused(error)
    }
}

impl Single<'_> {
    /// The reservation of the disks. It is granted without a check if the stream had all of it
    /// before as a part of another reservation.
    pub(super) fn reserve(&self, ledger: &mut Transaction<'_>) -> Result<ReservationId, AdmitError> {
        let Single { class, demand, epoch, label, had } = *self;
        let now_round = ledger.now_round();
        let (shape, base) = shape(demand, &[epoch], now_round);
        let shape = Arc::new(shape);
        match ledger.admit(class, &shape, 0, base, label) {
            Err(_)
                if had.is_some_and(|had| {
                    ledger.has(had, demand, DemandStart::playing_on(epoch, now_round))
                }) =>
            {
                Ok(ledger.admit_unchecked(class, &shape, base, label))
            }
            decision => decision,
        }
    }
}

impl Group {
    /// A group whose interval is not charged: of one stream.
    pub(super) fn new(
        class: Class,
        demand: Arc<Demand>,
        own: Arc<Demand>,
        reservation: ReservationId,
        streams: BTreeSet<(i64, ReservationId)>,
    ) -> Group {
        Group { class, demand, own, reservation, streams, interval_bytes: 0, between: None }
    }

    /// The epochs of the first and the last stream.
    pub(super) fn ends(&self) -> Option<(i64, i64)> {
        Some((self.streams.first()?.0, self.streams.last()?.0))
    }

    /// The epochs of all streams, ascending.
    pub(super) fn epochs(&self) -> Vec<i64> {
        self.streams.iter().map(|(epoch, _)| *epoch).collect()
    }

    /// Holds one more stream. On an error the group is as before; the caller rolls the ledger back.
    pub(super) fn extend(
        &mut self,
        ledger: &mut Transaction<'_>,
        room: Room,
        epoch: i64,
        stream: ReservationId,
    ) -> Result<(), NotShared> {
        let mut interval_bytes = self.interval_bytes;
        if !self.is_charged_with(epoch) {
            let mut epochs = self.epochs();
            epochs.insert(epochs.partition_point(|&other| other <= epoch), epoch);
            let (shape, base) = shape(&self.demand, &epochs, ledger.now_round());
            interval_bytes = shape.held_bytes();
            if !room.holds(interval_bytes) {
                return Err(NotShared::Interval);
            }
            let changed = ledger.change(self.reservation, &Arc::new(shape), 0, base);
            changed.map_err(|_| NotShared::Interval)?;
        }
        let was_alone = self.streams.first().copied().filter(|_| self.streams.len() == 1);
        let new: Vec<_> = was_alone.into_iter().chain([(epoch, stream)]).collect();
        hold_beside(ledger, &self.demand, &new).map_err(|_| NotShared::Interval)?;
        self.streams.insert((epoch, stream));
        self.note(interval_bytes);
        Ok(())
    }

    /// A stream was removed: the group holds what the others need, which is no more in any round.
    pub(super) fn settle(&mut self, ledger: &mut Transaction<'_>) {
        if self.is_charged() {
            return;
        }
        let now_round = ledger.now_round();
        if let (1, Some(&(epoch, last)), Some(_)) =
            (self.streams.len(), self.streams.first(), self.demand.beside())
        {
            // The group holds all of its demand again. That is no more than the stream held for
            // itself and the group for all.
            ledger.reduce(last, &self.own, DemandStart::playing_on(epoch, now_round));
        }
        let (shape, base) = shape(&self.demand, &self.epochs(), now_round);
        self.note(shape.held_bytes());
        ledger.reduce(self.reservation, &Arc::new(shape), DemandStart::new(0, base));
    }

    /// Notes what the group is charged with for its interval.
    pub(super) fn note(&mut self, interval_bytes: u64) {
        self.interval_bytes = interval_bytes;
        self.between = if self.streams.len() > GROUP_EXACT_STREAMS { self.ends() } else { None };
    }

    /// Whether the charge is right for any streams between the first and the last.
    fn is_charged(&self) -> bool {
        self.streams.len() > GROUP_EXACT_STREAMS && self.between.is_some() && self.between == self.ends()
    }

    /// Whether it also is with one more stream.
    fn is_charged_with(&self, epoch: i64) -> bool {
        let is_within = self.between.is_some_and(|(first, last)| (first..=last).contains(&epoch));
        self.streams.len() >= GROUP_EXACT_STREAMS && is_within && self.between == self.ends()
    }
}

/// Streams that begin to share hold for themselves what no other stream reads for them.
pub(super) fn hold_beside(
    ledger: &mut Transaction<'_>,
    demand: &Demand,
    streams: &[(i64, ReservationId)],
) -> Result<(), AdmitError> {
    let Some(beside) = demand.beside() else { return Ok(()) };
    for (epoch, stream) in streams {
        let DemandStart { from_round, start_round, .. } = DemandStart::playing_on(*epoch, ledger.now_round());
        ledger.change(*stream, beside, from_round, start_round)?;
    }
    Ok(())
}
