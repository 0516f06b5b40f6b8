//! The titles of a cast, which are sent one after another.

use reel_play::{Playable, PlayableTitle, PushedStream};
use std::sync::Arc;

/// One title or more. A place counts the titles that were sent before, from the beginning of the
/// cast on. Titles keep their space until the cast ends.
pub(crate) struct Playlist {
    first: Arc<PlayableTitle>,
    others: Vec<Arc<PlayableTitle>>,
}

impl Playlist {
    /// `first`, then the others.
    pub(crate) fn new(first: Arc<PlayableTitle>, others: Vec<Arc<PlayableTitle>>) -> Playlist {
        Playlist { first, others }
    }

    /// The first title.
    pub(crate) fn first(&self) -> &Arc<PlayableTitle> {
        &self.first
    }

    /// The titles in order, each as often as it is listed.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<PlayableTitle>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Their streams.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &PushedStream> {
        self.all().filter_map(|playing| playing.pushed())
    }

    /// How many titles there are.
    pub(crate) fn titles(&self) -> u64 {
        1 + self.others.len() as u64
    }

    /// The first place from `place` on whose title `is_there`, and that title. Without a loop,
    /// there are as many places as titles.
    pub(crate) fn next(
        &self,
        place: u64,
        is_looped: bool,
        is_there: impl Fn(&PlayableTitle) -> bool,
    ) -> Option<(u64, &Arc<PlayableTitle>)> {
        let titles = self.titles();
        let end = if is_looped { place.saturating_add(titles) } else { titles };
        (place..end).map(|place| (place, self.at(place))).find(|(_, playing)| is_there(playing))
    }

    /// The ids of several titles; none of a single one.
    pub(crate) fn ids(&self) -> Vec<String> {
        match self.others.is_empty() {
            true => Vec::new(),
            false => self.all().map(|playing| playing.title().id().to_owned()).collect(),
        }
    }

    /// Where in the list a place is.
    pub(crate) fn place_in_list(&self, place: u64) -> usize {
        // Fits: below the number of titles.
        (place % self.titles()) as usize
    }

    fn at(&self, place: u64) -> &Arc<PlayableTitle> {
        match self.place_in_list(place) {
            0 => &self.first,
            place => &self.others[place - 1],
        }
    }
}
