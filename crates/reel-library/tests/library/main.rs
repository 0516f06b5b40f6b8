//! Titles that come into a library and leave it.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod films;
mod ingest;
mod removed;
mod test_library;
