//! Volumes that are written, damaged, rebuilt and cut off at every write.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod claims;
mod crash;
mod damage;
mod faults;
mod hangs;
mod late;
mod rebuild;
mod round_trip;
mod sleeping;
mod targets;
mod volumes;
