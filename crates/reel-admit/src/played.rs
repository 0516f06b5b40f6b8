//! Which of a session's responses its client plays from.
//!
//! A session is promised what one player takes. A film that is sent as one file may be asked for in
//! several ranges at once: by a player that looks something up at its end, or by a program that
//! wants all of it soon. What was promised is for the newest of them while that lasts; the others
//! are sent what nobody else wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The responses of one session.
#[derive(Debug, Default)]
pub(crate) struct Played(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    /// Responses that began.
    begun: AtomicU64,
    /// The one that is played; 0 if it has ended.
    played: AtomicU64,
}

/// One of them; dropped when it ends.
#[derive(Debug)]
pub struct PlayedBy {
    numbers: Arc<Numbers>,
    number: u64,
}

impl Played {
    /// One begins, and is played from here on.
    pub(crate) fn begins(&self) -> PlayedBy {
        let numbers = Arc::clone(&self.0);
        let number = numbers.begun.fetch_add(1, Ordering::Relaxed) + 1;
        numbers.played.store(number, Ordering::Relaxed);
        PlayedBy { numbers, number }
    }
}

impl PlayedBy {
    /// Whether it is what the client plays from: the newest, or the first that asks after the
    /// newest has ended.
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
        // An error: another one is played.
        let _ = self.numbers.played.compare_exchange(self.number, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_played_and_after_it_whoever_asks_first() {
        let played = Played::default();
        let film = played.begins();
        assert!(film.is_played());
        let end_of_it = played.begins();
        assert!(!film.is_played() && end_of_it.is_played());
        drop(end_of_it);
        assert!(film.is_played());
        let later = played.begins();
        drop(film);
        assert!(later.is_played(), "who was not played takes nothing along");
    }
}
