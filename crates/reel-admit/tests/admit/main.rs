//! Sessions and what is reserved for them, on small volumes of files.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

// The module `cinema` uses these crates.
use {reel_ring as _, tempfile as _};

mod beyond;
#[path = "../../../reel-cache/tests/cache/cinema/mod.rs"]
mod cinema;
mod crowd;
mod demand;
mod following;
mod memory;
mod one_copy;
mod sessions;
mod waiting;
mod window;
