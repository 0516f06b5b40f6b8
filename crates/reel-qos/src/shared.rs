//! Streams of the same bytes share one reservation of the disks (interval caching).
//!
//! ```text
//!   media time  -- last ----- middle ------- first -->   three streams of one demand: a group
//!                  |<------- interval ------->|          in memory, charged to the arena
//!                                         reads          charged to the disks: in each round
//!                                                        the largest demand of the three
//! ```
//! The first stream reads; the others find the data in memory. Any stream may become the first at
//! any moment without a new admission, since the one before it may leave, pause or seek. So in
//! every round the disks are charged with the largest demand that any stream of the group has in
//! it. Without one of the streams that is less or the same in every round: the streams that stay
//! lose nothing.
//!
//! Memory is charged with the interval between the first and the last stream, and with
//! [`REACH_ROUNDS`] that the first one's client fetches ahead. Network, processors and each
//! reader's own memory are charged to each stream by itself.
//!
//! **Joining.** At every moment only one stream of a group may have to read. So a stream joins
//! behind another one, never ahead of the first (it would still have to read the data up to there).
//! All data between the two must be in memory at that moment and kept from then on: the caller
//! checks that and says so. What the stream ahead reads after that is kept as well, and is charged.
//!
//! **What is shared** may be a part of a stream's demand ([`Demand::with_shared`]). Each stream
//! holds for itself what it would read if it played something else than the others. So it can leave
//! the group and play that without being refused.
//!
//! A stream without others is a group of one. It is charged as by a plain [`Ledger`].

mod change;
mod group;
mod meeting;
mod shape;

pub use meeting::Meeting;

use crate::claim::DemandStart;
use crate::demand::DiskDemand;
use crate::ledger::{Ledger, ReservationId};
use crate::limits::{INTERVALS_PERMILLE, LAG_ROUNDS_MAX, REACH_ROUNDS};
use crate::resource::{Overcommitment, UNLIMITED};
use crate::{AdmitError, Capacities, Class, ClassTable, Demand, Sender};
use group::{Group, NotShared, Room, Single};
use shape::{epoch, interval_bytes, signed};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

/// A ledger in which streams of the same bytes share the disks.
///
/// It is used as a [`Ledger`] is. A stream is named by the reservation of what it holds for itself.
#[derive(Clone, Debug)]
pub struct SharedReservations {
    ledger: Ledger,
    streams: HashMap<ReservationId, Stream>,
    groups: BTreeMap<u64, Group>,
    /// Groups by class and demand: only these can share.
    of_demand: HashMap<DemandKey, Vec<u64>>,
    /// Streams by the round after their last.
    ends: BTreeSet<(i64, ReservationId)>,
    next_group: u64,
}

/// A stream that another one could follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The stream.
    pub stream: ReservationId,
    /// Its group.
    pub group: u64,
}

/// The class and the address of the demand, which a group keeps alive.
type DemandKey = (usize, usize);

#[derive(Clone, Copy, Debug)]
struct Stream {
    group: u64,
    /// The round of media time 0; negative if that was before the clock's zero.
    epoch: i64,
    /// The round after its last.
    end_round: i64,
    /// Whether what it begins with is spread over rounds before that of its media time 0.
    is_spread: bool,
}

impl SharedReservations {
    /// Over a ledger without reservations.
    pub fn new(ledger: Ledger) -> SharedReservations {
        SharedReservations {
            ledger,
            streams: HashMap::new(),
            groups: BTreeMap::new(),
            of_demand: HashMap::new(),
            ends: BTreeSet::new(),
            next_group: 0,
        }
    }

    /// The ledger, for reading.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The stream that a new stream, or the stream `held`, would follow there: the next one ahead
    /// that plays the same.
    pub fn next_ahead(
        &self,
        class: Class,
        demand: &Arc<Demand>,
        start: DemandStart,
        held: Option<ReservationId>,
    ) -> Option<Ahead> {
        self.ahead(class, demand, epoch(start), |_, stream| Some(stream) != held)
    }

    /// The group of a stream, by a number that is never used for another group.
    pub fn group_of(&self, stream: ReservationId) -> Option<u64> {
        self.streams.get(&stream).map(|stream| stream.group)
    }

    /// The round of media time 0 of a stream; negative if that was before the clock's zero.
    pub fn epoch_of(&self, stream: ReservationId) -> Option<i64> {
        self.streams.get(&stream).map(|stream| stream.epoch)
    }

