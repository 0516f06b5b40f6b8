//! Erasure codes and checksums over rows.
//!
//! A row is a byte string of a fixed length. A code computes P parity rows from D data rows of the
//! same length, and rebuilds lost rows from the remaining ones. A checksum shows whether a row is
//! unchanged. Nothing here does I/O or keeps state.

mod checksum;
mod code;
mod kernels;
mod xor;

pub use checksum::{add_partial_checksums, crc32c, partial_checksum};
pub use code::Code;
pub use xor::{xor_into, xor_rows};
