//! A poster that is made while its title is stored.

use crate::input::Stop;
use crate::opened_file::OpenedFile;
use crate::poster::{Poster, PosterSource, make_poster};
use std::thread::{self, JoinHandle};

/// A poster that is made on a thread of its own. The thread and its ffmpeg end with this.
pub(crate) struct PosterJob {
    /// The name of the title; `None` makes no poster.
    name: Option<String>,
    source: Option<PosterSource>,
    thread: Option<JoinHandle<(Poster, Option<String>)>>,
    /// Raised by who ingests, and when this is dropped.
    stops: [Stop; 2],
}

impl PosterJob {
    /// For a title of this name; `stop` ends it.
    pub(crate) fn new(name: &str, stop: &Stop) -> Self {
        let stops = [stop.clone(), Stop::default()];
        Self { name: Some(name.to_owned()), source: None, thread: None, stops }
    }

    /// Makes no poster.
    pub(crate) fn none() -> Self {
        Self { name: None, source: None, thread: None, stops: Default::default() }
    }

    /// Notes the first file, from which the poster is made.
    pub(crate) fn offer(&mut self, file: &mut OpenedFile) {
        if self.name.is_some() && self.source.is_none() && self.thread.is_none() {
            let (film, cover) = (file.path.clone(), file.cover());
            self.source = Some(PosterSource { film, cover, frame_at_s: None });
        }
    }

    /// Begins with the cover, or the frame at `at_s` of the first file, unless it has begun.
    pub(crate) fn begin(&mut self, at_s: f64) {
        if let (None, Some(name), Some(source)) = (&self.thread, self.name.clone(), self.source.take()) {
            let source = PosterSource { frame_at_s: Some(at_s.max(0.0)), ..source };
            let stops = self.stops.clone();
            self.thread = Some(thread::spawn(move || make_poster(&name, Some(&source), &stops)));
        }
    }

    /// The poster; without video the cover or a card. Also what the person who ingests should know.
    pub(crate) fn finish(mut self) -> (Poster, Option<String>) {
        let made = self.thread.take().and_then(|thread| thread.join().ok());
        made.unwrap_or_else(|| {
            make_poster(self.name.as_deref().unwrap_or_default(), self.source.as_ref(), &self.stops)
        })
    }
}

impl Drop for PosterJob {
    /// Waits for the thread: the file that it reads belongs to the ingest, and its path may be that
    /// of another file afterwards.
    fn drop(&mut self) {
        self.stops[1].stop();
        if let Some(thread) = self.thread.take() {
            // A panic was logged when it happened.
            let _ = thread.join();
        }
    }
}
