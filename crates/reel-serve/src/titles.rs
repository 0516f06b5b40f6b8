//! Titles that are opened once for all sessions.

use crate::set_aside::SetAside;
use reel_cache::Depth;
use reel_library::{Form, Library, LibraryError, Title, is_merged, titles_of};
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
    streams: Mutex<HashMap<String, Weak<PlayableTitle>>>,
    poured: Mutex<HashMap<(String, u64), Weak<PlayableTitle>>>,
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
        let (aside, playing, streams, poured) = Default::default();
        Self { library, open, depth, aside, playing, streams, poured }
    }

    /// Opens a form of a title. Waits for its index if no session plays it yet.
    ///
    /// # Errors
    /// There is no such title or no such form of it, or its index cannot be read.
    pub fn open(&self, id: &str, form: Form) -> Result<Arc<PlayableTitle>, LibraryError> {
        match form {
            Form::Cmaf => {
                let title = (self.open)(&self.library, id)?;
                Ok(shared(&self.playing, &Arc::clone(&title), || PlayableTitle::new(title, self.depth)))
            }
            Form::Ts => {
                let stream = self.library.stream(id)?;
                let title = Arc::clone(&stream.title);
                Ok(shared(&self.streams, &title, || PlayableTitle::of_transport(stream, self.depth)))
            }
        }
    }

    /// A stream of this name and rate that a program pours, as all of its viewers share it.
    pub fn poured(&self, name: &str, bytes_per_s: u64) -> Arc<PlayableTitle> {
        let mut poured = lock(&self.poured);
        let key = (name.to_owned(), bytes_per_s);
        if let Some(playable) = poured.get(&key).and_then(Weak::upgrade) {
            return playable;
        }
        let playable = Arc::new(PlayableTitle::of_poured(name, bytes_per_s));
        poured.retain(|_, playable| playable.strong_count() > 0);
        poured.insert(key, Arc::downgrade(&playable));
        playable
    }

    /// The volume of the library.
    pub fn volume(&self) -> &Volume {
        self.library.volume()
    }

    /// A thread has panicked while it worked on a title.
    pub fn panicked(&self, id: &str) {
        self.aside.panicked(id, self.edition(id));
    }

    /// Whether a title, or a part of a merged one, is set aside because threads panicked on it.
    pub fn is_set_aside(&self, id: &str) -> bool {
        let has = |id: &str| self.aside.has(id, || self.edition(id));
        has(id) || is_merged(id) && titles_of(id).any(has)
    }

    /// The titles that are set aside.
    pub fn all_set_aside(&self) -> Vec<String> {
        self.aside.all(|id| self.edition(id))
    }

    fn edition(&self, id: &str) -> String {
        self.library.edition(id).unwrap_or_default()
    }
}

/// What was computed for this opening of a title, or is computed now.
fn shared(
    playing: &Mutex<HashMap<String, Weak<PlayableTitle>>>,
    title: &Arc<Title>,
    compute: impl FnOnce() -> PlayableTitle,
) -> Arc<PlayableTitle> {
    if let Some(playable) = found(&lock(playing), title) {
        return playable;
    }
    // Computed here, not on the serving threads: a long title takes some milliseconds. Two callers
    // may compute it at once; all use the first result.
    let playable = Arc::new(compute());
    let mut playing = lock(playing);
    if let Some(first) = found(&playing, title) {
        return first;
    }
    playing.retain(|_, playable| playable.strong_count() > 0);
    playing.insert(title.id().to_owned(), Arc::downgrade(&playable));
    playable
}

/// What was computed for this opening of a title.
fn found(playing: &HashMap<String, Weak<PlayableTitle>>, title: &Arc<Title>) -> Option<Arc<PlayableTitle>> {
    let playable = playing.get(title.id())?.upgrade()?;
    Arc::ptr_eq(playable.title(), title).then_some(playable)
}
