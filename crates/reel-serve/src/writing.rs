//! What is reserved for a program that writes a stream.

use crate::poured::CONTINUE_EVERY_NS;
use crate::{OpenedSession, Opener, Refusal};
use reel_admit::SessionClient;
use reel_qos::limits::ROUND_NS;

/// A session is looked at so often in the time for which it may be silent.
const LOOKS: u64 = 4;

/// The session of a program that pours. Its reservation is released when this is dropped.
pub struct Writing {
    session: OpenedSession,
    look_ns: u64,
    continue_ns: u64,
}

impl Writing {
    /// A program begins to pour a stream of this name and rate.
    ///
    /// # Errors
    /// As of [`Opener::writer_session`].
    pub fn begin(
        opener: &Opener,
        stream: (&str, u64),
        client: SessionClient,
        now_ns: u64,
    ) -> Result<Writing, Refusal> {
        let session = opener.writer_session(stream, client, now_ns)?;
        Ok(Writing { session, look_ns: now_ns, continue_ns: now_ns + CONTINUE_EVERY_NS })
    }

    /// The program is still there, whether or not it writes. `false` if its session was ended, or
    /// if nothing is reserved for it any more. To be called at least once a second.
    pub fn lasts(&mut self, opener: &Opener, now_ns: u64) -> bool {
        if now_ns < self.look_ns {
            return true;
        }
        self.look_ns = now_ns + ROUND_NS.min(opener.sessions().idle_max_ns() / LOOKS);
        if opener.sessions().touch(&self.session.key(), now_ns).is_none() {
            return false;
        }
        if now_ns <= self.continue_ns {
            return true;
        }
        self.continue_ns = now_ns + CONTINUE_EVERY_NS;
        opener.continue_poured(&self.session, now_ns).is_ok()
    }
}
