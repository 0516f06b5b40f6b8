//! Which of a session's responses its client plays from.
//!
//! A session's reservation covers what one player takes. A client may request several ranges of a
//! title that is sent as one file at the same time. A player does so when it looks something up at
//! the end of the file. A program does so when it wants all of the file soon. The reservation
//! serves the newest range while that response lasts. The other ranges are sent with resources that
//! no other session needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The responses of one session.
#[derive(Debug, Default)]
pub(crate) struct Played(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    /// Responses that began.
    begun: AtomicU64,
    /// The response that is played; 0 if it has ended.
    played: AtomicU64,
}

/// One response of a session; dropped when the response ends.
#[derive(Debug)]
pub struct PlayedBy {
    numbers: Arc<Numbers>,
    number: u64,
}

impl Played {
    /// A response begins, and is played from here on.
    pub(crate) fn begins(&self) -> PlayedBy {
        let numbers = Arc::clone(&self.0);
        let number = numbers.begun.fetch_add(1, Ordering::Relaxed) + 1;
        numbers.played.store(number, Ordering::Relaxed);
        PlayedBy { numbers, number }
    }
}

impl PlayedBy {
    /// Whether the client plays from this response: it is the newest, or the first that asks after
    /// the newest has ended.
    pub fn is_played(&self) -> bool {
        let played = &self.numbers.played;
        match played.compare_exchange(0, self.number, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(other) => other == self.number,
        }
    }
}

impl Drop for PlayedBy {
    fn drop(&mut self) {
        // An error means that another response is played.
        let _ = self.numbers.played.compare_exchange(self.number, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_played_and_after_it_the_first_that_asks() {
        let played = Played::default();
        let film = played.begins();
        assert!(film.is_played());
        let end_of_it = played.begins();
        assert!(!film.is_played() && end_of_it.is_played());
        drop(end_of_it);
        assert!(film.is_played());
        let later = played.begins();
        drop(film);
        assert!(later.is_played(), "the end of a response that is not played changes nothing");
    }
}
