//! Streams that share what one of them reads: the disks are charged once for all of them.
//!
//! ```text
//!   media time   ---- last ------ middle ---------- first ---->      three streams of one demand, a chain
//!                     |<--------- interval ------------->|           in memory, charged to the arena
//!                                                        reads       charged to the disks: in each round what the one of them asks
//!                                                                    that asks the most
//! ```
//! Whoever is first reads; the others find it in memory. Which of them that is may change at any moment, without asking: a leader
//! may leave, pause or seek. So the disks are charged, in every round, with the most that any stream of the chain asks in it. Take
//! one out, and that is less or the same in every round: nobody who stays can lose what he was promised.
//!
//! Memory is charged with the interval between the first and the last, and with [`REACH_ROUNDS`] of what the first one's client fetches
//! ahead. Network, processors and each reader's own memory are charged to each stream as ever.
//!
//! **Who may join.** At every moment only one of a chain may have to read. So a stream joins behind another one, never ahead of the
//! leader (who would still have to read up to there), and only if all that lies between them is in memory at that moment and is
//! kept from then on: the caller looks, and says so. What the one ahead reads after that is kept as well, and is charged.
//!
//! **What is shared** may be a part of what a stream asks ([`Demand::with_shared`]). What it would read if it played something else than the others, each holds
//! for itself while it shares; so it can leave the others and go on with that, and is not refused.
//!
//! A stream alone is a chain of one, charged as it would be without chains.

mod meeting;
mod shape;

pub use meeting::Meeting;

use crate::ask::Reservation;
use crate::demand::DiskDemand;
use crate::ledger::{Ledger, ReservationId};
use crate::limits::{CHAIN_EXACT_STREAMS, INTERVALS_PERMILLE, LAG_ROUNDS_MAX, REACH_ROUNDS};
use crate::resource::{Overcommitment, UNLIMITED};
use crate::{AdmitError, Capacities, Class, ClassTable, Demand};
use shape::{epoch, interval_bytes, place, shape, signed};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A ledger in which streams of the same bytes share the disks.
///
/// It is used as a [`Ledger`] is; a stream is called by the reservation of what it holds for itself.
#[derive(Clone, Debug)]
pub struct Chains {
    ledger: Ledger,
    streams: HashMap<ReservationId, Stream>,
    chains: BTreeMap<u64, Chain>,
    /// Chains by class and demand: who can share at all.
    of_demand: HashMap<Shelf, Vec<u64>>,
    /// Streams by the round after their last.
    ends: BTreeSet<(i64, ReservationId)>,
    next_chain: u64,
}

/// The class and the address of the demand, which a chain keeps alive.
type Shelf = (usize, usize);

#[derive(Clone, Copy, Debug)]
struct Stream {
    chain: u64,
    /// The round of media time 0; before the clock's own zero if the film is far on.
    epoch: i64,
    /// The round after its last.
    end_round: i64,
}

#[derive(Clone, Debug)]
struct Chain {
    class: Class,
    demand: Arc<Demand>,
    /// What each stream holds for itself.
    own: Arc<Demand>,
    /// Disks for one of them, memory for the interval.
    reservation: ReservationId,
    /// By epoch, so the one that is farthest on is the first.
    streams: BTreeSet<(i64, ReservationId)>,
    interval_bytes: u64,
    /// The ends for which all places between them are charged: then nobody between them changes anything.
    between: Option<(i64, i64)>,
}

/// A stream that begins to be charged by itself.
struct Alone<'a> {
    class: Class,
    demand: &'a Arc<Demand>,
    own: Arc<Demand>,
    epoch: i64,
    stream: ReservationId,
    label: &'a str,
    /// What it held until now.
    had: Option<&'a Reservation>,
}

impl Chains {
    /// Over a ledger of which nothing is promised yet.
    pub fn new(ledger: Ledger) -> Chains {
        Chains {
            ledger,
            streams: HashMap::new(),
            chains: BTreeMap::new(),
            of_demand: HashMap::new(),
            ends: BTreeSet::new(),
            next_chain: 0,
        }
    }

