//! HTTP front end: media on the data plane, everything else handed to axum.
#![forbid(unsafe_code)]

pub mod control;
