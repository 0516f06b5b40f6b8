//! Streams for programs, and a client of them in the same process.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

// The module below uses them.
use {reel_disk as _, reel_volume as _, tempfile as _};

#[path = "../../../reel-cache/tests/cache/cinema/mod.rs"]
mod cinema;
mod programs;
mod streams;
