//! Erasure codes and checksums over rows.
//!
//! A row is a byte string of a fixed length. A code turns D data rows into P parity rows of the same
//! length, and rebuilds lost rows from those that are left. A checksum tells whether a row is what was
//! written. Nothing here does input or output or keeps state.

mod checksum;
mod code;
mod kernels;
mod xor;

pub use checksum::crc32c;
pub use code::Code;
pub use xor::{xor_into, xor_rows};
