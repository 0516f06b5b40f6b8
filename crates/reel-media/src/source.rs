//! The bytes that a demuxer reads, and what it returns.

use crate::{Chapter, Cover, MediaError, Packet, Track};
use std::io;

/// Random access to the bytes of an input file. The caller does the reading: this crate does no I/O
/// of its own.
pub trait Source: Send {
    /// Length in bytes.
    fn bytes(&self) -> u64;

    /// Fills `target` from `offset`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file is too short, or the error of the read.
    fn read_at(&mut self, offset: u64, target: &mut [u8]) -> io::Result<()>;

    /// Called repeatedly while a file is parsed, also where nothing is read, with the work since
    /// the last call. A unit is about a sample visited. An error ends the parsing: this is where a
    /// caller that was asked to stop says so.
    ///
    /// # Errors
    /// The caller's reason to stop.
    fn work(&mut self, units: u64) -> io::Result<()> {
        let _ = units;
        Ok(())
    }
}

/// A container opened for reading.
pub trait Demux: Send {
    /// The tracks that Reel can store, in file order.
    fn tracks(&self) -> &[Track];

    /// Warnings for the person who ingests: tracks that are left out and why, and damage that was
    /// skipped.
    fn warnings(&self) -> &[String];

    /// The chapters that the file states, by start. Some may begin after the end of the film, which
    /// is known only when it is read.
    fn chapters(&self) -> &[Chapter] {
        &[]
    }

    /// The picture that the file holds as its cover, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn cover(&mut self) -> Result<Option<Cover>, MediaError> {
        Ok(None)
    }

    /// The next packet in file order (decoding order within each track); its bytes replace `data`.
    /// `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged beyond repair, or exceeds a limit.
    fn next(&mut self, data: &mut Vec<u8>) -> Result<Option<Packet>, MediaError>;

    /// How far the reading has come, in bytes of the source, for progress bars.
    fn position(&self) -> u64;
}
