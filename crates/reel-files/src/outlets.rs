//! What streams that are joined need of a server.

use crate::media::{MediaSession, NotOpened};
use std::time::Instant;

/// A server that plays sessions into destinations. Each question is answered by `until` or fails.
pub trait Outlets: Send + Sync + 'static {
    /// Has a session played into a destination: from this byte of its file on, or without one from
    /// where it is.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    fn join(
        &self,
        session: &MediaSession,
        to: &str,
        from_byte: Option<u64>,
        until: Instant,
    ) -> Result<OutletFacts, NotOpened>;

    /// Has another destination take the place of that of an outlet.
    ///
    /// # Errors
    /// As [`Outlets::join`]. The outlet is as it was.
    fn replace(
        &self,
        session: &MediaSession,
        outlet: u64,
        to: &str,
        until: Instant,
    ) -> Result<OutletFacts, NotOpened>;

    /// The outlets of a session.
    ///
    /// # Errors
    /// As [`Outlets::join`].
    fn outlets(&self, session: &MediaSession, until: Instant) -> Result<Vec<OutletFacts>, NotOpened>;
}

/// What is known of an outlet.
#[derive(Clone, Debug, PartialEq)]
pub struct OutletFacts {
    /// Its number in its session.
    pub number: u64,
    /// The word of the API for how far it is.
    pub state: String,
    /// Why it has ended.
    pub reason: Option<String>,
    /// Its first byte of the file.
    pub from_byte: u64,
    /// Bytes that its destination has.
    pub bytes: u64,
    /// Bytes among those that were late.
    pub late_bytes: u64,
    /// Bytes that it gets without a pause.
    pub run_bytes: u64,
    /// How long the pauses are, in milliseconds, as the API writes it.
    pub pause_ms: f64,
}
