//! What a receiver makes of whole casts.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod groups;
mod hostile;
mod laws;
mod sender;
mod sources;
