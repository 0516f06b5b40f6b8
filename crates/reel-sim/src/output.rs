//! Output for the reader of standard output, as long as there is one.

use std::io::{self, ErrorKind, Write};

/// Whether the output still has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputReader {
    /// As far as is known.
    Present,
    /// The other end of the pipe is closed: `reel sim ... | head` has what it wants.
    Gone,
}

/// Writes whole lines to standard output.
pub(crate) fn write_out(text: &str) -> io::Result<OutputReader> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(OutputReader::Present),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(OutputReader::Gone),
        Err(error) => Err(error),
    }
}
