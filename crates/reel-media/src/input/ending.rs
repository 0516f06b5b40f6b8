//! Whether a file has all that its container says it has. Only heads of boxes and elements are
//! read: this is for files that another program may still be writing.

use super::{Container, SNIFFED_BYTES, mkv, mp4, sniff};
use crate::Source;
use std::io;

/// What the structure of a file says about its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The file ends where its last box or element does, and has what a player needs.
    Whole,
    /// The file ends inside of a box or an element, or has no index yet.
    Cut,
    /// The container does not say it: a transport stream, fragments, or a length that was left
    /// open.
    Unsaid,
}

/// Looks at the structure of a file. What is no film that Reel reads says nothing.
///
/// # Errors
/// If the file cannot be read.
pub fn ending(source: &mut dyn Source) -> io::Result<Ending> {
    let mut head = vec![0; source.bytes().min(SNIFFED_BYTES) as usize];
    source.read_at(0, &mut head)?;
    match sniff(&head) {
        Some(Container::Mp4) => mp4::ending(source),
        Some(Container::Matroska) => mkv::ending(source),
        Some(Container::Ts) | None => Ok(Ending::Unsaid),
    }
}
