//! The command line as people and scripts meet it: what it prints, how it exits, and what it leaves behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

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
