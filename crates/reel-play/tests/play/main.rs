//! The engine, driven by a front end of a hundred lines that knows no HTTP.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

// The module `cinema` uses them.
use {reel_testkit as _, tempfile as _};

#[path = "../../../reel-cache/tests/cache/cinema/mod.rs"]
mod cinema;
mod engine;
mod front_end;
mod network;
