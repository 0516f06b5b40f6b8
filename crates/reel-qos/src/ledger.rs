//! The reservations, in every round of every resource.

use crate::claim::{Claim, DemandStart, Reservation};
use crate::limits::{
    CLOCK_ROUNDS_MAX, DEMAND_ROUNDS_MAX, LABEL_BYTES_MAX, RESERVATIONS_MAX, ROUND_NS, TIMELINE_ROUNDS_MAX,
};
use crate::resource::{Capacities, MemberCapacity, Overcommitment, Resource};
use crate::timeline::Timeline;
use crate::{AdmitError, Class, ClassTable, Demand, Kind, Sender};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Names a reservation of one ledger; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(pub(crate) u64);

/// The account of everything that is reserved.
///
/// A stream is admitted if in every round until its end, and for every resource, its demand fits
/// beside the present reservations. So a stream of variable rate is counted exactly. Each class of
/// kind periodic is held to its own share of device, network and processor time. What one periodic
/// class leaves idle is not reserved for another: a reservation cannot be taken back when the owner
/// of the share comes. (The schedulers do lend what is idle at the moment.) All classes share the
/// media memory.
///
/// The ledger has no clock: call [`advance`](Self::advance) before anything else, and then once in
/// a round. Rounds are absolute.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) capacities: Capacities,
    pub(crate) classes: ClassTable,
    /// Length of every timeline.
    pub(crate) rounds: usize,
    /// The first round that is kept account of.
    pub(crate) now_round: u64,
    pub(crate) arena: Timeline,
    /// By class, and in each by series. The first series (the arena) is common to all classes and
    /// empty here. A class that was never periodic has none.
    pub(crate) accounts: Vec<Vec<Timeline>>,
    pub(crate) reservations: BTreeMap<ReservationId, Reservation>,
    /// Reservations by the round after their last: those that end are found without a search.
    pub(crate) ends: BTreeSet<(u64, ReservationId)>,
    next_id: u64,
}

impl Ledger {
    /// A ledger without reservations, with timelines of `rounds` rounds (1 to
    /// [`TIMELINE_ROUNDS_MAX`]) and the default classes. Prices and capacities should be those of
    /// the degraded volume, so that the loss of a member costs no reservation.
    pub fn new(capacities: Capacities, rounds: usize) -> Ledger {
        let rounds = rounds.clamp(1, TIMELINE_ROUNDS_MAX);
        let mut ledger = Ledger {
            capacities,
            classes: ClassTable::default(),
            rounds,
            now_round: 0,
            arena: Timeline::new(rounds),
            accounts: Vec::new(),
            reservations: BTreeMap::new(),
            ends: BTreeSet::new(),
            next_id: 0,
        };
        ledger.open_accounts();
        ledger
    }

    /// Reserves for a class, or for what a front end sends in it, the rest of a demand, from its
    /// round `from_round` on, which will be on the absolute round `start_round`. What would be in
    /// the past is not counted. The label is for display.
    ///
    /// # Errors
    /// The demand does not fit, the class is not periodic, the demand is too long or of another
    /// volume, or there are too many reservations.
    pub fn admit(
        &mut self,
        sender: impl Into<Sender>,
        demand: &Arc<Demand>,
        from_round: usize,
        start_round: u64,
        label: &str,
    ) -> Result<ReservationId, AdmitError> {
        let claim = self.claim(sender, demand, from_round, start_round)?;
        if self.reservations.len() >= RESERVATIONS_MAX {
            return Err(AdmitError::TooMany);
        }
        self.require(&claim)?;
        Ok(self.enter_new(&claim, demand, label))
    }

    /// Whether this would be admitted: the same decision as [`admit`](Self::admit) without a
    /// reservation, for the renditions of a ladder.
    ///
    /// # Errors
    /// As of [`admit`](Self::admit).
    pub fn check(
        &self,
        sender: impl Into<Sender>,
        demand: &Demand,
        from_round: usize,
        start_round: u64,
    ) -> Result<(), AdmitError> {
        let claim = self.claim(sender, demand, from_round, start_round)?;
        if self.reservations.len() >= RESERVATIONS_MAX {
            return Err(AdmitError::TooMany);
        }
        Ok(self.require(&claim)?)
    }

