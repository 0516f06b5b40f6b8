//! What is kept of a session over a restart of the server.

use crate::former::FormerSession;
use reel_cache::SessionKey;

/// A session that can be opened again by another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSession {
    /// Its key.
    pub key: SessionKey,
    /// Its title, its class and its client.
    pub former: FormerSession,
    /// Where it plays; `None` if nothing is reserved for it.
    pub playing: Option<PlayingAt>,
}

/// Where in its title a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayingAt {
    /// The media time that is shown.
    pub media_ns: u64,
    /// Up to which media time pictures, sound and text were requested; `None` for a kind that was
    /// not.
    pub until_ns: [Option<u64>; 3],
    /// Whether the title is sent as one file.
    pub as_file: bool,
    /// Which of the title's choices is reserved.
    pub choice: usize,
    /// The round of media time 0 of what is reserved. Sessions that need other rounds than they had
    /// may find no room in them. `None` if the client has played all that it had: it needs more at
    /// once.
    pub epoch: Option<i64>,
}
