//! The ledger of all sessions, locked for one decision at a time.

mod reclass;
mod renewal;

pub(crate) use reclass::Reclass;
pub(crate) use renewal::{Exchange, Renewal, Renewed};

use crate::choices::Choices;
use crate::kept::PlayingAt;
use crate::limits::{LATER_STARTS_MAX, MEETINGS_MAX, ROUNDS_MAX, SPREAD_ROUNDS};
use crate::reservations::{Applicant, Begin, Offer, Reservations};
use crate::session::Promise;
use crate::sessions::SessionsConfig;
use reel_cache::Units;
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    AdmitError, Answer, Capacities, Class, ClassTable, Demand, Ledger, Overcommitment, ReservationId,
    Resource, ResourceUsage, Starts,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is promised to all sessions, and what could be.
#[derive(Debug)]
pub struct Admission {
    /// `None` promises nothing and refuses nothing.
    reservations: Option<Mutex<Reservations>>,
    /// A start or a seek for which there is no room now may wait for so many seconds.
    start_wait_s: u64,
}

/// Sessions that share what one of them reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Shared reservations of more than one session.
    pub groups: usize,
    /// Sessions that find in memory what others have read.
    pub followers: usize,
    /// Bytes of the arena that are promised to them.
    pub interval_bytes: u64,
}

impl Admission {
    /// Nothing is promised yet; without capacities nothing ever is.
    pub(crate) fn new(config: SessionsConfig) -> Admission {
        let SessionsConfig { capacities, classes, start_wait_s, client_share, .. } = config;
        let reservations = capacities.map(|capacities| {
            // Fits: a day of seconds.
            let mut ledger = Ledger::new(capacities, ROUNDS_MAX as usize);
            ledger.set_classes(classes);
            Mutex::new(Reservations::new(ledger, client_share))
        });
        Admission { reservations, start_wait_s }
    }

