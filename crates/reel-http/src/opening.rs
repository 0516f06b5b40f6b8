//! Opening a title reads its index from the disks and waits for it. It is the only step of a
//! request that is not done on the serve threads.

use crate::front_end::Message;
use reel_library::LibraryError;
use reel_play::{PlayableTitle, Titles};
use reel_rt::{Mailbox, Workers};
use std::sync::Arc;

/// The outcome of opening a title for a connection.
pub(crate) struct Opened {
    pub(crate) connection: u64,
    pub(crate) result: OpenResult,
}

/// A title, or a status and a text for the client.
pub(crate) type OpenResult = Result<Arc<PlayableTitle>, (u16, String)>;

/// Lets a worker open a title for a connection. The result arrives in the mailbox of the
/// connection's thread. Returns `false` if too many titles wait already.
pub(crate) fn open(
    workers: &Workers,
    titles: &Arc<Titles>,
    (id, connection): (String, u64),
    reply: Mailbox<Message>,
) -> bool {
    let titles = Arc::clone(titles);
    workers.run(move || {
        let result = titles.open(&id).map_err(|error| problem(&id, &error));
        reply.post(Message::Opened(Opened { connection, result }));
    })
}

/// The status and text for a client whose title cannot be opened.
fn problem(id: &str, error: &LibraryError) -> (u16, String) {
    match error {
        LibraryError::NoSuchTitle { .. } => {
            (404, format!("there is no title {id}; GET /api/v1/titles lists all"))
        }
        _ => {
            tracing::error!(title = id, %error, "a title cannot be opened");
            (500, format!("the title cannot be opened: {error}"))
        }
    }
}
