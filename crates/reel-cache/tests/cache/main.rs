//! Reads of shared units, on small volumes of files whose members fail on request.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod bodies;
mod hedged_reads;
mod parity;
mod prefetch;
mod promotion;
mod runs;
mod sharing;