    /// The account itself: for what only reads it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whom a stream would follow that is `held` already or none yet: the next one ahead that plays the same, and its chain.
    pub fn next_ahead(
        &self,
        class: Class,
        demand: &Arc<Demand>,
        (from_round, start_round): (usize, u64),
        held: Option<ReservationId>,
    ) -> Option<(ReservationId, u64)> {
        self.ahead(class, demand, epoch(from_round, start_round), |_, stream| Some(stream) != held)
    }

    /// The chain of a stream, by a number that no other chain ever has.
    pub fn chain_of(&self, stream: ReservationId) -> Option<u64> {
        self.streams.get(&stream).map(|stream| stream.chain)
    }

    /// What a stream plays, and in which round of it it is.
    pub(crate) fn played_by(&self, stream: ReservationId) -> Option<(Class, &Demand, usize)> {
        let place = self.streams.get(&stream)?;
        let chain = self.chains.get(&place.chain)?;
        let at = signed(self.ledger.now_round()) - place.epoch;
        Some((chain.class, &chain.demand, usize::try_from(at).unwrap_or(0)))
    }

    /// How many rounds of media may lie in memory for a chain: from the last stream to what the first one's client has fetched.
    pub fn width_rounds(&self, chain: u64) -> u64 {
        let ends = self.chains.get(&chain).and_then(Chain::ends);
        // Fits: what is followed is not far ahead, and never behind.
        ends.map_or(0, |(first, last)| (last - first).max(0) as u64 + REACH_ROUNDS as u64)
    }

    /// Bytes of the arena that would hold intervals at most if a stream joined a chain there, wherever it was before.
    pub fn interval_bytes_with(&self, chain: u64, (from_round, start_round): (usize, u64)) -> u64 {
        let all_bytes = self.interval_bytes();
        let Some(chain) = self.chains.get(&chain) else { return all_bytes };
        let epoch = epoch(from_round, start_round);
        let (first, last) = chain.ends().unwrap_or((epoch, epoch));
        let bytes = interval_bytes(chain.demand.shared(), last.max(epoch) - first.min(epoch));
        all_bytes.saturating_add(bytes.saturating_sub(chain.interval_bytes))
    }

    /// The streams of a chain.
    pub fn streams_of(&self, chain: u64) -> impl Iterator<Item = ReservationId> {
        self.chains.get(&chain).into_iter().flat_map(|chain| chain.streams.iter().map(|(_, stream)| *stream))
    }

    /// As [`Ledger::admit`], except that disks are charged from the present on, wherever the start lies.
    ///
    /// `is_held`: everything between this stream and the next one ahead that plays the same is in memory, and kept from now on. Then
    /// it is charged with memory for the interval, if that can be promised, and not with the disks.
    pub fn admit(
        &mut self,
        class: Class,
        demand: &Arc<Demand>,
        (from_round, start_round): (usize, u64),
        is_held: bool,
        label: &str,
    ) -> Result<ReservationId, AdmitError> {
        let epoch = epoch(from_round, start_round);
        if let Some((_, chain)) = self.ahead(class, demand, epoch, |_, _| true).filter(|_| is_held) {
            let own = Arc::clone(&self.chains[&chain].own);
            let stream = self.ledger.admit(class, &own, from_round, start_round, label)?;
            if self.extend(chain, epoch, stream) {
                self.list(stream, chain, epoch);
                return Ok(stream);
            }
            self.ledger.release(stream);
        }
        // In one piece, so that a refusal tells of all that is asked; then it fits in two pieces, too.
        self.ledger.check(class, demand, from_round, start_round)?;
        let own = Arc::new(demand.without_disks());
        let stream = self.ledger.admit(class, &own, from_round, start_round, label)?;
        match self.begin(Alone { class, demand, own, epoch, stream, label, had: None }) {
            Ok(chain) => {
                self.list(stream, chain, epoch);
                Ok(stream)
            }
            Err(error) => {
                self.ledger.release(stream);
                Err(error)
            }
        }
    }

