//! Sessions and what is reserved for them, on small volumes of files.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod beyond;
mod crowd;
mod demand;
mod displaced;
mod following;
mod front_ends;
mod memory;
mod one_copy;
mod parallel;
mod pushed;
mod reclass;
mod sessions;
mod shares;
mod waiting;
mod window;
