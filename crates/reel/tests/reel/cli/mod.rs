//! The command line as users and scripts see it: its output, exit codes, and the files it leaves.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod bad_input;
mod broadcasts;
mod capacity;
mod casting;
mod configuration;
mod films;
mod freezing;
mod https;
mod kernel;
mod life;
mod logs;
mod mapped;
mod mounting;
mod names;
mod on_air;
mod pipes;
mod pouring;
mod probing;
mod receiving;
mod replaying;
mod rig;
mod serving;
mod subtitles;
mod tapping;
mod volumes;
mod watching;
mod wrong_port;
