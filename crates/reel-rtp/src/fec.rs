//! Column FEC of SMPTE ST 2022-1 (before: Pro-MPEG Code of Practice 3, release 2).
//!
//! Media packets are laid out in matrices of D rows of L packets, row by row. The FEC packet of a
//! column has the exclusive or of its D packets: of their payloads (the parity), and in its header
//! of their lengths, time stamps, payload types and markers. So one lost packet of a column is the
//! exclusive or of everything else. A parity row of a volume is the parity of L such packets.

mod decoder;
mod geometry;
mod header;
mod window;

pub use decoder::{Counts, Decoder, FecOutcome, MediaOutcome, Rejection, Repaired};
pub use geometry::Geometry;
pub use header::{FEC_HEADERS_BYTES, FEC_PAYLOAD_TYPE, FecHeader, FecPacket, Recovery};
