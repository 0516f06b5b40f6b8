//! Reads of shared units, on small volumes of files whose members fail on request.

mod around;
mod bodies;
mod cinema;
mod prefetch;
mod promotion;
mod runs;
mod sharing;
