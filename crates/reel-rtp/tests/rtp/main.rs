//! What the decoder does for whole casts.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod cast;
mod hostile;
mod repair;
mod sdp;
mod tshark;
