//! What a ring promises, on both drivers.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod drivers;
mod trains;
