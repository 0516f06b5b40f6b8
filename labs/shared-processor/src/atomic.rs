//! The atomics of shared pages, by one name: the model test replaces them by those of the model
//! checker.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
