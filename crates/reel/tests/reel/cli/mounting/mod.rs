//! `reel mount`: refusals, and trees that are mounted where all mounts end with the test.

mod endings;
mod guide;
mod joined_endings;
mod joins;
mod killed_server;
mod merges;
mod odd_writes;
mod pours;
mod refusals;
mod rig;
mod shares;
mod shells;
mod silence;
mod stream_endings;
mod streams;
mod users;
