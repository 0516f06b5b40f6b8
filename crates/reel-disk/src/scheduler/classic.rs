//! Policies for experiments: the orders that papers and other systems use, to compare [`Rounds`]
//! with.
//!
//! The server uses `rounds`. Tests and the simulator select the others by name, and so does
//! `[experimental]` of `reel.toml`. They keep no promise: `fifo`, `cscan` and `edf` do not look at
//! classes, and `drr` does not look at deadlines.
//!
//! One of them is also used in earnest: `cscan`, by commands that have the disks to themselves.
//!
//! [`Rounds`]: super::Rounds

mod drr;
mod ordered;

pub use drr::Drr;
pub use ordered::{Ordered, OrderedBy};
