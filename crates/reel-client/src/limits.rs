//! Limits of this crate, each with its reason.

// ---- Limits

/// Bytes of text in a message on a program's socket. Titles have at most some hundred bytes, and so
/// have reasons for a refusal.
pub const PROGRAM_TEXT_BYTES_MAX: usize = 1024;

/// Streams that a program requests before it has read the answer to the first of them. An answer
/// that does not fit into the program's socket is never sent. This many answers fit, however long
/// they are.
pub const OPENS_UNANSWERED_MAX: usize = 16;

/// Descriptors of a message: of the arena, the producer's memory and the consumer's memory; before
/// them that of the connection, if a program inherits the stream.
pub const PROGRAM_DESCRIPTORS: usize = 4;

/// Streams that a program inherits of one command. Their messages fit into a socket, whatever its
/// size is (`net.core.wmem_default`, 208 KiB).
pub const INHERITED_STREAMS_MAX: usize = 16;

/// Most bytes that a program's own memory for a stream has that it pours: as many as may come
/// before their time, twice. What lies there, the server has not taken yet.
pub const POURED_BYTES_MAX: usize = 8 << 20;

/// Messages of a poured stream that can be unread.
pub const POURED_MESSAGES: u64 = 256;

/// The longest message of a poured stream.
pub const POURED_MESSAGE_BYTES_MAX: usize = 64 << 10;
