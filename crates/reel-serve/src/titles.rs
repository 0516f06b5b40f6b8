//! Titles that are opened once for all sessions.

use reel_cache::Depth;
use reel_library::{Library, LibraryError, Title};
use reel_play::PlayableTitle;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Opened titles, so that all sessions of a title share what was computed for it.
pub struct Titles {
    library: Arc<Library>,
    depth: Depth,
    playing: Mutex<HashMap<String, Weak<PlayableTitle>>>,
}

impl Titles {
    /// The titles of a library, for members whose readers read ahead by `depth`.
    pub fn new(library: Arc<Library>, depth: Depth) -> Self {
        Self { library, depth, playing: Mutex::new(HashMap::new()) }
    }

    /// Opens a title. Waits for its index if no session plays it yet.
    ///
    /// # Errors
    /// There is no such title, or its index cannot be read.
    pub fn open(&self, id: &str) -> Result<Arc<PlayableTitle>, LibraryError> {
        let title = self.library.open(id)?;
        if let Some(playable) = found(&self.playing(), &title) {
            return Ok(playable);
        }
        // Computed here, not on the serving threads: a long title takes some milliseconds. Two
        // callers may compute it at once; all use the first result.
        let playable = Arc::new(PlayableTitle::new(title, self.depth));
        let mut playing = self.playing();
        if let Some(first) = found(&playing, playable.title()) {
            return Ok(first);
        }
        playing.retain(|_, playable| playable.strong_count() > 0);
        playing.insert(id.to_owned(), Arc::downgrade(&playable));
        Ok(playable)
    }

    /// A panic elsewhere leaves the map valid: it changes by single inserts.
    fn playing(&self) -> MutexGuard<'_, HashMap<String, Weak<PlayableTitle>>> {
        self.playing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What was computed for this opening of a title.
fn found(playing: &HashMap<String, Weak<PlayableTitle>>, title: &Arc<Title>) -> Option<Arc<PlayableTitle>> {
    let playable = playing.get(title.id())?.upgrade()?;
    Arc::ptr_eq(playable.title(), title).then_some(playable)
}
