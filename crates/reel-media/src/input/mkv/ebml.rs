//! EBML (RFC 8794): elements, numbers and texts, read from bytes that are already in memory.

use crate::limits;

/// Longest element head: four bytes of id, eight of size.
pub(crate) const HEAD_BYTES: usize = 12;

/// The start of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Element id with its marker bits, as RFC 9559 writes it.
    pub(crate) id: u32,
    /// Bytes of the body; `None` if unknown.
    pub(crate) size: Option<u64>,
    /// Bytes of id and size.
    pub(crate) head_bytes: u64,
}

impl Head {
    /// Reads a head at the start of `bytes` (RFC 8794 section 6); `None` if there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let id_bytes = bytes.first()?.leading_zeros() as usize + 1;
        if id_bytes > 4 {
            return None;
        }
        let id = bytes.get(..id_bytes)?.iter().fold(0, |sum, byte| (sum << 8) | u32::from(*byte));
        let (size, size_bytes) = vint(bytes.get(id_bytes..)?)?;
        let unknown = (1u64 << (7 * size_bytes)) - 1;
        let head_bytes = (id_bytes + size_bytes) as u64;
        Some(Self { id, size: (size != unknown).then_some(size), head_bytes })
    }
}

/// The elements of a body, as (id, body); stops at the first that does not fit.
pub(crate) fn elements(body: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let head = Head::parse(rest)?;
        let tail = rest.get(usize::try_from(head.head_bytes).ok()?..)?;
        let (body, tail) = tail.split_at_checked(usize::try_from(head.size?).ok()?)?;
        rest = tail;
        Some((head.id, body))
    })
}

/// A number with a length marker (RFC 8794 section 4) and its bytes.
pub(crate) fn vint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let count = first.leading_zeros() as usize + 1;
    if count > 8 {
        return None;
    }
    let marked = bytes.get(..count)?.iter().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
    Some((marked & ((1 << (7 * count)) - 1), count))
}

/// An unsigned integer element; empty is 0.
pub(crate) fn unsigned(body: &[u8]) -> Option<u64> {
    (body.len() <= 8).then(|| body.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

/// A signed integer element; empty is 0.
pub(crate) fn signed(body: &[u8]) -> Option<i64> {
    let first = body.first().map_or(0, |byte| i64::from(byte.cast_signed()) >> 7);
    (body.len() <= 8).then(|| body.iter().fold(first, |sum, byte| (sum << 8) | i64::from(*byte)))
}

/// A floating-point element; empty is 0.
pub(crate) fn float(body: &[u8]) -> Option<f64> {
    match body.len() {
        0 => Some(0.0),
        4 => body.try_into().ok().map(|bytes| f64::from(f32::from_be_bytes(bytes))),
        8 => body.try_into().ok().map(f64::from_be_bytes),
        _ => None,
    }
    .filter(|value| value.is_finite())
}

/// A text element without its padding. Invalid UTF-8 is replaced, and a text that is too long is
/// cut.
pub(crate) fn text(body: &[u8]) -> String {
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len()).min(limits::MKV_TEXT_BYTES);
    String::from_utf8_lossy(&body[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let head = Head::parse(&[0x1a, 0x45, 0xdf, 0xa3, 0x93]).unwrap();
        assert_eq!((head.id, head.size, head.head_bytes), (0x1a45_dfa3, Some(0x13), 5));
        let head = Head::parse(&[0xa3, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).unwrap();
        assert_eq!((head.id, head.size), (0xa3, None));
        assert_eq!(Head::parse(&[0xa3, 0x40]), None);
        assert_eq!(Head::parse(&[0x08, 0, 0, 0, 0, 0x80]), None, "ids have at most four bytes");
    }

    #[test]
    fn numbers() {
        assert_eq!(unsigned(&[1, 0]), Some(256));
        assert_eq!(signed(&[0xff, 0xfe]), Some(-2));
        assert_eq!(signed(&[0x7f]), Some(127));
        assert_eq!(float(&48_000f32.to_be_bytes()), Some(48_000.0));
        assert_eq!(float(&f64::NAN.to_be_bytes()), None);
        assert_eq!(text(b" eng\0\0"), "eng");
    }

    #[test]
    fn a_child_longer_than_its_parent_ends_the_walk() {
        let found: Vec<_> = elements(&[0x83, 0x81, 1, 0x86, 0x85, 2]).collect();
        assert_eq!(found, [(0x83, &[1][..])]);
    }
}