    /// Gives a reservation back. `false` if it has ended already, which is no fault.
    pub fn release(&mut self, id: ReservationId) -> bool {
        self.strike(id).is_some()
    }

    /// Replaces a reservation by another demand or another position, in the same class: for a seek,
    /// a change of rate, a switch in a ladder. All or nothing: if it is refused, the old
    /// reservation stays as it was. A demand that needs nowhere more than the old one is granted
    /// even where resources are overcommitted.
    ///
    /// # Errors
    /// As of [`admit`](Self::admit); or the reservation has ended.
    pub fn change(
        &mut self,
        id: ReservationId,
        demand: &Arc<Demand>,
        from_round: usize,
        start_round: u64,
    ) -> Result<(), AdmitError> {
        let class = self.reservations.get(&id).ok_or(AdmitError::Ended(id))?.class;
        self.reclass(id, class, demand, from_round, start_round)
    }

    /// The same into another class, as one step: what is given back in the old class is free when
    /// the new one is asked. The front end stays. A demand that needs nowhere more than the old one
    /// is compared like any other, since another share is to carry it.
    ///
    /// # Errors
    /// As of [`change`](Self::change).
    pub fn reclass(
        &mut self,
        id: ReservationId,
        class: Class,
        demand: &Arc<Demand>,
        from_round: usize,
        start_round: u64,
    ) -> Result<(), AdmitError> {
        let old = self.reservations.get(&id).ok_or(AdmitError::Ended(id))?;
        let claim = self.claim(Sender { class, ..old.sender() }, demand, from_round, start_round)?;
        let new = Reservation::new(&claim, demand, old.label.clone());
        let old = self.strike(id).ok_or(AdmitError::Ended(id))?;
        let decision = match self.require(&claim) {
            Err(_) if old.class == class && self.needs_no_more(&claim, &old) => Ok(()),
            decision => decision,
        };
        self.enter(id, if decision.is_ok() { new } else { old });
        Ok(decision?)
    }

    /// Sets the present: forgets the rounds before it and ends the reservations that are wholly in
    /// the past. A jump ahead is no more work than a turn of the ring. A clock that goes back
    /// changes nothing while there are reservations. Without any, the ledger follows the clock, so
    /// that one wrong reading does not stop it for ever.
    pub fn advance(&mut self, now_round: u64) {
        let now_round = now_round.min(CLOCK_ROUNDS_MAX);
        if self.reservations.is_empty() {
            self.now_round = now_round;
        }
        if now_round <= self.now_round {
            return;
        }
        let past = now_round.min(self.horizon()).saturating_sub(self.now_round) as usize;
        for timeline in self.accounts.iter_mut().flatten().chain([&mut self.arena]) {
            timeline.clear(self.now_round, past);
        }
        self.now_round = now_round;
        while let Some(&(end_round, id)) = self.ends.first()
            && end_round <= now_round
        {
            self.ends.pop_first();
            self.reservations.remove(&id);
        }
    }

    /// Sets other prices or capacities. Reservations stay, counted at the new prices. Where they
    /// are more than the new capacity, that is reported. A member that is left out stays known,
    /// with no time to give.
    pub fn set_capacities(&mut self, mut capacities: Capacities) -> Vec<Overcommitment> {
        let gone = self.capacities.members.iter().skip(capacities.members.len());
        let gone: Vec<_> = gone.map(|member| MemberCapacity { round_ns: 0, ..*member }).collect();
        capacities.members.extend(gone);
        let old = std::mem::replace(&mut self.capacities, capacities);
        self.open_accounts();
        for series in 0..self.capacities.series() {
            let repriced = match Resource::of_series(series) {
                Resource::Arena => false,
                Resource::Network => old.local_front_ends != self.capacities.local_front_ends,
                Resource::Core => old.core_mib_ns != self.capacities.core_mib_ns,
                Resource::Member(member) | Resource::MemberBytes(member) => {
                    let price = |capacities: &Capacities| capacities.members.get(member).map(|m| m.price);
                    price(&old) != price(&self.capacities)
                }
            };
            if repriced {
                self.recompute(series);
            }
        }
        self.over_committed()
    }

