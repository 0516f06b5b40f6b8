//! Output for the reader of standard output, as long as there is one.

use std::io::{self, ErrorKind, Write};

/// Whether the output still has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// As far as can be told.
    Yes,
    /// The other end of the pipe is closed: `reel sim ... | head` has what it wants.
    ByNobody,
}

/// Writes whole lines to standard output.
pub(crate) fn tell(text: &str) -> io::Result<Heard> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Heard::Yes),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Heard::ByNobody),
        Err(error) => Err(error),
    }
}
