//! A small volume with known bytes, and cores that play them, for tests.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod core;
mod opening;
mod volume;

pub use self::core::{ArrivalSender, ClientBehaviour, Core, Ends, IN_TIME_NS};
pub use opening::{five_members, open_volume};
pub use volume::{BUFFERS, MEMBERS, STRIPE_BYTES, VolumeFixture};