    /// As [`Ledger::change`]: all or nothing. Whoever was behind it is charged with the disks in its place, which costs nobody more than
    /// was charged before.
    pub fn change(
        &mut self,
        stream: ReservationId,
        demand: &Arc<Demand>,
        (from_round, start_round): (usize, u64),
        is_held: bool,
    ) -> Result<(), AdmitError> {
        let before = *self.streams.get(&stream).ok_or(AdmitError::Ended(stream))?;
        let epoch = epoch(from_round, start_round);
        let chain = &self.chains[&before.chain];
        if Arc::ptr_eq(&chain.demand, demand) && before.epoch == epoch {
            return Ok(());
        }
        let class = chain.class;
        // Nothing of this takes long, and the ledger is large: what is changed is put back by hand if it comes to that.
        let kept_own = self.ledger.kept(stream);
        let kept_chain = self.ledger.kept(chain.reservation);
        let was_alone = chain.streams.len() == 1;
        let (interval_bytes, between) = (chain.interval_bytes, chain.between);
        // Of two, the other one is alone for a while.
        let other = chain.streams.iter().map(|(_, other)| *other).find(|other| *other != stream);
        let kept_other =
            other.filter(|_| chain.streams.len() == 2).map(|other| (other, self.ledger.kept(other)));
        let label = self.ledger.view(stream).map_or_else(String::new, |view| view.label.to_owned());
        let own = if Arc::ptr_eq(&chain.demand, demand) {
            Arc::clone(&chain.own)
        } else {
            Arc::new(demand.without_disks())
        };
        self.ledger.change(stream, &own, from_round, start_round)?;
        let taken_out = |chains: &mut Chains| {
            if let Some(chain) = chains.chains.get_mut(&before.chain) {
                chain.streams.remove(&(before.epoch, stream));
            }
            chains.settle(before.chain);
        };
        // Itself is no one to follow.
        let ahead = self.ahead(class, demand, epoch, |_, other| other != stream);
        let ahead = ahead.filter(|_| is_held).map(|(_, chain)| chain);
        if let Some(other) = ahead.filter(|other| *other != before.chain) {
            // What it holds alone it gives back for what it holds beside others, and need not have both.
            let alone = self.chains[&before.chain].reservation;
            if was_alone {
                self.ledger.release(alone);
            }
            if self.extend(other, epoch, stream) {
                taken_out(self);
                self.list(stream, other, epoch);
                return Ok(());
            }
            if was_alone {
                self.ledger.put_back(alone, kept_chain.clone());
            }
        }
        if was_alone {
            // It keeps its reservation, so that who asks no more than he has is granted it.
            let (shape, base) = shape(demand, &BTreeSet::from([(epoch, stream)]), self.ledger.now_round());
            let reservation = self.chains[&before.chain].reservation;
            return match self.ledger.change(reservation, &Arc::new(shape), 0, base) {
                Ok(()) => {
                    self.unlist(before.chain);
                    if let Some(chain) = self.chains.get_mut(&before.chain) {
                        (chain.demand, chain.own) = (Arc::clone(demand), own);
                        chain.streams = BTreeSet::from([(epoch, stream)]);
                    }
                    self.shelve(before.chain);
                    self.list(stream, before.chain, epoch);
                    Ok(())
                }
                Err(error) => {
                    self.ledger.put_back(stream, kept_own);
                    Err(error)
                }
            };
        }
        taken_out(self);
        // A little farther behind in the chain that it is in.
        if ahead == Some(before.chain) && self.extend(before.chain, epoch, stream) {
            self.list(stream, before.chain, epoch);
            return Ok(());
        }
        let had = kept_own.as_ref();
        match self.begin(Alone { class, demand, own, epoch, stream, label: &label, had }) {
            Ok(chain) => {
                self.list(stream, chain, epoch);
                Ok(())
            }
            Err(error) => {
                self.ledger.put_back(stream, kept_own);
                if let Some(chain) = self.chains.get_mut(&before.chain) {
                    chain.streams.insert((before.epoch, stream));
                    (chain.interval_bytes, chain.between) = (interval_bytes, between);
                    self.ledger.put_back(chain.reservation, kept_chain);
                    if let Some((other, kept)) = kept_other {
                        self.ledger.put_back(other, kept);
                    }
                }
                Err(error)
            }
        }
    }

