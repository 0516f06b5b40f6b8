//! Cores, their tasks and their ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod cores;
mod ends;
mod tasks;
