//! The ledger of all sessions, locked for one decision at a time.

mod renewal;

pub(crate) use renewal::{Exchange, Renewal};

use crate::choices::Choices;
use crate::limits::{LATER_STARTS_MAX, MEETINGS_MAX, ROUNDS_MAX};
use crate::reservations::{Applicant, Begin, Reservations};
use crate::session::Promise;
use reel_cache::Units;
use reel_qos::limits::ROUND_NS;
use reel_qos::{
    AdmitError, Answer, Capacities, Class, ClassTable, Demand, Ledger, Overcommitment, ReservationId,
    ResourceUsage, Starts,
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
    pub(crate) fn new(capacities: Option<Capacities>, classes: ClassTable, start_wait_s: u64) -> Admission {
        let reservations = capacities.map(|capacities| {
            // Fits: a day of seconds.
            let mut ledger = Ledger::new(capacities, ROUNDS_MAX as usize);
            ledger.set_classes(classes);
            Mutex::new(Reservations::new(ledger))
        });
        Admission { reservations, start_wait_s }
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
        Some(self.lock()?.ledger().how_many(class, demand, Starts::Spread))
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

    /// Reserves the best of `offers` that can be promised from now on. If there is none, reserves
    /// the one that can be promised soonest, if that is soon enough. `None` if nothing is promised
    /// at all, or if nothing is offered. The lock is released between offers.
    pub(crate) fn reserve_best(
        &self,
        offers: Choices,
        applicant: Applicant<'_>,
        now_ns: u64,
    ) -> Result<Option<Promise>, AdmitError> {
        let Some(reservations) = &self.reservations else { return Ok(None) };
        let (mut refused, mut soonest) = (None, None);
        lock(reservations).advance(now_ns / ROUND_NS);
        let put = |choice, start_ns| {
            let begin = Begin { media_ns: 0, start_ns, now_ns };
            lock(reservations).put((applicant, None), (&offers, choice, true), begin)
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
        if let Some((start_ns, choice)) = soonest {
            let granted = self.wait(start_ns, now_ns, |start_ns| put(choice, start_ns));
            if let Some((reservation, start_ns)) = granted {
                return Ok(Some(Promise::new(offers, choice, reservation, start_ns)));
            }
        }
        // The last offer needed least, so its refusal is the nearest to being granted.
        refused.map_or(Ok(None), Err)
    }

    /// Tries this start and, if other sessions have taken the room meanwhile, later ones. Returns
    /// what was granted, and its start.
    fn wait<R>(
        &self,
        mut start_ns: u64,
        now_ns: u64,
        mut put: impl FnMut(u64) -> Result<R, AdmitError>,
    ) -> Option<(R, u64)> {
        for _ in 0..LATER_STARTS_MAX {
            match put(start_ns) {
                Ok(granted) => return Some((granted, start_ns)),
                Err(refusal) => start_ns = self.later_start_ns(&refusal, start_ns, now_ns)?,
            }
        }
        None
    }

    /// The start at which there may be room for what was refused at `start_ns`, if a client can be
    /// asked to wait for it: the beginning of a round.
    fn later_start_ns(&self, refusal: &AdmitError, start_ns: u64, now_ns: u64) -> Option<u64> {
        let AdmitError::Refused(refusal) = refusal else { return None };
        let later_round = (start_ns / ROUND_NS).checked_add(refusal.retry_after_s?)?;
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
