//! What can be wrong with a packet, or with what a packet or a description is to be made of.

/// Why a packet is dropped, or a packet or a description cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The packet ends before one of its parts does.
    #[error("the {what} needs {needed} bytes and has {bytes}; the packet is cut short and is dropped")]
    Short {
        /// The part that is cut short.
        what: &'static str,
        /// Bytes that are there.
        bytes: usize,
        /// Bytes that the part needs.
        needed: usize,
    },
    /// The packet contradicts its specification.
    #[error("malformed {what}: {why}; the packet is dropped")]
    Malformed {
        /// The part that is malformed.
        what: &'static str,
        /// What is wrong.
        why: &'static str,
    },
    /// The packet uses a part of its specification that Reel does not.
    #[error("{0} are not supported; the packet is dropped: configure the sender without them")]
    Unsupported(&'static str),
    /// A length or a count is out of range (see [`crate::limits`]).
    #[error("{what} is {value}, and may be {least} to {most}; use a value in this range")]
    Range {
        /// What was counted.
        what: &'static str,
        /// What is claimed or asked for.
        value: u64,
        /// The smallest value.
        least: u64,
        /// The largest value.
        most: u64,
    },
    /// A part of a description or a CNAME cannot be written.
    #[error("the {what} cannot be used: {why}")]
    Unusable {
        /// Which part.
        what: &'static str,
        /// What is wrong with it, and what would do.
        why: &'static str,
    },
}

/// An error if `value` is not within `least` to `most`.
pub(crate) fn check_range(what: &'static str, value: u64, least: u64, most: u64) -> Result<(), PacketError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(PacketError::Range { what, value, least, most })
    }
}

/// The first `N` bytes, and the rest.
pub(crate) fn split<'a, const N: usize>(
    bytes: &'a [u8],
    what: &'static str,
) -> Result<(&'a [u8; N], &'a [u8]), PacketError> {
    bytes.split_first_chunk().ok_or(PacketError::Short { what, bytes: bytes.len(), needed: N })
}

/// The bytes from `at` on.
pub(crate) fn skip<'a>(bytes: &'a [u8], at: usize, what: &'static str) -> Result<&'a [u8], PacketError> {
    bytes.get(at..).ok_or(PacketError::Short { what, bytes: bytes.len(), needed: at })
}