    /// Sets other classes or shares. Reservations stay; where they are more than the new share,
    /// that is reported.
    pub fn set_classes(&mut self, classes: ClassTable) -> Vec<Overcommitment> {
        self.classes = classes;
        self.open_accounts();
        self.over_committed()
    }

    /// The present, as last set by [`advance`](Self::advance).
    pub fn now_round(&self) -> u64 {
        self.now_round
    }

    /// The classes whose shares are kept.
    pub fn classes(&self) -> &ClassTable {
        &self.classes
    }

    /// The capacities that are divided among them.
    pub fn capacities(&self) -> &Capacities {
        &self.capacities
    }

    /// The round from which on nothing is reserved.
    pub(crate) fn horizon(&self) -> u64 {
        self.ends.last().map_or(self.now_round, |&(end_round, _)| end_round.max(self.now_round))
    }

    /// What may be reserved for a class of a resource in a round.
    pub(crate) fn capacity(&self, class: Class, series: usize) -> u64 {
        let (resource, spec) = (Resource::of_series(series), self.classes.spec(class));
        let permille = match (self.classes.kind(class), resource) {
            (Kind::Periodic, Resource::Network) => spec.network_permille,
            (Kind::Periodic, _) => spec.share_permille,
            _ => 0,
        };
        self.capacities.share(resource, permille)
    }

    /// The timeline of the reservations of a class; `None` if it can have none.
    pub(crate) fn timeline(&self, class: Class, series: usize) -> Option<&Timeline> {
        match series {
            0 => Some(&self.arena),
            _ => self.accounts.get(class.index())?.get(series),
        }
    }

