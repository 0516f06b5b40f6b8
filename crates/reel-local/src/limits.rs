//! Every bound of this crate, with its reason.

/// Messages that a program's stream can have unread: more than a reader hands out at once, since what is made by the server comes in smaller
/// pieces.
pub const PROGRAM_MESSAGES: u64 = 128;

/// Bytes of a stream's own memory, for what the server makes itself: heads of files. Small, since every stream has it.
pub const PROGRAM_OWN_BYTES: usize = 32 * 1024;

/// The longest message in it: half of it can be read while the other half is written.
pub const PROGRAM_OWN_MESSAGE_BYTES: usize = 16 * 1024;
