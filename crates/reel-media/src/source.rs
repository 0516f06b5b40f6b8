//! The bytes a demuxer reads, and what it gives back.

use crate::{MediaError, Packet, Track};
use std::io;

/// Random access to the bytes of an input file. Reads are the caller's business: this crate does no I/O of its own.
pub trait Source: Send {
    /// Length in bytes.
    fn bytes(&self) -> u64;

    /// Fills `target` from `offset`; a short file is [`io::ErrorKind::UnexpectedEof`].
    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()>;
}

/// A container opened for reading.
pub trait Demux: Send {
    /// The tracks Reel can store, in file order.
    fn tracks(&self) -> &[Track];

    /// Remarks for the person who ingests: tracks left out and why, damage stepped over.
    fn warnings(&self) -> &[String];

    /// The next packet in file order (decoding order within each track); `data` is replaced by its bytes.
    /// `None` at the end.
    fn next(&mut self, data: &mut Vec<u8>) -> Result<Option<Packet>, MediaError>;

    /// How far the reading has come, in bytes of the source, for progress bars.
    fn position(&self) -> u64;
}
