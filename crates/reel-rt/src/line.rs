use crate::heap::Heap;
use crate::limits::LINE_WAIT_NS;

/// Tasks without deadlines, as they came, and for how long the first of them has been passed over.
#[derive(Debug, Default)]
pub(crate) struct Line {
    tasks: Heap,
    /// Since when the first has been the first, as far as that was looked at.
    first_since_ns: Option<u64>,
}

impl Line {
    pub(crate) fn push(&mut self, order: u64, slot: u32) {
        self.tasks.push(order, order, slot);
    }

    /// Takes a slot out, if it is in. When the first goes, whether served or not, the next one's wait begins.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        if self.first() == Some(slot) {
            self.first_since_ns = None;
        }
        self.tasks.remove(slot)
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.tasks.first().map(|(_, slot)| slot)
    }

    /// The first, if it has been that for too long.
    pub(crate) fn overdue(&mut self, now_ns: u64) -> Option<u32> {
        let first = self.first()?;
        let since_ns = *self.first_since_ns.get_or_insert(now_ns);
        (now_ns.saturating_sub(since_ns) >= LINE_WAIT_NS).then_some(first)
    }
}
