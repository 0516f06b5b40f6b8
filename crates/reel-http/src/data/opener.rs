//! Opening a title reads its index from the disks and waits for it: the one thing on the way of a viewer that is done off
//! the cores.

use super::Message;
use super::film::{Film, Films};
use crate::limits::{OPENERS, OPENINGS_MAX};
use reel_library::LibraryError;
use reel_rt::Mailbox;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Asks for a title on behalf of a connection.
pub(crate) struct Opening {
    pub(crate) title: String,
    pub(crate) connection: u64,
    pub(crate) reply: Mailbox<Message>,
}

/// The answer to an [`Opening`].
pub(crate) struct Opened {
    pub(crate) connection: u64,
    /// What came of it.
    pub(crate) result: OpenResult,
}

/// A film, or a status and what to tell the client.
pub(crate) type OpenResult = Result<Arc<Film>, (u16, String)>;

/// The threads that open titles; cheap to clone. They end when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Opener {
    queue: SyncSender<Opening>,
}

impl Opener {
    /// Also the threads, for those who want to see their end.
    pub(crate) fn start(films: &Arc<Films>) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (queue, openings) = sync_channel(OPENINGS_MAX);
        let mut threads = Vec::with_capacity(OPENERS);
        let openings = Arc::new(Mutex::new(openings));
        for number in 0..OPENERS {
            let openings = Arc::clone(&openings);
            let films = Arc::clone(films);
            let name = format!("reel-open-{number}");
            threads.push(thread::Builder::new().name(name).spawn(move || work(&openings, &films))?);
        }
        Ok((Self { queue }, threads))
    }

    /// `false` if too many wait already.
    pub(crate) fn open(&self, opening: Opening) -> bool {
        self.queue.try_send(opening).is_ok()
    }
}

fn work(openings: &Mutex<Receiver<Opening>>, films: &Films) {
    loop {
        // Whoever holds the lock waits for the next one; the others wait for the lock.
        let next = openings.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
        let Ok(opening) = next else { return };
        let result = films.open(&opening.title).map_err(|error| told(&opening.title, &error));
        opening.reply.post(Message::Opened(Opened { connection: opening.connection, result }));
    }
}

/// The status and text for a client whose title cannot be opened.
fn told(title: &str, error: &LibraryError) -> (u16, String) {
    match error {
        LibraryError::NoSuchTitle { .. } => {
            (404, format!("there is no title {title}; GET /api/v1/titles lists all"))
        }
        _ => {
            tracing::error!(title, %error, "a title cannot be opened");
            (500, format!("the title cannot be opened: {error}"))
        }
    }
}