    /// What a stream plays, and its round of that at present.
    pub(crate) fn played_by(&self, stream: ReservationId) -> Option<(Class, &Demand, usize)> {
        let place = self.streams.get(&stream)?;
        let group = self.groups.get(&place.group)?;
        let at = signed(self.ledger.now_round()) - place.epoch;
        Some((group.class, &group.demand, usize::try_from(at).unwrap_or(0)))
    }

    /// Rounds of media that may be in memory for a group: from the last stream to what the first
    /// one's client has fetched.
    pub fn width_rounds(&self, group: u64) -> u64 {
        let ends = self.groups.get(&group).and_then(Group::ends);
        // Fits: a stream is followed from a limited distance, and never from ahead of it.
        ends.map_or(0, |(first, last)| (last - first).max(0) as u64 + REACH_ROUNDS as u64)
    }

    /// Bytes of the arena that would hold intervals at most if a stream joined a group there. Where
    /// the stream was before does not count.
    pub fn interval_bytes_with(&self, group: u64, start: DemandStart) -> u64 {
        let all_bytes = self.interval_bytes();
        let Some(group) = self.groups.get(&group) else { return all_bytes };
        let epoch = epoch(start);
        let (first, last) = group.ends().unwrap_or((epoch, epoch));
        let bytes = interval_bytes(group.demand.shared(), last.max(epoch) - first.min(epoch));
        all_bytes.saturating_add(bytes.saturating_sub(group.interval_bytes))
    }

    /// The streams of a group.
    pub fn streams_of(&self, group: u64) -> impl Iterator<Item = ReservationId> {
        self.groups.get(&group).into_iter().flat_map(|group| group.streams.iter().map(|(_, stream)| *stream))
    }

