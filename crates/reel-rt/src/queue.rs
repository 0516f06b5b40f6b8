use crate::heap::Heap;
use crate::limits::QUEUE_WAIT_NS;

/// Tasks without deadlines in order of arrival, and how long the first of them has been passed
/// over.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    tasks: Heap,
    /// Since when the first task has been first, counted from the first check.
    first_since_ns: Option<u64>,
}

impl WaitQueue {
    pub(crate) fn push(&mut self, order: u64, slot: u32) {
        self.tasks.push(order, order, slot);
    }

    /// Removes a slot, if the queue holds it. When the first task leaves, for whatever reason, the
    /// wait of the next one begins.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        if self.first() == Some(slot) {
            self.first_since_ns = None;
        }
        self.tasks.remove(slot)
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.tasks.first().map(|(_, slot)| slot)
    }

    /// The first task, if it has been first for too long.
    pub(crate) fn overdue(&mut self, now_ns: u64) -> Option<u32> {
        let first = self.first()?;
        let since_ns = *self.first_since_ns.get_or_insert(now_ns);
        (now_ns.saturating_sub(since_ns) >= QUEUE_WAIT_NS).then_some(first)
    }
}
