//! A session between its opening and its client.

use reel_admit::{Session, Sessions};
use reel_play::PlayableTitle;
use std::ops::Deref;
use std::sync::Arc;

/// A session that was opened. It is closed when this is dropped, with all that is reserved for it.
///
/// A front end that fails after the opening returns its error, and nothing is left behind, also if
/// it panics. One whose client learns the key lets the session go with [`OpenedSession::keep`]. One
/// whose clients know no keys has this live as long as what plays in the session.
#[must_use = "the session is closed when this is dropped"]
pub struct OpenedSession {
    session: Arc<Session<PlayableTitle>>,
    /// Where to close it; `None` if it is kept.
    sessions: Option<Arc<Sessions<PlayableTitle>>>,
}

impl OpenedSession {
    /// A session that was just opened in `sessions`.
    pub fn new(sessions: &Arc<Sessions<PlayableTitle>>, session: Arc<Session<PlayableTitle>>) -> Self {
        Self { session, sessions: Some(Arc::clone(sessions)) }
    }

    /// The session stays open from now on: until its client closes it, or is silent for too long.
    pub fn keep(mut self) -> Arc<Session<PlayableTitle>> {
        self.sessions = None;
        Arc::clone(&self.session)
    }
}

impl Deref for OpenedSession {
    type Target = Arc<Session<PlayableTitle>>;

    fn deref(&self) -> &Self::Target {
        &self.session
    }
}

impl Drop for OpenedSession {
    fn drop(&mut self) {
        if let Some(sessions) = &self.sessions {
            sessions.close(&self.session.key());
        }
    }
}
