//! What codecs say about themselves: decoder configurations and the few headers Reel must read.

pub(crate) mod config;
