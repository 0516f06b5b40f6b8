//! Titles in and out of a volume: ingest, opened indexes, export.
#![forbid(unsafe_code)]