    /// A stream leaves those with whom it shares and goes on alone with `demand`, from where it is; nothing happens to one that is alone. Who asks no more of the
    /// disks than it holds for itself is not refused.
    pub fn leave(&mut self, stream: ReservationId, demand: &Arc<Demand>) -> Result<(), AdmitError> {
        let epoch = self.streams.get(&stream).ok_or(AdmitError::Ended(stream))?.epoch;
        if !self.is_sharing(stream) {
            return Ok(());
        }
        self.change(stream, demand, place(epoch, self.ledger.now_round()), false)
    }

    /// Whether others share with a stream what one of them reads.
    pub fn is_sharing(&self, stream: ReservationId) -> bool {
        let chain = self.chain_of(stream).and_then(|chain| self.chains.get(&chain));
        chain.is_some_and(|chain| chain.streams.len() > 1)
    }

    /// As [`Ledger::release`]: the stream ends, or is paused. The next one behind it reads in its place.
    pub fn release(&mut self, stream: ReservationId) -> bool {
        let Some(before) = self.streams.remove(&stream) else { return false };
        self.ends.remove(&(before.end_round, stream));
        self.ledger.release(stream);
        if let Some(chain) = self.chains.get_mut(&before.chain) {
            chain.streams.remove(&(before.epoch, stream));
        }
        self.settle(before.chain);
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

    /// Bytes of the arena that hold intervals: nobody else may have them.
    pub fn interval_bytes(&self) -> u64 {
        self.chains.values().map(|chain| chain.interval_bytes).sum()
    }

    /// Streams that find in memory what others have read.
    pub fn followers(&self) -> usize {
        self.streams.len() - self.chains.len()
    }

    /// Streams, and chains of more than one.
    pub fn counts(&self) -> (usize, usize) {
        (self.streams.len(), self.chains.values().filter(|chain| chain.streams.len() > 1).count())
    }

    /// Whether the ledger is the sum of its reservations, and every stream has its disks from its chain: in every round to its end at least
    /// what it asks. For simulations and tests.
    pub fn adds_up(&self) -> bool {
        let now_round = self.ledger.now_round();
        let is_covered = |(stream, place): (&ReservationId, &Stream)| {
            let Some(chain) = self.chains.get(&place.chain) else { return false };
            // Whether a reservation has in every round to the end at least what is asked.
            let has = |reservation: ReservationId, asks: &Demand| {
                let Some(kept) = self.ledger.view(reservation) else {
                    // It has come to its end.
                    return place.end_round <= signed(now_round);
                };
                (0..asks.members()).all(|member| {
                    let mut asked = asks.reads(member).iter().enumerate();
                    asked.all(|(round, asked)| {
                        let at = place.epoch + round as i64;
                        let later = at - signed(kept.start_round);
                        // What is past asks nothing any more.
                        at < signed(now_round) || {
                            let held = usize::try_from(later)
                                .ok()
                                .and_then(|later| kept.demand.reads(member).get(later + kept.from_round));
                            held.is_some_and(|held| covers(held, asked)) || *asked == DiskDemand::default()
                        }
                    })
                })
            };
            let is_shared = chain.streams.len() > 1;
            let asks = if is_shared { chain.demand.shared() } else { &chain.demand };
            let beside = chain.demand.beside().filter(|_| is_shared);
            chain.streams.contains(&(place.epoch, *stream))
                && has(chain.reservation, asks)
                && beside.is_none_or(|beside| has(*stream, beside))
        };
        let members: usize = self.chains.values().map(|chain| chain.streams.len()).sum();
        self.ledger.adds_up() && members == self.streams.len() && self.streams.iter().all(is_covered)
    }

    /// The next stream ahead that plays the same, and its chain, of those that `may_lead`; none if it is too far ahead to be followed.
    fn ahead(
        &self,
        class: Class,
        demand: &Arc<Demand>,
        epoch: i64,
        may_lead: impl Fn(u64, ReservationId) -> bool,
    ) -> Option<(ReservationId, u64)> {
        // Of memory that nobody has counted nothing can be promised.
        if self.ledger.capacities().arena_bytes == UNLIMITED {
            return None;
        }
        let next_of = |id: &u64| {
            let chain = self.chains.get(id)?;
            let mut ahead = chain.streams.range(..=(epoch, ReservationId(u64::MAX))).rev();
            let (next, stream) = ahead.find(|(_, stream)| may_lead(*id, *stream))?;
            Some((*next, *id, *stream, chain.streams.first()?.0))
        };
        let (_, id, stream, first) =
            self.of_demand.get(&shelf(class, demand))?.iter().filter_map(next_of).max()?;
        (epoch - first <= LAG_ROUNDS_MAX).then_some((stream, id))
    }

    /// Has a chain hold one more stream; `false`, and as before, if it cannot be promised.
    fn extend(&mut self, id: u64, epoch: i64, stream: ReservationId) -> bool {
        let most = self.interval_bytes_most();
        let (now_round, all_bytes) = (self.ledger.now_round(), self.interval_bytes());
        let Some(chain) = self.chains.get_mut(&id) else { return false };
        let held = self.ledger.kept(chain.reservation);
        let was_alone = chain.streams.first().copied().filter(|_| chain.streams.len() == 1);
        chain.streams.insert((epoch, stream));
        let mut interval_bytes = chain.interval_bytes;
        let is_charged = chain.is_charged() || {
            let (shape, base) = shape(&chain.demand, &chain.streams, now_round);
            interval_bytes = shape.held_bytes();
            u128::from(all_bytes - chain.interval_bytes + interval_bytes) <= most
                && self.ledger.change(chain.reservation, &Arc::new(shape), 0, base).is_ok()
        };
        let new: Vec<_> = was_alone.into_iter().chain([(epoch, stream)]).collect();
        let is_granted = is_charged && hold_beside(&mut self.ledger, &chain.demand, &new);
        if is_granted {
            chain.note(interval_bytes);
        } else {
            chain.streams.remove(&(epoch, stream));
            self.ledger.put_back(chain.reservation, held);
        }
        is_granted
    }

    /// Bytes that intervals may take.
    fn interval_bytes_most(&self) -> u128 {
        u128::from(self.ledger.capacities().arena_bytes) * u128::from(INTERVALS_PERMILLE) / 1000
    }

    /// A chain of one.
    fn begin(&mut self, alone: Alone<'_>) -> Result<u64, AdmitError> {
        let Alone { class, demand, own, epoch, stream, label, had } = alone;
        let (streams, now_round) = (BTreeSet::from([(epoch, stream)]), self.ledger.now_round());
        let (shape, base) = shape(demand, &streams, now_round);
        let shape = Arc::new(shape);
        let reservation = match self.ledger.admit(class, &shape, 0, base, label) {
            Ok(reservation) => reservation,
            // It has been promised all of that, as a part of something else.
            Err(_) if had.is_some_and(|had| self.ledger.has(had, demand, place(epoch, now_round))) => {
                self.ledger.admit_unasked(class, &shape, base, label)
            }
            Err(error) => return Err(error),
        };
        let id = self.next_chain;
        self.next_chain += 1;
        let demand = Arc::clone(demand);
        let chain = Chain { class, demand, own, reservation, streams, interval_bytes: 0, between: None };
        self.chains.insert(id, chain);
        self.shelve(id);
        Ok(id)
    }

    /// A stream has left a chain: it holds what the others need, which is no more in any round.
    fn settle(&mut self, id: u64) {
        let now_round = self.ledger.now_round();
        let Some(chain) = self.chains.get_mut(&id) else { return };
        if chain.streams.is_empty() {
            self.ledger.release(chain.reservation);
            self.unlist(id);
            self.chains.remove(&id);
            return;
        }
        if chain.is_charged() {
            return;
        }
        if let (1, Some(&(epoch, alone)), Some(_)) =
            (chain.streams.len(), chain.streams.first(), chain.demand.beside())
        {
            // All that it asks is the chain's again, which is no more than it held for itself and the chain for others.
            self.ledger.put(alone, &chain.own, place(epoch, now_round));
        }
        let (shape, base) = shape(&chain.demand, &chain.streams, now_round);
        chain.note(shape.held_bytes());
        self.ledger.put(chain.reservation, &Arc::new(shape), (0, base));
    }

    fn list(&mut self, stream: ReservationId, chain: u64, epoch: i64) {
        let rounds = self.chains.get(&chain).map_or(0, |chain| chain.demand.rounds());
        let end_round = epoch + signed(rounds as u64);
        if let Some(before) = self.streams.insert(stream, Stream { chain, epoch, end_round }) {
            self.ends.remove(&(before.end_round, stream));
        }
        self.ends.insert((end_round, stream));
    }

    fn shelve(&mut self, id: u64) {
        if let Some(chain) = self.chains.get(&id) {
            self.of_demand.entry(shelf(chain.class, &chain.demand)).or_default().push(id);
        }
    }

    fn unlist(&mut self, id: u64) {
        let Some(chain) = self.chains.get(&id) else { return };
        let shelf = shelf(chain.class, &chain.demand);
        if let Some(all) = self.of_demand.get_mut(&shelf) {
            all.retain(|other| *other != id);
            if all.is_empty() {
                self.of_demand.remove(&shelf);
            }
        }
    }
}

impl Chain {
    fn ends(&self) -> Option<(i64, i64)> {
        Some((self.streams.first()?.0, self.streams.last()?.0))
    }

