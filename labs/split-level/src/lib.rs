//! Laboratory: two experiments with the split-level scheduler of `reel-rt`, which no server uses.
//!
//! [`split_level`] measures what it costs to schedule messages by deadline (Govindan and Anderson,
//! SOSP 1991). [`upcalls`] measures how punctual periodic upcalls are (Buddhikot and Parulkar,
//! MARS). No server is measured: the measured program is the example `cores`, one process for each
//! measurement.
#![forbid(unsafe_code)]

mod cores;
mod split_level;
mod upcalls;

pub use split_level::run as split_level;
pub use upcalls::run as upcalls;
