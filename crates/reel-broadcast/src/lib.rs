//! Schedules of casts, pure: periodic broadcasting of one title to any number of receivers.
//!
//! A title is cut into segments of equal time d. Time is cut into slots of the same length, and
//! each channel sends one segment, or nothing, in each slot. Slot 0 begins at a fixed time of day.
//! A schedule is built so that every window of i slots holds segment i. A client that joins at the
//! start of slot a plays segment i in slot a + i, one slot behind: the segment arrived in one of
//! the slots a to a + i - 1, and is complete. So the client waits for at most d until a slot
//! begins, and for another d until it plays; joining takes some tenths of a second more.
//!
//! - [`Schedule`]: the tables of all channels ([`Table`]), made by one of the [`Scheme`]s.
//! - [`Visit`]: what one client receives, from when to when, and when each segment is complete.
//! - [`Plan`]: the schedule for a wait or a bandwidth, with its cost.
//! - [`Cut`]: the borders of segments of a stream of variable rate.
//! - [`CautiousHarmonic`]: the formulas of the scheme of the INSTANCE thesis, for comparison.
//!
//! Nothing here has a socket or a clock.
#![forbid(unsafe_code)]

mod cut;
mod error;
mod harmonic;
pub mod limits;
mod plan;
mod schedule;
mod scheme;
mod schemes;
mod table;
mod visit;

pub use cut::Cut;
pub use error::BroadcastError;
pub use harmonic::CautiousHarmonic;
pub use plan::{Plan, Stream, receivers_wait_ns};
pub use schedule::{Buffer, ClientRule, Schedule};
pub use scheme::Scheme;
pub use table::{Repeat, Table};
pub use visit::{SegmentTimes, Tuning, Visit};
