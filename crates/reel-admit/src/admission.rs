//! The ledger of all sessions, locked for one decision at a time.

mod renewal;

pub(crate) use renewal::{Exchange, Renewal};

use crate::limits::{MEETINGS_MAX, ROUNDS_MAX};
use crate::reservations::{Requester, Reservations};
use crate::session::Promise;
use reel_cache::{Choices, Units};
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
    pub(crate) fn new(capacities: Option<Capacities>, classes: ClassTable) -> Admission {
        let reservations = capacities.map(|capacities| {
            // Fits: a day of seconds.
            let mut ledger = Ledger::new(capacities, ROUNDS_MAX as usize);
            ledger.set_classes(classes);
            Mutex::new(Reservations::new(ledger))
        });
        Admission { reservations }
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

    /// Reserves the best of `offers` that can be promised from now on; `None` if nothing is
    /// promised at all, or if nothing is offered. The lock is released between offers.
    pub(crate) fn reserve_best(
        &self,
        offers: Choices,
        requester: Requester<'_>,
        now_ns: u64,
    ) -> Result<Option<Promise>, AdmitError> {
        let Some(reservations) = &self.reservations else { return Ok(None) };
        let mut refused = None;
        lock(reservations).advance(now_ns / ROUND_NS);
        for choice in 0..offers.demands.len() {
            match lock(reservations).put((requester, None), (&offers, choice, true), 0, now_ns) {
                Ok(reservation) => return Ok(Some(Promise::new(offers, choice, reservation))),
                Err(refusal) => refused = Some(refusal),
            }
        }
        // The last offer needed least, so its refusal is the nearest to being granted.
        refused.map_or(Ok(None), Err)
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
