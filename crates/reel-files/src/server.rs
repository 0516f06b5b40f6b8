//! What files show of a server.

use crate::media::NotOpened;
use std::sync::Arc;
use std::time::Instant;

/// A server, as far as files show it. Each question is answered by `until` or fails.
pub trait Server: Send + Sync + 'static {
    /// All titles.
    ///
    /// # Errors
    /// The server does not answer, or not as a Reel server.
    fn titles(&self, until: Instant) -> Result<Vec<TitleFacts>, AskError>;

    /// The title with this id.
    ///
    /// # Errors
    /// As [`Server::titles`].
    fn title(&self, id: &str, until: Instant) -> Result<Option<TitleFacts>, AskError>;

    /// All members of the volume.
    ///
    /// # Errors
    /// As [`Server::titles`].
    fn members(&self, until: Instant) -> Result<Vec<MemberFacts>, AskError>;

    /// All classes of traffic.
    ///
    /// # Errors
    /// As [`Server::titles`].
    fn classes(&self, until: Instant) -> Result<Vec<ClassFacts>, AskError>;

    /// Replaces the classes of traffic: all of them at once.
    ///
    /// # Errors
    /// The server does not answer, or not as a Reel server, or refuses.
    fn set_classes(&self, classes: &[ClassFacts], until: Instant) -> Result<(), NotOpened>;

    /// How many more viewers would be admitted now, of a stream of a rate that the server was made
    /// for.
    ///
    /// # Errors
    /// As [`Server::titles`].
    fn more_viewers(&self, until: Instant) -> Result<u64, AskError>;
}

impl<S: Server> Server for Arc<S> {
    fn titles(&self, until: Instant) -> Result<Vec<TitleFacts>, AskError> {
        (**self).titles(until)
    }

    fn title(&self, id: &str, until: Instant) -> Result<Option<TitleFacts>, AskError> {
        (**self).title(id, until)
    }

    fn members(&self, until: Instant) -> Result<Vec<MemberFacts>, AskError> {
        (**self).members(until)
    }

    fn classes(&self, until: Instant) -> Result<Vec<ClassFacts>, AskError> {
        (**self).classes(until)
    }

    fn set_classes(&self, classes: &[ClassFacts], until: Instant) -> Result<(), NotOpened> {
        (**self).set_classes(classes, until)
    }

    fn more_viewers(&self, until: Instant) -> Result<u64, AskError> {
        (**self).more_viewers(until)
    }
}

/// What is shown of a title.
#[derive(Clone, Debug, PartialEq)]
pub struct TitleFacts {
    /// Its id.
    pub id: Arc<str>,
    /// Its name for people.
    pub name: String,
    /// Playing time in seconds.
    pub seconds: f64,
    /// Its average rate in bits per second; `None` if it cannot be played.
    pub rate_bps: Option<u64>,
}

/// What is shown of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberFacts {
    /// Its number in the volume.
    pub member: u64,
    /// The word of the API for its state.
    pub state: String,
    /// What a request costs, in microseconds of its time.
    pub request_us: f64,
    /// What a MiB costs, in microseconds of its time.
    pub mib_us: f64,
}

/// What is shown of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassFacts {
    /// Its name.
    pub name: Arc<str>,
    /// The word of the API for its kind.
    pub kind: String,
    /// Its share of every disk, in thousandths.
    pub share_permille: u32,
    /// Its share of the network, in thousandths, if the server says so.
    pub network_permille: Option<u32>,
}

/// Why a server gave no answer that can be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// There was no answer in time.
    #[error("the server did not answer in time")]
    Late,
    /// No connection, or it broke off.
    #[error("the server does not answer: {0}")]
    Unreachable(String),
    /// There was an answer, and not one that can be used.
    #[error("the server's answer cannot be used: {0}")]
    Unusable(String),
}