    /// Whether what is charged is what its streams ask, whoever of them is between the ends.
    fn is_charged(&self) -> bool {
        self.streams.len() > CHAIN_EXACT_STREAMS && self.between.is_some() && self.between == self.ends()
    }

    /// What it is charged with has changed.
    fn note(&mut self, interval_bytes: u64) {
        self.interval_bytes = interval_bytes;
        self.between = if self.streams.len() > CHAIN_EXACT_STREAMS { self.ends() } else { None };
    }
}

fn covers(held: &DiskDemand, asked: &DiskDemand) -> bool {
    held.most(asked) == *held
}

fn shelf(class: Class, demand: &Arc<Demand>) -> Shelf {
    (class.index(), Arc::as_ptr(demand) as usize)
}

/// Has streams that share from now on hold for themselves what no one reads for them; all of them or, if it cannot be promised, none.
fn hold_beside(ledger: &mut Ledger, demand: &Demand, streams: &[(i64, ReservationId)]) -> bool {
    let Some(beside) = demand.beside() else { return true };
    let kept: Vec<_> = streams.iter().map(|(_, stream)| (*stream, ledger.kept(*stream))).collect();
    let is_granted = streams.iter().all(|(epoch, stream)| {
        let (from_round, start_round) = place(*epoch, ledger.now_round());
        ledger.change(*stream, beside, from_round, start_round).is_ok()
    });
    if !is_granted {
        kept.into_iter().for_each(|(stream, kept)| ledger.put_back(stream, kept));
    }
    is_granted
}
