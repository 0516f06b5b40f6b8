//! Which opened titles are kept in memory.

use crate::library::same;
use crate::title::Title;
use reel_volume::TitleRecord;
use std::collections::HashMap;
use std::sync::Arc;

/// Opened titles up to a sum of bytes; the one used longest ago goes first. Who holds one keeps it alive beyond.
pub(crate) struct OpenedTitles {
    titles: HashMap<String, Kept>,
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
        OpenedTitles { titles: HashMap::new(), bytes: 0, bytes_max, clock: 0 }
    }

    /// The opened title of this very record.
    pub(crate) fn find(&mut self, record: &Arc<TitleRecord>) -> Option<Arc<Title>> {
        self.clock += 1;
        let kept = self.titles.get_mut(&record.id)?;
        if same(kept.title.record(), record) {
            kept.used = self.clock;
            return Some(kept.title.clone());
        }
        self.forget(&record.id);
        None
    }

    pub(crate) fn keep(&mut self, title: Arc<Title>) {
        self.clock += 1;
        self.forget(title.id());
        self.bytes += title.memory_bytes();
        self.titles.insert(title.id().to_owned(), Kept { title, used: self.clock });
        // A single title may be larger than the limit: it is kept, alone.
        while self.bytes > self.bytes_max && self.titles.len() > 1 {
            let oldest = self.titles.iter().min_by_key(|(_, kept)| kept.used).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            self.forget(&oldest);
        }
    }

    /// Bytes of all that is kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.titles.len()
    }

    pub(crate) fn forget(&mut self, id: &str) {
        if let Some(kept) = self.titles.remove(id) {
            self.bytes -= kept.title.memory_bytes();
        }
    }
}
