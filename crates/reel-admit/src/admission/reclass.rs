//! What a change of its class changes in the reservation of a session (MARS, section 4.2).

use super::{Admission, lock};
use crate::choices::Choices;
use crate::reservations::{Applicant, Begin, Offer};
use crate::schedule::Schedule;
use crate::session::{Promise, SessionState};
use reel_qos::AdmitError;
use reel_qos::limits::ROUND_NS;

/// A session that is to continue in another class.
#[derive(Debug)]
pub(crate) struct Reclass<'a> {
    /// The session, with the new class.
    pub(crate) applicant: Applicant<'a>,
    /// What is promised to it there; nothing in a class without deadlines.
    pub(crate) offers: Choices,
    /// The best choice that its client knows of.
    pub(crate) best: usize,
    /// Where its client is, if nothing was promised to it before.
    pub(crate) at_ns: u64,
    pub(crate) now_ns: u64,
}

impl Admission {
    /// Exchanges what is reserved for a session, as one step: what it held is free when the new
    /// class is asked. The choice that it has is asked for first, then lower ones. It does not wait
    /// for a later start, since its client plays already.
    ///
    /// # Errors
    /// The refusal of the last offer. Then the session keeps all that it had.
    pub(crate) fn reclass(&self, state: &mut SessionState, wanted: Reclass<'_>) -> Result<(), AdmitError> {
        let Reclass { applicant, offers, best, at_ns, now_ns } = wanted;
        if offers.demands.is_empty() {
            state.take_reservation().into_iter().for_each(|reservation| self.release(reservation));
            (state.promise, state.schedule, state.is_delivered) = (None, Schedule::default(), false);
            return Ok(());
        }
        let Some(reservations) = self.reservations.as_ref().filter(|_| !state.is_delivered) else {
            return Ok(());
        };
        lock(reservations).advance(now_ns / ROUND_NS);
        let begin = self.begin_in_class(state, at_ns, now_ns);
        let held = state.promise.as_ref().and_then(|promise| promise.reservation);
        let first = state.promise.as_ref().map_or(best, |promise| promise.choice);
        let first = first.min(offers.demands.len() - 1);
        let mut refused = None;
        for choice in first..offers.demands.len() {
            let offer = Offer { choices: &offers, choice, is_played: true };
            let put = |held| lock(reservations).put(applicant, held, offer, begin);
            let granted = match put(held) {
                // It has come to the end of its title.
                Err(AdmitError::Ended(_)) => put(None),
                granted => granted,
            };
            match granted {
                Ok(reservation) => {
                    let was_promised = state.promise.is_some();
                    let (start_ns, is_spread) =
                        state.promise.as_ref().map_or((now_ns, false), |had| (had.start_ns, had.is_spread));
                    let promise = Promise::new(offers.clone(), choice, reservation, start_ns);
                    state.promise = Some(Promise { is_spread, ..promise });
                    if !was_promised && at_ns > 0 {
                        state.schedule.anchor(at_ns, now_ns);
                    }
                    state.stayed_ns = None;
                    return Ok(());
                }
                Err(refusal) => refused = Some(refusal),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// From where on a session needs its title in another class.
    fn begin_in_class(&self, state: &SessionState, at_ns: u64, now_ns: u64) -> Begin {
        let start_ns = state.start_ns(now_ns);
        let Some(promise) = &state.promise else { return Begin::at(at_ns, now_ns, now_ns) };
        if promise.is_spread && start_ns > now_ns {
            return Begin::spread(start_ns / ROUND_NS - now_ns / ROUND_NS, now_ns);
        }
        if !state.schedule.is_started() {
            return Begin::at(0, start_ns, now_ns);
        }
        let position_ns = state.schedule.position_ns(now_ns);
        let stays = promise.reservation.filter(|_| promise.displaced_ns.is_none());
        match stays.and_then(|reservation| self.epoch_of(reservation)) {
            Some(epoch) => {
                let needs_ns = state.schedule.until_ns().into_iter().flatten().min();
                Begin::playing_on(epoch, needs_ns.unwrap_or(position_ns), now_ns)
            }
            None => Begin::at(position_ns, now_ns, now_ns),
        }
    }
}
