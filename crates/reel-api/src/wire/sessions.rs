//! Sessions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is to be played.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// A title's id, or `A+B`: the pictures of title A with the sound of title B.
    pub title: String,
}

/// What is to be another with a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionChange {
    /// The name of the class in which it is to continue. It is admitted there, or keeps its class.
    pub class: String,
}

/// A session with its addresses.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Session {
    /// The session's secret: a client that knows it may play and end the session.
    pub key: String,
    /// The title's id.
    pub title: String,
    /// The name of its class.
    pub class: String,
    /// The address of the HLS playlist.
    pub hls: String,
    /// The address of the DASH manifest.
    pub dash: String,
    /// Instead of `hls` or `dash`: a session reserves what is asked for first.
    pub progressive: String,
    /// Seconds without a request after which the session ends.
    pub expires_in_s: u64,
    /// Seconds until it starts: 0, or more if there is no room for it before. Media that is
    /// requested earlier is sent then. Also more if its first segment is sent as slowly as it is
    /// shown; then that segment is there when they are over.
    pub starts_in_s: u64,
    /// What a start or a seek takes at most, from its beginning until its first segment is sent, if
    /// the client's own line carries it. The first segment of a session is sent after
    /// `starts_in_s` + `start_bound_s` at the latest.
    pub start_bound_s: u64,
}

/// A session as any client sees it. A key opens its session, so only the client that opened the
/// session is told it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedSession {
    /// The first characters of the key, which tell two sessions from each other.
    pub key_hint: String,
    /// The title's id.
    pub title: String,
    /// Seconds without a request after which the session ends.
    pub expires_in_s: u64,
}

/// All open sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionList {
    /// The oldest first.
    pub sessions: Vec<ListedSession>,
}
