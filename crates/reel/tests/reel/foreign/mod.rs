//! Foreign programs test what Reel serves: ffmpeg, curl, GStreamer, tshark, Chromium.
//!
//! The tests of the day share one volume with one server, which holds a few films of [`films`].
//! Those of the night share another one, which holds all. Tests that damage members create volumes
//! of their own.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod browser;
mod casts;
mod changes;
mod corpus;
mod crowd;
mod curl;
mod damage;
mod films;
pub(crate) mod frames;
mod gstreamer;
mod https;
mod ladder;
mod night;
mod odd;
mod players;
mod rig;
mod sessions;
pub(crate) mod taps;
