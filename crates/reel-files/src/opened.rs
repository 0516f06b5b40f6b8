//! Open files and directories: each has what there was when it was opened.

use crate::limits::OPENED_MAX;
use crate::node::{Node, StreamFile};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was opened.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    /// A file, with its text.
    Text(Arc<str>),
    /// A file of a stream, with its text.
    OfStream(u64, StreamFile, Arc<str>),
    /// A directory, with its entries.
    Listing(Arc<[Node]>),
}

/// All that is open, by handle.
#[derive(Default)]
pub(crate) struct OpenedTable {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Opened>>,
}

impl OpenedTable {
    /// A handle of what is opened; `None` if too much is open.
    pub(crate) fn open(&self, opened: Opened) -> Option<u64> {
        let mut open = self.table();
        if open.len() >= OPENED_MAX {
            return None;
        }
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        open.insert(handle, opened);
        Some(handle)
    }

    /// What has a handle.
    pub(crate) fn get(&self, handle: u64) -> Option<Opened> {
        self.table().get(&handle).cloned()
    }

    /// It is closed; what it was.
    pub(crate) fn close(&self, handle: u64) -> Option<Opened> {
        self.table().remove(&handle)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, Opened>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a text that a read gets: no byte more than was asked for, which the kernel would
/// refuse.
pub(crate) fn part(text: &str, offset: u64, bytes: u32) -> &[u8] {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    let to = from.saturating_add(bytes as usize).min(text.len());
    &text.as_bytes()[from..to]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_gets_what_it_asked_for_and_no_more() {
        assert_eq!(part("abc\n", 0, 1), b"a");
        assert_eq!(part("abc\n", 3, 4096), b"\n");
        assert_eq!(part("abc\n", 4, 1), b"");
        assert_eq!(part("abc\n", u64::MAX, u32::MAX), b"");
    }

    #[test]
    fn so_much_is_open_and_no_more() {
        let table = OpenedTable::default();
        let open = || table.open(Opened::Text("".into()));
        let handles: Vec<_> = (0..OPENED_MAX).map(|_| open().expect("room")).collect();
        assert_eq!(open(), None);
        table.close(handles[7]);
        let last = open().expect("room");
        assert!(table.get(last).is_some() && table.get(handles[7]).is_none());
    }
}
