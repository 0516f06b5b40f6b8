//! Titles on which threads of this server have panicked. The second panic sets a title aside.

use crate::limits::TITLE_PANICS_MAX;
use reel_rt::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Counts the panics of each title. A server that starts begins with no counts.
#[derive(Debug, Default)]
pub(crate) struct SetAside(Mutex<BTreeMap<String, Panics>>);

#[derive(Debug)]
struct Panics {
    /// The stamp of the title. A title that was ingested again has another one.
    edition: String,
    count: u32,
}

impl SetAside {
    /// Counts a panic on this edition of a title, and logs what follows from it.
    pub(crate) fn panicked(&self, id: &str, edition: String) {
        let mut titles = lock(&self.0);
        let panics =
            titles.entry(id.to_owned()).or_insert_with(|| Panics { edition: edition.clone(), count: 0 });
        if panics.edition != edition {
            *panics = Panics { edition, count: 0 };
        }
        panics.count += 1;
        if !panics.is_enough() {
            tracing::error!(
                title = id,
                "a thread panicked on this title, which is a defect; its client was refused"
            );
        } else {
            tracing::error!(
                title = id,
                "the title is set aside: threads panicked on it {} times, which is a defect. Report it with the log; a \
                 restart of the server, or ingesting the title again, ends this",
                panics.count
            );
        }
    }

    /// Whether this edition of a title is set aside. `edition` is called only for a title that was
    /// counted.
    pub(crate) fn has(&self, id: &str, edition: impl FnOnce() -> String) -> bool {
        let titles = lock(&self.0);
        titles.get(id).is_some_and(|panics| panics.is_enough() && panics.edition == edition())
    }

    /// All titles that are set aside, of which `edition` gives the present ones.
    pub(crate) fn all(&self, edition: impl Fn(&str) -> String) -> Vec<String> {
        let titles = lock(&self.0);
        let is_aside =
            |(id, panics): &(&String, &Panics)| panics.is_enough() && panics.edition == edition(id);
        titles.iter().filter(is_aside).map(|(id, _)| id.clone()).collect()
    }
}

impl Panics {
    fn is_enough(&self) -> bool {
        self.count >= TITLE_PANICS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_panic_sets_a_title_aside_until_it_is_ingested_again() {
        let aside = SetAside::default();
        let has = |edition: &str| aside.has("a", || edition.to_owned());
        assert!(!has("1"));
        aside.panicked("a", "1".to_owned());
        assert!(!has("1"));
        aside.panicked("a", "1".to_owned());
        assert!(has("1"));
        assert_eq!(aside.all(|_| "1".to_owned()), ["a"]);
        assert!(aside.all(|_| "2".to_owned()).is_empty());
        assert!(!aside.has("b", || "1".to_owned()));
        assert!(!has("2"), "another edition is another title");
        aside.panicked("a", "2".to_owned());
        assert!(!has("2"), "its count begins with it");
    }
}
