//! Who may hold how many buffers of the arena, so that readers never wait for each other in a ring.
//!
//! A reader that starts a stripe first reserves every buffer it may need for it, in one step. What is reserved
//! never exceeds what exists, and buffers that only the table of shared units holds can be taken back at any time,
//! so a reader with a reservation always gets its buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The buffers that readers may hold together.
#[derive(Clone, Debug)]
pub struct Budget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    total: usize,
    reserved: AtomicUsize,
    starved: AtomicUsize,
}

/// A right to a number of buffers; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    inner: Arc<Inner>,
    buffers: usize,
}

/// Counts its holder among those who wait for memory, until dropped.
#[derive(Debug)]
pub(crate) struct Starving {
    inner: Arc<Inner>,
}

impl Budget {
    /// A budget of `total` buffers.
    pub fn new(total: usize) -> Self {
        Self { inner: Arc::new(Inner { total, reserved: AtomicUsize::new(0), starved: AtomicUsize::new(0) }) }
    }

    /// All of `buffers` or nothing.
    pub fn reserve(&self, buffers: usize) -> Option<Reservation> {
        let add = |reserved: usize| (reserved + buffers <= self.inner.total).then_some(reserved + buffers);
        self.inner.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Reservation { inner: Arc::clone(&self.inner), buffers })
    }

    /// Buffers reserved now.
    pub fn reserved(&self) -> usize {
        self.inner.reserved.load(Ordering::Relaxed)
    }

    /// Buffers that can be reserved in all.
    pub fn total(&self) -> usize {
        self.inner.total
    }

    /// Readers that wait for memory now. When not zero, those who only wait for their client give theirs back.
    pub fn starved(&self) -> usize {
        self.inner.starved.load(Ordering::Relaxed)
    }

    pub(crate) fn starving(&self) -> Starving {
        self.inner.starved.fetch_add(1, Ordering::Relaxed);
        Starving { inner: Arc::clone(&self.inner) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.inner.reserved.fetch_sub(self.buffers, Ordering::Relaxed);
    }
}

impl Drop for Starving {
    fn drop(&mut self) {
        self.inner.starved.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_there_is() {
        let budget = Budget::new(10);
        let first = budget.reserve(7).unwrap();
        assert!(budget.reserve(4).is_none());
        let second = budget.reserve(3).unwrap();
        assert_eq!(budget.reserved(), 10);
        drop(first);
        assert!(budget.reserve(7).is_some());
        drop(second);
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn the_hungry_are_counted() {
        let budget = Budget::new(0);
        let one = budget.starving();
        assert_eq!(budget.starved(), 1);
        drop(one);
        assert_eq!(budget.starved(), 0);
    }
}
