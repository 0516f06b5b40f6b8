//! Titles that are opened once for all sessions.

use crate::set_aside::SetAside;
use reel_cache::Depth;
use reel_library::{Library, LibraryError, Title};
use reel_play::PlayableTitle;
use reel_rt::lock;
use reel_volume::Volume;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

/// Opened titles, so that all sessions of a title share what was computed for it.
pub struct Titles {
    library: Arc<Library>,
    open: Box<OpenIndex>,
    depth: Depth,
    aside: SetAside,
    playing: Mutex<HashMap<String, Weak<PlayableTitle>>>,
}

/// Opens the index of a title of a library.
pub type OpenIndex = dyn Fn(&Library, &str) -> Result<Arc<Title>, LibraryError> + Send + Sync;

impl Titles {
    /// The titles of a library, for members whose readers read ahead by `depth`.
    pub fn new(library: Arc<Library>, depth: Depth) -> Self {
        Self::opened_by(library, depth, Box::new(|library: &Library, id: &str| library.open(id)))
    }

    /// The same, with another function that opens indexes: one that fails in a test.
    pub fn opened_by(library: Arc<Library>, depth: Depth, open: Box<OpenIndex>) -> Self {
        Self { library, open, depth, aside: SetAside::default(), playing: Mutex::new(HashMap::new()) }
    }

    /// Opens a title. Waits for its index if no session plays it yet.
    ///
    /// # Errors
    /// There is no such title, or its index cannot be read.
    pub fn open(&self, id: &str) -> Result<Arc<PlayableTitle>, LibraryError> {
        let title = (self.open)(&self.library, id)?;
        if let Some(playable) = found(&lock(&self.playing), &title) {
            return Ok(playable);
        }
        // Computed here, not on the serving threads: a long title takes some milliseconds. Two
        // callers may compute it at once; all use the first result.
        let playable = Arc::new(PlayableTitle::new(title, self.depth));
        let mut playing = lock(&self.playing);
        if let Some(first) = found(&playing, playable.title()) {
            return Ok(first);
        }
        playing.retain(|_, playable| playable.strong_count() > 0);
        playing.insert(id.to_owned(), Arc::downgrade(&playable));
        Ok(playable)
    }

    /// The volume of the library.
    pub fn volume(&self) -> &Volume {
        self.library.volume()
    }

    /// A thread has panicked while it worked on a title.
    pub fn panicked(&self, id: &str) {
        self.aside.panicked(id, self.edition(id));
    }

    /// Whether a title is set aside because threads panicked on it.
    pub fn is_set_aside(&self, id: &str) -> bool {
        self.aside.has(id, || self.edition(id))
    }

    /// The titles that are set aside.
    pub fn all_set_aside(&self) -> Vec<String> {
        self.aside.all(|id| self.edition(id))
    }

    fn edition(&self, id: &str) -> String {
        self.library.edition(id).unwrap_or_default()
    }
}

/// What was computed for this opening of a title.
fn found(playing: &HashMap<String, Weak<PlayableTitle>>, title: &Arc<Title>) -> Option<Arc<PlayableTitle>> {
    let playable = playing.get(title.id())?.upgrade()?;
    Arc::ptr_eq(playable.title(), title).then_some(playable)
}
