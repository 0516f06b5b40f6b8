//! Devices to measure on: modelled hard disks, loop devices, throttles, file systems, and a process
//! that removes them.

mod files;
mod kernel;
mod member;
mod owner;
mod owner_process;

pub(crate) use member::Change;
pub(crate) use owner::{DeviceOwner, DeviceRequest, DiskCounts};
pub(crate) use owner_process::own;