    /// As [`Ledger::admit`], except that disks are charged from the present on, wherever the start
    /// is.
    ///
    /// A stream whose start is spread over earlier rounds follows no other one until then.
    ///
    /// `is_held`: all data between this stream and the next one ahead that plays the same is in
    /// memory, and kept from now on. Then the stream is charged with memory for the interval, if
    /// that can be reserved, and not with the disks.
    ///
    /// # Errors
    /// As of [`Ledger::admit`].
    pub fn admit(
        &mut self,
        sender: impl Into<Sender>,
        demand: &Arc<Demand>,
        start: DemandStart,
        is_held: bool,
        label: &str,
    ) -> Result<ReservationId, AdmitError> {
        let (sender, epoch) = (sender.into(), epoch(start));
        let class = sender.class;
        if let Some(ahead) =
            self.ahead(class, demand, epoch, |_, _| true).filter(|_| is_held && start.early_rounds == 0)
        {
            match self.admit_into(ahead.group, sender, start, label) {
                Err(NotShared::Interval) => {}
                Err(NotShared::Refused(error)) => return Err(error),
                Ok(stream) => return Ok(stream),
            }
        }
        // As one demand first, so that a refusal names all that is needed. What fits as one demand
        // also fits as the two reservations that follow.
        let DemandStart { from_round, start_round, early_rounds, .. } = start;
        if early_rounds == 0 {
            self.ledger.check(sender, demand, from_round, start_round)?;
        }
        let own = Arc::new(demand.without_disks());
        let begins = own_from(&own, demand, start);
        let single = Single { class, demand, epoch, label, had: None };
        let (stream, reservation) = self.ledger.try_change(|ledger| -> Result<_, AdmitError> {
            let stream = ledger.admit(sender, &begins, from_round, start.first_round(), label)?;
            Ok((stream, single.reserve(ledger)?))
        })?;
        self.open_group(&single, own, stream, reservation);
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.is_spread = early_rounds > 0;
        }
        Ok(stream)
    }

    /// Admits a stream as one of a group, behind the stream that is ahead of it there.
    fn admit_into(
        &mut self,
        id: u64,
        sender: Sender,
        start: DemandStart,
        label: &str,
    ) -> Result<ReservationId, NotShared> {
        let (room, epoch) = (self.room_beside(id), epoch(start));
        let Some(group) = self.groups.get_mut(&id) else { return Err(NotShared::Interval) };
        let stream = self.ledger.try_change(|ledger| {
            let own = own_from(&group.own, &group.demand, start);
            let stream = ledger.admit(sender, &own, start.from_round, start.first_round(), label)?;
            group.extend(ledger, room, epoch, stream)?;
            Ok::<_, NotShared>(stream)
        })?;
        self.list(stream, id, epoch);
        Ok(stream)
    }

    /// Whether others share with a stream what one of them reads.
    pub fn is_sharing(&self, stream: ReservationId) -> bool {
        let group = self.group_of(stream).and_then(|group| self.groups.get(&group));
        group.is_some_and(|group| group.streams.len() > 1)
    }

    /// As [`Ledger::release`]: the stream ends, or is paused. The next one behind it reads in its
    /// place.
    pub fn release(&mut self, stream: ReservationId) -> bool {
        let Some(before) = self.streams.remove(&stream) else { return false };
        self.ends.remove(&(before.end_round, stream));
        self.ledger.release(stream);
        self.take_out(stream, before);
        true
    }

    /// As [`Ledger::advance`].
    pub fn advance(&mut self, now_round: u64) {
        self.ledger.advance(now_round);
        let now_round = signed(self.ledger.now_round());
        while let Some(&(end_round, stream)) = self.ends.first()
            && end_round <= now_round
        {
            self.ends.pop_first();
            self.release(stream);
        }
    }

    /// As [`Ledger::set_capacities`].
    pub fn set_capacities(&mut self, capacities: Capacities) -> Vec<Overcommitment> {
        self.ledger.set_capacities(capacities)
    }

    /// As [`Ledger::set_classes`].
    pub fn set_classes(&mut self, classes: ClassTable) -> Vec<Overcommitment> {
        self.ledger.set_classes(classes)
    }

    /// Bytes of the arena that hold intervals and cannot be used for anything else.
    pub fn interval_bytes(&self) -> u64 {
        self.groups.values().map(|group| group.interval_bytes).sum()
    }

    /// Streams that find in memory what others have read.
    pub fn followers(&self) -> usize {
        self.streams.len() - self.groups.len()
    }

    /// Streams, and groups of more than one.
    pub fn counts(&self) -> (usize, usize) {
        (self.streams.len(), self.groups.values().filter(|group| group.streams.len() > 1).count())
    }

    /// Whether the ledger is the sum of its reservations, and in every round to its end each stream
    /// has at least its own demand of the disks from its group. For simulations and tests.
    pub fn adds_up(&self) -> bool {
        let members: usize = self.groups.values().map(|group| group.streams.len()).sum();
        self.ledger.adds_up()
            && members == self.streams.len()
            && self.streams.iter().all(|(&stream, place)| self.is_covered(stream, place))
    }

    fn is_covered(&self, stream: ReservationId, place: &Stream) -> bool {
        let Some(group) = self.groups.get(&place.group) else { return false };
        let is_shared = group.streams.len() > 1;
        let needs = if is_shared { group.demand.shared() } else { &group.demand };
        let beside = group.demand.beside().filter(|_| is_shared);
        group.streams.contains(&(place.epoch, stream))
            && self.has(group.reservation, needs, place)
            && beside.is_none_or(|beside| self.has(stream, beside, place))
    }

    /// Whether a reservation has in every round from the present to the end of a stream at least
    /// the reads of this demand.
    fn has(&self, reservation: ReservationId, needs: &Demand, place: &Stream) -> bool {
        let now_round = signed(self.ledger.now_round());
        let Some(held) = self.ledger.view(reservation) else {
            // The reservation has come to its end.
            return place.end_round <= now_round;
        };
        (0..needs.members()).all(|member| {
            needs.reads(member).iter().enumerate().all(|(round, needed)| {
                let at = place.epoch + round as i64;
                if at < now_round || *needed == DiskDemand::default() {
                    return true;
                }
                let later = usize::try_from(at - signed(held.start_round)).ok();
                let held = later.and_then(|later| held.demand.reads(member).get(later + held.from_round));
                held.is_some_and(|held| held.most(needed) == *held)
            })
        })
    }

    /// The next stream ahead that plays the same, of those that `may_lead`. `None` if it is too far
    /// ahead to be followed.
    fn ahead(
        &self,
        class: Class,
        demand: &Arc<Demand>,
        epoch: i64,
        may_lead: impl Fn(u64, ReservationId) -> bool,
    ) -> Option<Ahead> {
        // Memory of unknown size cannot be reserved.
        if self.ledger.capacities().arena_bytes == UNLIMITED {
            return None;
        }
        let next_of = |id: &u64| {
            let group = self.groups.get(id)?;
            let mut ahead = group.streams.range(..=(epoch, ReservationId(u64::MAX))).rev();
            let (next, stream) =
                ahead.find(|(_, stream)| may_lead(*id, *stream) && !self.is_spreading(*stream))?;
            Some((*next, *id, *stream, group.streams.first()?.0))
        };
        let (_, group, stream, first) =
            self.of_demand.get(&demand_key(class, demand))?.iter().filter_map(next_of).max()?;
        (epoch - first <= LAG_ROUNDS_MAX).then_some(Ahead { stream, group })
    }

    /// Whether a stream is sent what it begins with over a longer time, and its media time 0 is yet
    /// to come. Until then it holds reads of its own, and shares nothing.
    fn is_spreading(&self, stream: ReservationId) -> bool {
        let now_round = signed(self.ledger.now_round());
        self.streams.get(&stream).is_some_and(|stream| stream.is_spread && stream.epoch > now_round)
    }

    /// The memory that a group may hold for its interval beside those of all other groups.
    fn room_beside(&self, group: u64) -> Room {
        let own_bytes = self.groups.get(&group).map_or(0, |group| group.interval_bytes);
        let others_bytes = self.interval_bytes() - own_bytes;
        Room { others_bytes, most_bytes: self.interval_bytes_most() }
    }

    /// Bytes that all intervals together may take.
    fn interval_bytes_most(&self) -> u128 {
        u128::from(self.ledger.capacities().arena_bytes) * u128::from(INTERVALS_PERMILLE) / 1000
    }

    /// Opens a group of one for a stream, with its reservation of the disks.
    fn open_group(
        &mut self,
        single: &Single<'_>,
        own: Arc<Demand>,
        stream: ReservationId,
        reservation: ReservationId,
    ) {
        let id = self.next_group;
        self.next_group += 1;
        let Single { class, demand, epoch, .. } = *single;
        let streams = BTreeSet::from([(epoch, stream)]);
        self.groups.insert(id, Group::new(class, Arc::clone(demand), own, reservation, streams));
        self.index(id);
        self.list(stream, id, epoch);
    }

    /// Removes a stream from its group: the group holds what the others need, which is no more in
    /// any round. An empty group ends.
    fn take_out(&mut self, stream: ReservationId, place: Stream) {
        let Some(group) = self.groups.get_mut(&place.group) else { return };
        group.streams.remove(&(place.epoch, stream));
        if group.streams.is_empty() {
            self.ledger.release(group.reservation);
            self.close_group(place.group);
            return;
        }
        let Ok(()) = self.ledger.try_change(|ledger| {
            group.settle(ledger);
            Ok::<(), Infallible>(())
        });
    }

    fn list(&mut self, stream: ReservationId, group: u64, epoch: i64) {
        let rounds = self.groups.get(&group).map_or(0, |group| group.demand.rounds());
        let end_round = epoch + signed(rounds as u64);
        if let Some(before) =
            self.streams.insert(stream, Stream { group, epoch, end_round, is_spread: false })
        {
            self.ends.remove(&(before.end_round, stream));
        }
        self.ends.insert((end_round, stream));
    }

    fn index(&mut self, id: u64) {
        if let Some(group) = self.groups.get(&id) {
            self.of_demand.entry(demand_key(group.class, &group.demand)).or_default().push(id);
        }
    }

    fn remove_from_index(&mut self, id: u64) {
        let Some(group) = self.groups.get(&id) else { return };
        let key = demand_key(group.class, &group.demand);
        if let Some(all) = self.of_demand.get_mut(&key) {
            all.retain(|other| *other != id);
            if all.is_empty() {
                self.of_demand.remove(&key);
            }
        }
    }

    fn close_group(&mut self, id: u64) {
        self.remove_from_index(id);
        self.groups.remove(&id);
    }
}

/// What a stream that begins there holds for itself: with the segment that is shown there, if its
/// client does not have it.
fn own_from(own: &Arc<Demand>, demand: &Demand, start: DemandStart) -> Arc<Demand> {
    if start.early_rounds > 0 && start.from_round == 0 {
        return Arc::new(demand.without_disks_spread(start.early_rounds));
    }
    match start.from_round.min(demand.ahead_rounds()) {
        0 => Arc::clone(own),
        _ if start.has_shown => Arc::clone(own),
        _ => Arc::new(demand.without_disks_from(start.from_round)),
    }
}

fn demand_key(class: Class, demand: &Arc<Demand>) -> DemandKey {
    (class.index(), Arc::as_ptr(demand) as usize)
}
