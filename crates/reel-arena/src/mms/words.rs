use std::sync::atomic::{Ordering, fence};

use crate::shared::SharedMemory;

/// Words that two sides share. Loads and stores are unordered; fences order them.
pub trait Words {
    /// The word at `index`.
    fn load(&self, index: usize) -> u64;

    /// Sets the word at `index`.
    fn store(&self, index: usize, value: u64);

    /// Loads before the fence happen before everything after it.
    fn fence_acquire(&self);

    /// Everything before the fence is visible before stores after it.
    fn fence_release(&self);

    /// Orders stores before the fence with loads after it: of two sides that write, fence and read,
    /// one sees the other's write.
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
