//! Sessions of what the server sends by the clock, whether or not anybody requests it: casts.
//!
//! No request shows where such a session is. Its schedule is set once, when it begins or continues,
//! and what follows is due by the clock.

use crate::admission::{Renewal, Renewed};
use crate::choices::Choices;
use crate::client::SessionClient;
use crate::limits::SEND_LEAD_NS;
use crate::schedule::{Continuity, TrackSpan};
use crate::session::Session;
use crate::sessions::{Beginning, OpenRefused, Permit, Sessions, applicant};
use reel_cache::{Body, MediaKind, SessionKey, TrackOfSession};
use reel_qos::AdmitError;
use reel_qos::limits::ROUND_NS;
use std::ops::Range;
use std::sync::Arc;

impl<T> Sessions<T> {
    /// Opens a session that is sent by the clock from `start_ns` on, which may be to come: so the
    /// next pass of a loop is reserved before this one ends. It is promised the first of `offers`
    /// that fits then, and does not wait.
    ///
    /// # Errors
    /// As of [`Sessions::open`].
    pub fn open_pushed(
        &self,
        title_id: &str,
        playing: Arc<T>,
        offers: Choices,
        client: SessionClient,
        start_ns: u64,
        now_ns: u64,
    ) -> Result<Arc<Session<T>>, OpenRefused> {
        let key = SessionKey::random().map_err(OpenRefused::NoRandom)?;
        self.open_pushed_as(key, (title_id, playing), offers, client, start_ns, now_ns)
    }

    /// The same with a key of the caller, which no other session has.
    ///
    /// # Errors
    /// As of [`Sessions::open`].
    pub fn open_pushed_as(
        &self,
        key: SessionKey,
        titled: (&str, Arc<T>),
        offers: Choices,
        client: SessionClient,
        start_ns: u64,
        now_ns: u64,
    ) -> Result<Arc<Session<T>>, OpenRefused> {
        self.open_at(key, titled, offers, client, Beginning::Pushed { start_ns }, now_ns)
    }

    /// A session is sent `media_ns` of its stream from now on, or from its start on if that is to
    /// come. What it holds is changed to that, unless it begins as it was opened. Until the end of
    /// `media_ns`, nothing of it is released because of silence, unless the session needs answers
    /// ([`Session::needs_answers`]).
    ///
    /// # Errors
    /// The refusal of the ledger, if the session holds nothing and there is no room at that
    /// position. A session that holds something keeps it ([`Permit::is_displaced`]).
    pub fn push(
        &self,
        session: &Session<T>,
        media_ns: Range<u64>,
        now_ns: u64,
    ) -> Result<Permit, AdmitError> {
        session.asks(now_ns);
        let mut state = session.state();
        if state.is_closed {
            return Ok(Permit::UNPROMISED);
        }
        let span = TrackSpan { kind: MediaKind::Video, from_ns: media_ns.start, until_ns: media_ns.end };
        let is_reserved = state.promise.as_ref().is_none_or(|promise| promise.reservation.is_some());
        let begins = !state.schedule.is_started() && span.from_ns < ROUND_NS && is_reserved;
        if !begins {
            let start_ns = state.start_ns(now_ns);
            let renewal =
                Renewal { applicant: applicant(session), choice: None, span: &span, start_ns, now_ns };
            let moves = Continuity::Moves { media_ns: span.from_ns };
            let renewed = self.admission().renew(&mut state, &renewal, moves);
            self.settle_memory(session, &state);
            let Renewed { is_reserved, .. } = renewed?;
            if !is_reserved {
                return Ok(Permit { is_displaced: true, ..Permit::UNPROMISED });
            }
        }
        let start_ns = state.start_ns(now_ns);
        state.schedule.anchor(span.from_ns, start_ns);
        state.schedule.requested(&span, start_ns);
        let due_ns = state.schedule.due_ns(span.from_ns, start_ns);
        let send_by_ns = due_ns.saturating_add(SEND_LEAD_NS);
        Ok(Permit { class: session.class(), due_ns, start_ns, send_by_ns, ..Permit::UNPROMISED })
    }

    /// A session that is sent by the clock is at the beginning of `body`, which it has requested,
    /// and will continue to be sent the objects found there, for `stream_ns` in all. It reads units
    /// to their ends, so sessions behind it may follow.
    pub fn passes(&self, session: &Session<T>, body: &Body, stream_ns: u64, now_ns: u64) {
        let mut state = session.state();
        state.schedule.ends(MediaKind::Video, stream_ns);
        if !state.is_closed {
            let track = TrackOfSession { session: session.key(), track: MediaKind::Video.index() };
            self.audience.plays(track, body, 0, stream_ns, true, now_ns);
        }
    }
}
