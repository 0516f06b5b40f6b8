//! What clients read from, whatever the protocol.

use anyhow::Result;

/// Files of a server, with one request under way.
pub(super) trait Files: Send {
    /// The file of a film, by its name.
    ///
    /// # Errors
    /// Those of the connection, and if there is no such file.
    fn open(&mut self, name: &str) -> Result<File>;

    /// Reads bytes of a file, as many as there are; says how many.
    ///
    /// # Errors
    /// Those of the connection, and the server's.
    fn read(&mut self, file: &File, offset: u64, count: u64) -> Result<u64>;
}

/// A file, and its length.
#[derive(Clone)]
pub(super) struct File {
    /// A handle, or a path.
    pub(super) place: Vec<u8>,
    pub(super) bytes: u64,
}

/// Who reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Plays a film. Each has a number.
    Player(u32),
    /// A person waits for it. Each has a number.
    Person(u32),
    /// Has no deadline.
    Reader,
}
