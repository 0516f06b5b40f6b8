//! Sessions and what is reserved for them, on small volumes of files.

mod beyond;
#[path = "../../../reel-cache/tests/cache/cinema/mod.rs"]
mod cinema;
mod crowd;
mod demand;
mod following;
mod memory;
mod one_copy;
mod sessions;
mod window;
