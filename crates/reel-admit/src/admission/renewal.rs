//! What a request for media changes in the reservation of its session.

use super::{Admission, lock};
use crate::choices::Choices;
use crate::limits::{DISPLACED_ASKS_NS, MOVE_COST_NS};
use crate::reservations::{Applicant, Begin, Offer};
use crate::schedule::{Continuity, TrackSpan};
use crate::session::{Promise, SessionState};
use reel_qos::AdmitError;
use reel_qos::limits::ROUND_NS;
use std::sync::Arc;

/// A request for media, as admission sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal<'a> {
    pub(crate) applicant: Applicant<'a>,
    /// The offer that the segment belongs to; `None` if it belongs to all of them.
    pub(crate) choice: Option<usize>,
    pub(crate) span: &'a TrackSpan,
    /// When the client can play it: now, or later if it waits for its start.
    pub(crate) start_ns: u64,
    pub(crate) now_ns: u64,
}

/// How a request for media continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewed {
    pub(crate) continuity: Continuity,
    /// `false` if there was no room at the client's position, or for the better choice that it
    /// requests. The session keeps what it holds, and is sent what no other session needs.
    pub(crate) is_reserved: bool,
}

/// Whether the reservation of a session was exchanged for one of another form of its title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// The reservation is for this form already, or nothing was promised.
    Unneeded,
    /// It was exchanged.
    Made {
        /// Whether other sessions may share the new reservation.
        is_shared: bool,
    },
    /// The client plays another form, whose reservation stays.
    NotAllowed,
}

impl Admission {
    /// Until the client of a session has requested media, the reservation is exchanged for the best
    /// of `offers` that fits, if it is not one of them. If none fits, the session keeps its
    /// reservation and the refusal of the last offer is returned.
    pub(crate) fn exchange(
        &self,
        state: &mut SessionState,
        applicant: Applicant<'_>,
        offers: Option<&Choices>,
        now_ns: u64,
    ) -> Result<Exchange, AdmitError> {
        let SessionState { schedule, promise, allowance, is_closed, .. } = state;
        let (Some(promise), Some(reservations)) = (promise, &self.reservations) else {
            return Ok(Exchange::Unneeded);
        };
        let Some(offers) = offers else { return Ok(Exchange::NotAllowed) };
        if Arc::ptr_eq(&promise.offers.demands, &offers.demands) {
            return Ok(Exchange::Unneeded);
        }
        if schedule.is_started() || *is_closed || !allowance.takes(MOVE_COST_NS, now_ns) {
            return Ok(Exchange::NotAllowed);
        }
        let mut refused = None;
        lock(reservations).advance(now_ns / ROUND_NS);
        let start_ns = promise.start_ns.max(now_ns);
        let begin = Begin::at(0, start_ns, now_ns);
        for choice in 0..offers.demands.len() {
            let offer = Offer { choices: offers, choice, is_played: true };
            let put = |held| lock(reservations).put(applicant, held, offer, begin);
            let reservation = match put(promise.reservation) {
                Err(AdmitError::Ended(_)) => {
                    promise.reservation = None;
                    put(None)
                }
                reservation => reservation,
            };
            match reservation {
                Ok(reservation) => {
                    *promise = Promise::new(offers.clone(), choice, reservation, start_ns);
                    return Ok(Exchange::Made { is_shared: offers.shared(choice).is_some() });
                }
                Err(refusal) => refused = Some(refusal),
            }
        }
        refused.map_or(Ok(Exchange::NotAllowed), Err)
    }

    /// Changes the reservation to what the client does. If there is no room, a session that holds
    /// something keeps it, and continues without a reservation until there is room. Any other
    /// session is refused.
    pub(crate) fn renew(
        &self,
        state: &mut SessionState,
        renewal: &Renewal<'_>,
        continuity: Continuity,
    ) -> Result<Renewed, AdmitError> {
        let moves = continuity.moves_to().is_some();
        let asked_ns = state.promise.as_ref().and_then(|promise| promise.displaced_ns);
        if !moves && asked_ns.is_some_and(|asked_ns| renewal.now_ns < asked_ns + DISPLACED_ASKS_NS) {
            return Ok(Renewed { continuity, is_reserved: false });
        }
        let refused = match self.renew_somehow(state, renewal, continuity) {
            Ok(continuity) => return Ok(Renewed { continuity, is_reserved: true }),
            Err(refused) => refused,
        };
        let holds = |promise: &&Promise| promise.reservation.is_some() || promise.displaced_ns.is_some();
        let Some(promise) = state.promise.as_ref().filter(holds) else { return Err(refused) };
        // There is no room for the better choice that it requests, but there may be room at this
        // position for the one that it had.
        let is_better = renewal.choice.is_some_and(|asked| asked < promise.choice);
        let same = Renewal { choice: None, ..*renewal };
        let stays = is_better && self.renew_as(state, &same, continuity).is_ok();
        if let Some(promise) = state.promise.as_mut().filter(|_| !stays) {
            promise.displaced_ns = Some(renewal.now_ns);
        }
        Ok(Renewed { continuity, is_reserved: false })
    }

