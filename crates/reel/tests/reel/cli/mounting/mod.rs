//! `reel mount`: refusals, and trees that are mounted where all mounts end with the test.

mod endings;
mod guide;
mod joins;
mod merges;
mod pours;
mod refusals;
mod rig;
mod shares;
mod shells;
mod silence;
mod stream_endings;
mod streams;
mod users;