    /// Whether a thread panicked while it changed what is promised.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.reservations.as_ref().is_some_and(Mutex::is_poisoned)
    }

    /// How much of every resource is promised; empty if nothing is.
    pub fn usage(&self, now_ns: u64) -> Vec<ResourceUsage> {
        self.lock().map_or_else(Vec::new, |reservations| reservations.ledger().usage(now_ns / ROUND_NS))
    }

    /// How many sessions share what others read.
    pub fn sharing(&self) -> Sharing {
        self.lock().map_or_else(Sharing::default, |reservations| reservations.sharing())
    }

    /// How many more viewers of `demand`, starting one after another, could be promised it in a
    /// class; `None` if nothing is promised at all.
    ///
    /// # Errors
    /// Those of [`Ledger::how_many`].
    pub fn how_many(&self, class: Class, demand: &Demand) -> Option<Result<Answer, AdmitError>> {
        Some(self.lock()?.ledger().how_many(class, demand, Starts::Apart))
    }

    /// Whether what is promised is the sum of what the sessions hold. Also whether each session has
    /// disk time, its own or that of the session it follows. For simulations and tests.
    pub fn adds_up(&self) -> bool {
        self.lock().is_none_or(|reservations| reservations.adds_up())
    }

    /// Replaces the resources that can be promised from here on. What was promised stays promised.
    pub fn set_capacities(&self, capacities: Capacities) {
        if let Some(mut reservations) = self.lock() {
            log(reservations.set_capacities(capacities));
        }
    }

    /// Replaces the classes and their shares from here on. What was promised stays promised.
    pub fn set_classes(&self, classes: ClassTable) {
        if let Some(mut reservations) = self.lock() {
            log(reservations.set_classes(classes));
        }
    }

    /// Lets sessions that play the same follow each other in the memory of these units.
    pub(crate) fn follow_in(&self, units: &Units) {
        if let Some(mut reservations) = self.lock() {
            reservations.follow_in(units);
        }
    }

    /// Reserves the best of `offers` that can be promised from `media_ns` on, which is played now.
    /// If there is none, reserves the one that can be promised soonest, if that is soon enough. If
    /// that is not, and the network is short, the beginning of the last offer is spread.
    /// `None` if nothing is promised at all, or if nothing is offered. The lock is released between
    /// offers.
    pub(crate) fn reserve_best(
        &self,
        offers: Choices,
        applicant: Applicant<'_>,
        media_ns: u64,
        now_ns: u64,
    ) -> Result<Option<Promise>, AdmitError> {
        let Some(reservations) = &self.reservations else { return Ok(None) };
        let (mut refused, mut soonest) = (None, None);
        lock(reservations).advance(now_ns / ROUND_NS);
        let put = |choice, start_ns| {
            let begin = Begin::at(media_ns, start_ns, now_ns);
            let offer = Offer { choices: &offers, choice, is_played: true };
            lock(reservations).put(applicant, None, offer, begin)
        };
        for choice in 0..offers.demands.len() {
            match put(choice, now_ns) {
                Ok(reservation) => return Ok(Some(Promise::new(offers, choice, reservation, now_ns))),
                Err(refusal) => {
                    let start_ns = self.later_start_ns(&refusal, now_ns, now_ns);
                    soonest = start_ns.map(|start_ns| (start_ns, choice)).into_iter().chain(soonest).min();
                    refused = Some(refusal);
                }
            }
        }
        // The last offer needed least, so its refusal is the nearest to being granted.
        let Some(refused) = refused else { return Ok(None) };
        let refused = match soonest {
            None => refused,
            Some((start_ns, choice)) => {
                match self.wait(refused, start_ns, now_ns, |start_ns| put(choice, start_ns)) {
                    Ok((reservation, start_ns)) => {
                        return Ok(Some(Promise::new(offers, choice, reservation, start_ns)));
                    }
                    Err(refused) => refused,
                }
            }
        };
        let is_network = refused.refusal().is_some_and(|refusal| refusal.resource == Resource::Network);
        if media_ns < ROUND_NS
            && is_network
            && let Some(last) = offers.demands.len().checked_sub(1)
            && let Some((reservation, rounds)) = self.spread(&offers, last, applicant, now_ns)
        {
            return Ok(Some(Promise::spread(offers, last, reservation, rounds, now_ns)));
        }
        Err(refused)
    }

    /// Reserves an offer whose first segment is sent as slowly as it is shown: a film whose rate is
    /// close to that of the network can be started in no other way. Returns the rounds after which
    /// it is played.
    fn spread(
        &self,
        choices: &Choices,
        choice: usize,
        applicant: Applicant<'_>,
        now_ns: u64,
    ) -> Option<(ReservationId, u64)> {
        let rounds = choices.demands[choice].segment_rounds() as u64;
        if !SPREAD_ROUNDS.contains(&rounds) || rounds > self.start_wait_s {
            return None;
        }
        let offer = Offer { choices, choice, is_played: true };
        let reservation = self.lock()?.put(applicant, None, offer, Begin::spread(rounds, now_ns)).ok()?;
        Some((reservation, rounds))
    }

    /// Reserves for a session what the server before this one had reserved for it, in the same
    /// rounds if that is possible, or a lower choice.
    pub(crate) fn reserve_again(
        &self,
        offers: Choices,
        applicant: Applicant<'_>,
        playing: &PlayingAt,
        now_ns: u64,
    ) -> Result<Option<Promise>, AdmitError> {
        let Some(reservations) = &self.reservations else { return Ok(None) };
        lock(reservations).advance(now_ns / ROUND_NS);
        if let Some(epoch) = playing.epoch {
            let needs_ns = playing.until_ns.iter().flatten().copied().min();
            let begin = Begin::continued(epoch, needs_ns.unwrap_or(playing.media_ns), now_ns);
            for choice in playing.choice..offers.demands.len() {
                let offer = Offer { choices: &offers, choice, is_played: true };
                let put = lock(reservations).put(applicant, None, offer, begin);
                if let Ok(reservation) = put {
                    return Ok(Some(Promise::new(offers, choice, reservation, now_ns)));
                }
            }
        }
        self.reserve_best(offers, applicant, playing.media_ns, now_ns)
    }

    /// Reserves the best of `offers` that can be promised from its beginning on, which is sent from
    /// `start_ns` on.
    pub(crate) fn reserve_from(
        &self,
        offers: Choices,
        applicant: Applicant<'_>,
        start_ns: u64,
        now_ns: u64,
    ) -> Result<Option<Promise>, AdmitError> {
        let Some(reservations) = &self.reservations else { return Ok(None) };
        let start_ns = start_ns.max(now_ns);
        lock(reservations).advance(now_ns / ROUND_NS);
        let mut refused = None;
        for choice in 0..offers.demands.len() {
            let offer = Offer { choices: &offers, choice, is_played: true };
            match lock(reservations).put(applicant, None, offer, Begin::at(0, start_ns, now_ns)) {
                Ok(reservation) => return Ok(Some(Promise::new(offers, choice, reservation, start_ns))),
                Err(refusal) => refused = Some(refusal),
            }
        }
        refused.map_or(Ok(None), Err)
    }

    /// The round of media time 0 of what is reserved.
    pub(crate) fn epoch_of(&self, reservation: ReservationId) -> Option<i64> {
        self.lock()?.epoch_of(reservation)
    }

    /// Tries this start and, if other sessions have taken the room meanwhile, later ones. Returns
    /// what was granted, and its start.
    ///
    /// `refused` says why there is no room now. It is returned if there is none later, unless there
    /// is room later and the client has its share: then that is the reason.
    fn wait<R>(
        &self,
        refused: AdmitError,
        mut start_ns: u64,
        now_ns: u64,
        mut put: impl FnMut(u64) -> Result<R, AdmitError>,
    ) -> Result<(R, u64), AdmitError> {
        let mut reason = refused;
        for _ in 0..LATER_STARTS_MAX {
            let refusal = match put(start_ns) {
                Ok(granted) => return Ok((granted, start_ns)),
                Err(refusal) => refusal,
            };
            let later_ns = self.later_start_ns(&refusal, start_ns, now_ns);
            if let AdmitError::Share(mut share) = refusal {
                // It counts from the start that was tried, and the client counts from now.
                let waits_s = (start_ns / ROUND_NS).saturating_sub(now_ns / ROUND_NS);
                let retry_after_s = &mut share.refusal.retry_after_s;
                *retry_after_s = retry_after_s.map(|after_s| after_s.saturating_add(waits_s));
                reason = AdmitError::Share(share);
            }
            match later_ns {
                Some(later_ns) => start_ns = later_ns,
                None => break,
            }
        }
        Err(reason)
    }

    /// The start at which there may be room for what was refused at `start_ns`, if a client can be
    /// asked to wait for it: the beginning of a round.
    fn later_start_ns(&self, refusal: &AdmitError, start_ns: u64, now_ns: u64) -> Option<u64> {
        let retry_after_s = refusal.refusal()?.retry_after_s?;
        let later_round = (start_ns / ROUND_NS).checked_add(retry_after_s)?;
        let wait_rounds = later_round.saturating_sub(now_ns / ROUND_NS);
        (wait_rounds <= self.start_wait_s).then(|| later_round.saturating_mul(ROUND_NS))
    }

    /// Releases what was reserved for a session.
    pub(crate) fn release(&self, reservation: ReservationId) {
        if let Some(mut reservations) = self.lock() {
            reservations.release(reservation);
        }
    }

    /// Releases what has ended, and merges groups of sessions that have met, in bounded steps.
    /// Returns whether disks have time for sessions that may follow later.
    pub(crate) fn tick(&self, now_ns: u64) -> bool {
        let Some(reservations) = &self.reservations else { return true };
        lock(reservations).advance(now_ns / ROUND_NS);
        for _ in 0..MEETINGS_MAX {
            if !lock(reservations).meet_next() {
                break;
            }
        }
        let mut reservations = lock(reservations);
        reservations.settle_memory();
        reservations.is_roomy()
    }

    fn lock(&self) -> Option<MutexGuard<'_, Reservations>> {
        self.reservations.as_ref().map(lock)
    }
}

fn lock(reservations: &Mutex<Reservations>) -> MutexGuard<'_, Reservations> {
    // A panic elsewhere leaves the ledger whole: it changes in transactions.
    reservations.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Logs where more is promised than there is now.
fn log(over_committed: Vec<Overcommitment>) {
    for over in over_committed {
        tracing::warn!(
            resource = %over.resource, used = over.used, capacity = over.capacity, rounds = over.rounds,
            "more is promised than there is now; nothing new is admitted until enough of it has ended"
        );
    }
}