    /// Changes the reservation to what the client does. If that is refused, the session keeps its
    /// position, or takes no more than the choice it requests now. A start, a seek or the end of a
    /// pause waits until there is room. Returns how the request continues in the end.
    fn renew_somehow(
        &self,
        state: &mut SessionState,
        renewal: &Renewal<'_>,
        continuity: Continuity,
    ) -> Result<Continuity, AdmitError> {
        let Renewal { choice, span, start_ns, now_ns, .. } = *renewal;
        let below = state.promise.as_ref().and_then(|promise| promise.below);
        let Err(mut refused) = self.renew_as(state, renewal, continuity) else { return Ok(continuity) };
        // The second call counts the same segment, not another one.
        if let Some(promise) = &mut state.promise {
            promise.below = below;
        }
        let stays = if let Some(promised_ns) = state.promised_start_ns(span, now_ns) {
            // A second after the opening, a server at capacity may not have these rounds. The
            // session keeps the rounds that were promised to it.
            state.schedule.anchor(span.from_ns, promised_ns);
            Some(Continuity::Joins)
        } else if continuity.moves_to().is_some() && state.schedule.may_stay(span, start_ns) {
            // A client that only requests farther ahead than before may have jumped, or its buffer
            // grew. A client that fell behind requests no more than was promised to it. Both keep
            // their reservations.
            Some(Continuity::OnSchedule)
        } else {
            None
        };
        if let Some(continuity) = stays {
            match self.renew_as(state, renewal, continuity) {
                Ok(()) => {
                    state.stayed_ns = Some(now_ns);
                    return Ok(continuity);
                }
                Err(error) => refused = error,
            }
        }
        // There is no room for the rendition that the session had, but there may be room for the
        // lower one that it requests.
        let Some(promise) = &mut state.promise else { return Err(refused) };
        let (had, holds) = (promise.choice, promise.reservation.is_some());
        let lower = choice.map(|choice| choice.min(promise.offers.demands.len() - 1));
        if let Some(lower) = lower.filter(|lower| *lower > had) {
            promise.choice = lower;
            match self.renew_as(state, renewal, continuity) {
                Ok(()) => return Ok(continuity),
                Err(error) => refused = error,
            }
        }
        let later_ns = match continuity {
            // A client that plays on does not wait: it keeps what was promised to it.
            Continuity::Shifts { .. } if holds => None,
            Continuity::Shifts { .. } | Continuity::Moves { .. } => {
                self.later_start_ns(&refused, start_ns, now_ns)
            }
            Continuity::OnSchedule | Continuity::Joins => None,
        };
        let granted = match later_ns {
            Some(later_ns) => {
                let put = |start_ns| self.renew_as(state, &Renewal { start_ns, ..*renewal }, continuity);
                self.wait(refused, later_ns, now_ns, put)
            }
            None => Err(refused),
        };
        if granted.is_err()
            && let Some(promise) = &mut state.promise
        {
            (promise.choice, promise.below) = (had, below);
        }
        granted.map(|_| continuity)
    }

    /// Changes the reservation to what the client does, if anything was promised to it.
    fn renew_as(
        &self,
        state: &mut SessionState,
        renewal: &Renewal<'_>,
        continuity: Continuity,
    ) -> Result<(), AdmitError> {
        let Renewal { applicant, choice, span, start_ns, now_ns } = *renewal;
        let SessionState { schedule, promise, .. } = state;
        let (Some(promise), Some(reservations)) = (promise, &self.reservations) else { return Ok(()) };
        let asked = choice.map(|choice| choice.min(promise.offers.demands.len() - 1));
        let is_on = promise.is_on();
        let stays = continuity.moves_to().is_none() && promise.displaced_ns.is_none();
        let mut choice = promise.choice;
        if let (Some(held), true) = (promise.reservation, asked.is_some_and(|asked| asked > choice)) {
            let mut reservations = lock(reservations);
            // A session that shares one choice with others stops following them when its client
            // requests a lower choice at the same position.
            if stays && reservations.leave(applicant, held, &promise.offers, choice, now_ns) {
                promise.choice += 1;
                choice = promise.choice;
            } else if !stays && reservations.is_sharing(held) {
                // At another position it stops following them only if the move is admitted.
                choice += 1;
            }
        }
        let wanted = asked.and_then(|asked| promise.takes(asked));
        if is_on && wanted.is_none() && stays {
            return Ok(());
        }
        let choice = wanted.unwrap_or(choice);
        let media_ns =
            continuity.moves_to().unwrap_or_else(|| schedule.position_ns(start_ns).min(span.from_ns));
        // A client that was sent what it jumped to without a reservation needs only what follows.
        let begin = Begin::at(media_ns, start_ns, now_ns).having_shown(continuity == Continuity::OnSchedule);
        let mut reservations = lock(reservations);
        reservations.advance(now_ns / ROUND_NS);
        let is_played = asked.is_none_or(|asked| asked == choice);
        let offer = Offer { choices: &promise.offers, choice, is_played };
        let mut put = |held| reservations.put(applicant, held, offer, begin);
        match put(promise.reservation) {
            Ok(reservation) => (promise.reservation, promise.has_ended) = (Some(reservation), false),
            // A reservation that has come to the end of its title has ended, although it was not
            // released.
            Err(AdmitError::Ended(_)) => {
                (promise.reservation, promise.has_ended) = (None, true);
                (promise.reservation, promise.has_ended) = (Some(put(None)?), false);
            }
            // The lower choice gives something back for the same time, so keeping the reservation
            // is safe. A client that is a little late needs other rounds than it has, and could be
            // refused in them.
            Err(_) if is_on && stays && choice > promise.choice => return Ok(()),
            Err(error) => return Err(error),
        }
        (promise.choice, promise.displaced_ns) = (choice, None);
        if !stays {
            promise.start_ns = start_ns;
        }
        if media_ns >= ROUND_NS {
            promise.is_spread = false;
        }
        Ok(())
    }
}
