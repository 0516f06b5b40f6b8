//! Which opened titles are kept in memory.

use crate::library::same;
use crate::title::Title;
use reel_volume::TitleRecord;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Opened titles up to a number of bytes; the least recently used one is dropped first. A title
/// lives on while anything holds it.
///
/// A title is opened only once at a time. Data read for it is cached under the ids of its maps,
/// which every opening assigns newly, so the clients of two openings would each read it separately.
pub(crate) struct OpenedTitles {
    titles: HashMap<String, Kept>,
    /// Dropped titles. Such a title is still found as long as anything holds it.
    dropped: HashMap<String, Weak<Title>>,
    bytes: usize,
    bytes_max: usize,
    clock: u64,
}

struct Kept {
    title: Arc<Title>,
    used: u64,
}

impl OpenedTitles {
    pub(crate) fn new(bytes_max: usize) -> OpenedTitles {
        OpenedTitles { titles: HashMap::new(), dropped: HashMap::new(), bytes: 0, bytes_max, clock: 0 }
    }

    /// The opened title of exactly this record.
    pub(crate) fn find(&mut self, record: &Arc<TitleRecord>) -> Option<Arc<Title>> {
        self.clock += 1;
        if let Some(kept) = self.titles.get_mut(&record.id) {
            kept.used = self.clock;
            let title = kept.title.clone();
            if same(title.record(), record) {
                return Some(title);
            }
            self.forget(&record.id);
        }
        let title = self.dropped.remove(&record.id)?.upgrade()?;
        if !same(title.record(), record) {
            return None;
        }
        self.insert(title.clone());
        Some(title)
    }

    /// Keeps a title, unless another opening of it is kept. Returns the one of the two that all
    /// callers use from now on.
    pub(crate) fn keep(&mut self, title: Arc<Title>) -> Arc<Title> {
        if let Some(kept) = self.find(title.record()) {
            return kept;
        }
        self.insert(title.clone());
        title
    }

    /// Bytes of all titles that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.titles.len()
    }

    pub(crate) fn forget(&mut self, id: &str) {
        self.take(id);
        self.dropped.remove(id);
    }

    fn insert(&mut self, title: Arc<Title>) {
        self.bytes += title.memory_bytes();
        self.titles.insert(title.id().to_owned(), Kept { title, used: self.clock });
        // A single title may be larger than the limit: it is kept, alone.
        while self.bytes > self.bytes_max && self.titles.len() > 1 {
            let oldest = self.titles.iter().min_by_key(|(_, kept)| kept.used).map(|(id, _)| id.clone());
            let Some(title) = oldest.and_then(|id| self.take(&id)) else { break };
            self.dropped.retain(|_, held| held.strong_count() > 0);
            self.dropped.insert(title.id().to_owned(), Arc::downgrade(&title));
        }
    }

    fn take(&mut self, id: &str) -> Option<Arc<Title>> {
        let kept = self.titles.remove(id)?;
        self.bytes -= kept.title.memory_bytes();
        Some(kept.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reel_volume::SourceFile;

    /// Two openings of each of `count` titles.
    fn titles(count: u64) -> Vec<[Arc<Title>; 2]> {
        let record = |added_unix_s: u64| {
            let id = format!("film-{added_unix_s}");
            let (name, source) = (id.clone(), SourceFile::default());
            Arc::new(TitleRecord { id, name, added_unix_s, source, objects: Vec::new() })
        };
        let opening = |record: &Arc<TitleRecord>| Arc::new(Title::for_tests(Arc::clone(record), 100));
        (0..count).map(record).map(|record| [opening(&record), opening(&record)]).collect()
    }

    #[test]
    fn all_callers_share_the_first_of_two_openings() {
        let mut opened = OpenedTitles::new(1000);
        let [first, second] = &titles(1)[0];
        assert!(Arc::ptr_eq(&opened.keep(first.clone()), first));
        assert!(Arc::ptr_eq(&opened.keep(second.clone()), first));
        assert_eq!((opened.len(), opened.bytes()), (1, 100));
    }

    #[test]
    fn a_dropped_title_is_found_while_it_is_held() {
        let mut opened = OpenedTitles::new(250);
        let titles = titles(3);
        let kept: Vec<_> = titles.iter().map(|[title, _]| opened.keep(title.clone())).collect();
        assert_eq!((opened.len(), opened.bytes()), (2, 200));
        assert!(Arc::ptr_eq(&opened.find(kept[0].record()).expect("held"), &kept[0]));
        assert!(Arc::ptr_eq(&opened.keep(titles[1][1].clone()), &kept[1]));
        assert_eq!((opened.len(), opened.bytes()), (2, 200));
        let records: Vec<_> = kept.iter().map(|title| title.record().clone()).collect();
        drop((kept, titles));
        assert_eq!(records.iter().filter(|record| opened.find(record).is_some()).count(), 2);
    }

    #[test]
    fn a_new_title_with_a_reused_id_is_another_title() {
        let mut opened = OpenedTitles::new(150);
        let titles = titles(2);
        let renamed = |title: &Title| {
            let record = TitleRecord { added_unix_s: 7, ..(**title.record()).clone() };
            Arc::new(record)
        };
        titles.iter().for_each(|[title, _]| drop(opened.keep(title.clone())));
        assert!(opened.find(&renamed(&titles[0][0])).is_none(), "it was dropped");
        assert!(opened.find(&renamed(&titles[1][0])).is_none(), "it was kept");
        assert_eq!(opened.bytes(), 0);
    }
}
