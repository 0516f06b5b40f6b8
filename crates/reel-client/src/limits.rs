//! Limits of this crate, each with its reason.

// ---- Limits

/// Bytes of text in a message on a program's socket. Titles have at most some hundred bytes, and so
/// have reasons for a refusal.
pub const PROGRAM_TEXT_BYTES_MAX: usize = 1024;

/// Streams that a program requests before it has read the answer to the first of them. An answer
/// that does not fit into the program's socket is never sent. This many answers fit, however long
/// they are.
pub const OPENS_UNANSWERED_MAX: usize = 16;

/// Descriptors that come with a stream: arena, producer's memory, consumer's memory.
pub const PROGRAM_DESCRIPTORS: usize = 3;
