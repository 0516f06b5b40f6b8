//! The choices that a title offers to a session.

use reel_cache::SharedTracks;
use reel_qos::Demand;
use std::sync::Arc;

/// What a session is offered of a title.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The demands of its choices (renditions), best first.
    pub demands: Arc<[Arc<Demand>]>,
    /// What sessions that play a choice may share, for each choice. Nothing is shared of a choice
    /// without an entry.
    pub shared: Arc<[Option<Arc<SharedTracks>>]>,
}

impl Choices {
    /// No choices, so that nothing is promised.
    pub fn none() -> Self {
        Self::from(Arc::from([]))
    }

    /// What the sessions that play one of the choices may share.
    pub fn shared(&self, choice: usize) -> Option<&Arc<SharedTracks>> {
        self.shared.get(choice)?.as_ref()
    }
}

impl From<Arc<[Arc<Demand>]>> for Choices {
    fn from(demands: Arc<[Arc<Demand>]>) -> Self {
        Self { demands, shared: Arc::from([]) }
    }
}
