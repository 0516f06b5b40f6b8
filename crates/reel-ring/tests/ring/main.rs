//! What a ring promises, on both drivers.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod addressed;
mod drivers;
mod hanging;
mod trains;
