//! Members, their scheduler and their order of service: on files, and on a simulated device and
//! clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod disks;
mod laws;
mod neighbours;
mod prism;
mod scheduler;
mod simulated;
mod transfer;
mod turns;
