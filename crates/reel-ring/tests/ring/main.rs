//! What a ring promises, on both drivers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod drivers;
mod trains;
