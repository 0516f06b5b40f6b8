//! Every bound of this crate, with its reason.

/// Bytes of text in a message on a program's socket: titles have at most some hundred, reasons for
/// a refusal as many.
pub const PROGRAM_TEXT_BYTES_MAX: usize = 1024;

/// Streams that a program asks for before it has heard of the first of them: answers that do not
/// fit into its socket are never given, and so many do, however long they are.
pub const OPENS_UNANSWERED_MAX: usize = 16;

/// Descriptors that come with a stream: arena, producer's memory, consumer's memory.
pub const PROGRAM_DESCRIPTORS: usize = 3;
