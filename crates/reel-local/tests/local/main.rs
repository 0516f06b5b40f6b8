//! Streams for programs, and a client of them in the same process.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod core;
mod in_step;
mod programs;
mod streams;
