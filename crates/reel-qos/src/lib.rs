//! Traffic classes and the admission ledger, pure.
#![forbid(unsafe_code)]

mod class;

pub use class::{Class, DEADLINE_NONE_NS};
