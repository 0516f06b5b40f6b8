//! Reel, a media-on-demand server whose admitted viewers never stall.
#![forbid(unsafe_code)]

fn main() {}
