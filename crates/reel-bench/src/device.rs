//! Devices to measure on: modelled hard disks, loop devices, throttles, file systems, and a keeper that takes them away again.

mod files;
mod keep;
mod keeper;
mod kernel;
mod member;
mod seek;

pub(crate) use keep::keep;
pub(crate) use keeper::{Ask, DiskCounts, Keeper};
pub(crate) use member::Change;
