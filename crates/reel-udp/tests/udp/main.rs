//! Packets that are sent at their time: over loopback, and as ffmpeg receives them.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod groups;
mod judge;
mod loopback;
mod night;
