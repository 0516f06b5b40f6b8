use std::sync::atomic::{Ordering, fence};

use crate::shared::SharedMemory;

/// Words that two sides share. Loads and stores have no order of their own; fences make it.
pub trait Words {
    /// The word at `index`.
    fn load(&self, index: usize) -> u64;

    /// Sets the word at `index`.
    fn store(&self, index: usize, value: u64);

    /// What was read before it was read before all that follows.
    fn fence_acquire(&self);

    /// What was done before it is seen before what is written after it.
    fn fence_release(&self);

    /// What was written before it is seen by others, or theirs is seen after it: one of two sides that write, fence and read sees
    /// the other's write.
    fn fence_full(&self);
}

impl Words for SharedMemory {
    fn load(&self, index: usize) -> u64 {
        SharedMemory::load(self, index)
    }

    fn store(&self, index: usize, value: u64) {
        SharedMemory::store(self, index, value);
    }

    fn fence_acquire(&self) {
        fence(Ordering::Acquire);
    }

    fn fence_release(&self) {
        fence(Ordering::Release);
    }

    fn fence_full(&self) {
        fence(Ordering::SeqCst);
    }
}
