//! The engine, driven by a front end of a hundred lines that knows no HTTP.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod clip;
mod engine;
mod front_end;
mod late;
mod network;
mod playing;
