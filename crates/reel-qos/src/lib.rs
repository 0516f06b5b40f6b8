//! Traffic classes and the admission ledger, pure.
#![forbid(unsafe_code)]

mod class;
pub mod limits;
mod price;

pub use class::{Class, ClassSpec, ClassTable, ClassTableError, DEADLINE_NONE_NS, Kind};
pub use price::DiskPrice;
