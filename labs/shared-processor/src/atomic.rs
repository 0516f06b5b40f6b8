//! The atomics of shared pages, by one name: the model test puts those of the model checker in their place.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
