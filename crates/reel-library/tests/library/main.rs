//! Titles that come into a library and leave it.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod films;
mod ingest;
mod removed;
mod streams;
mod streams_made;
mod subtitles;
mod test_library;
