//! Containers.

pub mod mkv;
mod spacing;
mod warnings;
mod window;
