//! Foreign programs test what Reel serves: ffmpeg, curl, GStreamer, Chromium.
//!
//! All tests share one volume with one server; it holds every film of [`films`]. Tests that damage
//! members create volumes of their own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod browser;
mod crowd;
mod curl;
mod damage;
mod films;
mod frames;
mod gstreamer;
mod https;
mod ladder;
mod players;
mod rig;
mod taps;