    /// Puts a demand on the clock, if this ledger can reserve such a demand at all.
    pub(crate) fn claim<'a>(
        &self,
        sender: impl Into<Sender>,
        demand: &'a Demand,
        from_round: usize,
        start_round: u64,
    ) -> Result<Claim<'a>, AdmitError> {
        let Sender { class, front_end } = sender.into();
        if self.classes.kind(class) != Kind::Periodic {
            return Err(AdmitError::NotPeriodic { class: class.index() });
        }
        if demand.members() > self.capacities.members.len() {
            let (asked, members) = (demand.members(), self.capacities.members.len());
            return Err(AdmitError::OtherVolume { asked, members });
        }
        let past = self.now_round.saturating_sub(start_round);
        let from_round = from_round.saturating_add(usize::try_from(past).unwrap_or(usize::MAX));
        let start_round = start_round.max(self.now_round);
        let rounds = demand.rounds().saturating_sub(from_round);
        // An empty rest ends at once, wherever it starts.
        let start_round = if rounds == 0 { self.now_round } else { start_round };
        let ends_in = (start_round - self.now_round).saturating_add(rounds as u64);
        if ends_in > self.rounds as u64 || (rounds > 0 && demand.rounds() > DEMAND_ROUNDS_MAX) {
            return Err(AdmitError::TooLong {
                ends_in_s: seconds(ends_in),
                timeline_s: seconds(self.rounds as u64),
            });
        }
        Ok(Claim { demand, class, front_end, from_round, start_round, rounds, kept: &[] })
    }

    /// Clears a timeline of every class and adds all reservations again, at the present prices.
    /// Each demand is priced once for all its streams that one front end sends.
    fn recompute(&mut self, series: usize) {
        let resource = Resource::of_series(series);
        let (now_round, rounds) = (self.now_round, self.rounds);
        for timeline in self.accounts.iter_mut().filter_map(|account| account.get_mut(series)) {
            timeline.clear(now_round, rounds);
        }
        if !self.capacities.counts(resource) {
            return;
        }
        let mut all: Vec<&Reservation> = self.reservations.values().collect();
        let priced_as = |reservation: &Reservation| (Arc::as_ptr(&reservation.demand), reservation.front_end);
        all.sort_by_key(|reservation| priced_as(reservation));
        let mut costs: Vec<u64> = Vec::new();
        let mut priced = None;
        for reservation in all {
            if priced != Some(priced_as(reservation)) {
                costs.resize(reservation.demand.rounds(), 0);
                let prices = (&self.capacities, reservation.front_end);
                reservation.demand.write_costs(resource, prices, 0, &mut costs);
                priced = Some(priced_as(reservation));
            }
            let rest = reservation.rest(now_round);
            if rest.rounds == 0 {
                continue;
            }
            let account = self.accounts.get_mut(reservation.class.index());
            if let Some(timeline) = account.and_then(|account| account.get_mut(series)) {
                timeline.add(rest.start_round, &costs[rest.from_round..rest.from_round + rest.rounds]);
            }
        }
    }

    pub(crate) fn enter(&mut self, id: ReservationId, reservation: Reservation) {
        self.apply(&reservation.rest(self.now_round), Timeline::add);
        self.ends.insert((reservation.end_round, id));
        self.reservations.insert(id, reservation);
    }

    /// A copy of a reservation as it is now.
    pub(crate) fn reservation(&self, id: ReservationId) -> Option<Reservation> {
        self.reservations.get(&id).cloned()
    }

    /// Makes a reservation what it was, or removes it if there was none. It is not checked whether
    /// that fits.
    pub(crate) fn restore(&mut self, id: ReservationId, before: Option<Reservation>) {
        self.strike(id);
        if let Some(before) = before {
            self.enter(id, before);
        }
    }

    /// Whether a reservation has everything that the rest of a demand needs.
    pub(crate) fn has(&self, old: &Reservation, demand: &Arc<Demand>, start: DemandStart) -> bool {
        let claim = self.claim(old.sender(), demand, start.from_round, start.start_round);
        claim.is_ok_and(|claim| self.needs_no_more(&claim, old))
    }

    /// See [`Transaction::admit_unchecked`](crate::Transaction).
    pub(crate) fn admit_unchecked(
        &mut self,
        sender: impl Into<Sender>,
        demand: &Arc<Demand>,
        start_round: u64,
        label: &str,
    ) -> ReservationId {
        let (Sender { class, front_end }, rounds) = (sender.into(), demand.rounds());
        let claim = Claim { demand, class, front_end, from_round: 0, start_round, rounds, kept: &[] };
        self.enter_new(&claim, demand, label)
    }

    fn enter_new(&mut self, claim: &Claim<'_>, demand: &Arc<Demand>, label: &str) -> ReservationId {
        let id = ReservationId(self.next_id);
        self.next_id += 1;
        let label = label[..label.floor_char_boundary(LABEL_BYTES_MAX)].into();
        self.enter(id, Reservation::new(claim, demand, label));
        id
    }

    fn strike(&mut self, id: ReservationId) -> Option<Reservation> {
        let reservation = self.reservations.remove(&id)?;
        self.ends.remove(&(reservation.end_round, id));
        self.apply(&reservation.rest(self.now_round), Timeline::subtract);
        Some(reservation)
    }

    fn apply(&mut self, claim: &Claim<'_>, apply: impl Fn(&mut Timeline, u64, &[u64])) {
        let Some(account) = self.accounts.get_mut(claim.class.index()) else { return };
        for (series, timeline) in account.iter_mut().enumerate() {
            let timeline = if series == 0 { &mut self.arena } else { timeline };
            claim.for_each_cost(&self.capacities, series, |start_round, costs| {
                apply(timeline, start_round, costs);
                true
            });
        }
    }

    /// Gives every periodic class its timelines, and every class that has some those of members
    /// that came later.
    fn open_accounts(&mut self) {
        self.accounts.resize_with(self.classes.len().max(self.accounts.len()), Vec::new);
        for (index, account) in self.accounts.iter_mut().enumerate() {
            let periodic = Class::new(index).is_some_and(|class| self.classes.kind(class) == Kind::Periodic);
            if periodic || !account.is_empty() {
                let rounds = self.rounds;
                let missing = self.capacities.series().saturating_sub(account.len());
                let first = account.len();
                account.extend((first..first + missing).map(|series| match series {
                    0 => Timeline::new(1),
                    _ => Timeline::new(rounds),
                }));
            }
        }
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reservation {}", self.0)
    }
}

/// Seconds of this many rounds, rounded up.
pub(crate) fn seconds(rounds: u64) -> u64 {
    (u128::from(rounds) * u128::from(ROUND_NS)).div_ceil(1_000_000_000).min(u64::MAX.into()) as u64
}
