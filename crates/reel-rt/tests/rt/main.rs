//! Cores, their tasks and their ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod cores;
mod ends;
mod tasks;
