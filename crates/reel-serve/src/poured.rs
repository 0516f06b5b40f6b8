//! A viewer of a poured stream, for every front end: what it is sent next, and when that is due.

use crate::Opener;
use reel_admit::Session;
use reel_cache::{Body, Part};
use reel_play::PlayableTitle;
use reel_play::limits::{POURED_HELD_BYTES, POURED_ROUNDS};
use reel_pour::{PourEnd, PourViewer, Read};
use reel_qos::Class;
use reel_qos::limits::ROUND_NS;
use std::sync::Arc;

/// What the name of a poured stream begins with where titles are named. No title has a name with a
/// slash.
pub const LIVE: &str = "live/";

/// How often a session is reserved what follows: when half of it is over.
pub(crate) const CONTINUE_EVERY_NS: u64 = POURED_ROUNDS as u64 / 2 * ROUND_NS;

/// A place in a poured stream.
pub struct Viewing {
    viewer: PourViewer,
    continue_ns: u64,
    /// The bytes that are being sent, and when they are due, if they are.
    sending: Option<(u64, u64)>,
}

/// What comes next of a poured stream.
pub enum Poured {
    /// More of it: what [`Engine::append`](reel_play::Engine::append) needs.
    Part(Body, Class, Option<u64>),
    /// Nothing yet.
    Nothing,
    /// It is complete.
    Complete,
    /// Its program is gone, or nothing is reserved for the viewer any more.
    Broken,
    /// The viewer was too slow.
    Behind,
}

impl Viewing {
    /// A viewer that begins now.
    pub fn new(viewer: PourViewer, now_ns: u64) -> Viewing {
        Viewing { viewer, continue_ns: now_ns + CONTINUE_EVERY_NS, sending: None }
    }

    /// What comes next for the session of this viewer. All before it was sent.
    pub fn next(&mut self, session: &Session<PlayableTitle>, opener: &Opener, now_ns: u64) -> Poured {
        if let Some((bytes, due_ns)) = self.sending.take()
            && due_ns < now_ns
        {
            self.viewer.was_late(bytes);
        }
        if now_ns > self.continue_ns {
            self.continue_ns = now_ns + CONTINUE_EVERY_NS;
            if opener.continue_poured(session, now_ns).is_err() {
                return Poured::Broken;
            }
        }
        let class = session.class();
        // At most what the session was counted with.
        match self.viewer.read(POURED_HELD_BYTES as usize) {
            Read::Messages(messages, due_ns) => {
                let parts = messages.iter().map(|message| Part::Bytes(Arc::clone(message), 0..message.len()));
                let body = Body::new(parts);
                let due_ns = opener.has_deadlines(class).then_some(due_ns);
                self.sending = due_ns.map(|due_ns| (body.bytes(), due_ns));
                Poured::Part(body, class, due_ns)
            }
            Read::Nothing => Poured::Nothing,
            Read::Ended(PourEnd::Complete) => Poured::Complete,
            Read::Ended(PourEnd::Broken) => Poured::Broken,
            Read::Behind => Poured::Behind,
        }
    }

    /// Whether what comes next is gone, or should have been read by now.
    pub fn is_behind(&self, now_ns: u64) -> bool {
        self.viewer.is_behind(now_ns)
    }
}
