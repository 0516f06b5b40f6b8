//! Streams for programs, and a client of them in the same process.

#[path = "../../../reel-cache/tests/cache/cinema/mod.rs"]
mod cinema;
mod programs;
mod streams;
