//! Titles that come into a library and leave it.

mod films;
mod ingest;
mod place;
mod removed;
