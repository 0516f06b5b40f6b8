//! Deliveries of one session that are in step. Their clock belongs to the front end.

use super::{DeliveryId, Engine};
use crate::playable::Playable;
use crate::policy::{Decision, StepTerms};
use reel_admit::Session;
use reel_cache::Pace;
use reel_qos::{AdmitError, Class};
use std::sync::atomic::Ordering;

impl<T: Playable> Engine<T> {
    /// How the streams of a session are read from this media time on. It may need admission.
    ///
    /// # Errors
    /// If the ledger cannot reserve what the position needs, and nothing is reserved.
    pub fn step_terms(
        &mut self,
        session: &Session<T>,
        shown_ns: u64,
        now_ns: u64,
    ) -> Result<StepTerms, AdmitError> {
        self.inside(|engine| {
            let classes = engine.units().disks().classes();
            let decision = Decision { sessions: &engine.sessions, classes: &classes, now_ns };
            session.plays_as_file(true);
            decision
                .step_terms(session, shown_ns)
                .inspect_err(|refusal| engine.counters.not_admitted(refusal))
        })
    }

    /// The same for a session that plays already, of which `id` is one of the streams: the last one
    /// is at this media time. What cannot be promised continues as well as it can. `None` if the
    /// delivery has ended.
    pub fn step_passes(&mut self, id: DeliveryId, shown_ns: u64, now_ns: u64) -> Option<StepTerms> {
        let delivery = self.deliveries.get(id.0)?;
        let (session, had) = (delivery.session_shared()?, delivery.class);
        let terms = self.step_terms(&session, shown_ns, now_ns);
        let terms = terms.unwrap_or_else(|_| StepTerms::unpromised(now_ns));
        if terms.class == Class::APERIODIC && terms.class != had {
            self.counters.unreserved.fetch_add(1, Ordering::Relaxed);
        }
        Some(terms)
    }

    /// The class of the session of a delivery.
    pub fn session_class(&self, id: DeliveryId) -> Option<Class> {
        self.deliveries.get(id.0)?.session().map(Session::class)
    }

    /// A stream is read on these terms from now on, and its bytes are due at this pace.
    pub fn set_step(&mut self, id: DeliveryId, terms: StepTerms, pace: Pace) {
        if let Some(delivery) = self.deliveries.get_mut(id.0) {
            delivery.set_step(terms.class, terms.due(pace));
        }
    }
}
