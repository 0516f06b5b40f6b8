//! The command line as users and scripts see it: its output, exit codes, and the files it leaves.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod bad_input;
mod capacity;
mod configuration;
mod films;
mod https;
mod kernel;
mod life;
mod names;
mod probing;
mod rig;
mod serving;
mod tapping;
mod volumes;
