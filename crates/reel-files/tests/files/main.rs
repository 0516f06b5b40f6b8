//! Which files there are, and how a server is asked for what is in them.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod http;
mod poured;
mod shares;
mod streams;
mod tree;
