//! Sessions, prefetch and shared buffers.
#![forbid(unsafe_code)]
