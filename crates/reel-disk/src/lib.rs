//! The disk scheduler and the drivers under it.
#![forbid(unsafe_code)]
