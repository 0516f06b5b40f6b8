//! Containers.

pub mod mkv;
mod spacing;
pub mod ts;
mod warnings;
mod window;
