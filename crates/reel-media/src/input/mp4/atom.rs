//! Boxes ("atoms" in QuickTime) in memory, and the fields in them (ISO/IEC 14496-12, 4.2).

use crate::MediaError;
use std::fmt;

/// Name of a box, brand, handler or sample entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FourCc(pub(super) [u8; 4]);

/// A box whose bytes are all in memory.
#[derive(Clone, Copy)]
pub(super) struct Atom<'a> {
    /// Its type.
    pub(super) kind: FourCc,
    /// The bytes after the header.
    pub(super) body: &'a [u8],
    /// Offset of the body in the file.
    pub(super) offset: u64,
}

/// The boxes in a box, one after another.
pub(super) struct Children<'a> {
    rest: &'a [u8],
    offset: u64,
}

/// Reads fields one after another, never beyond the end of the box.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    kind: FourCc,
    rest: &'a [u8],
    offset: u64,
}

/// An error at a byte of the file.
pub(super) fn malformed(offset: u64, what: impl Into<String>) -> MediaError {
    MediaError::Malformed { container: "MP4", what: what.into(), offset }
}

impl<'a> Atom<'a> {
    /// The boxes in this one.
    pub(super) fn children(&self) -> Children<'a> {
        Children { rest: self.body, offset: self.offset }
    }

    /// The boxes in this one after `bytes` of other fields.
    pub(super) fn children_after(&self, bytes: usize) -> Result<Children<'a>, MediaError> {
        let mut fields = self.fields();
        fields.skip(bytes)?;
        Ok(fields.children())
    }

    /// The first box of that type in this one.
    pub(super) fn child(&self, kind: &[u8; 4]) -> Result<Option<Atom<'a>>, MediaError> {
        self.children().find(kind)
    }

    /// The first box of that type in this one; an error if there is none.
    pub(super) fn required(&self, kind: &[u8; 4]) -> Result<Atom<'a>, MediaError> {
        self.child(kind)?.ok_or_else(|| {
            malformed(self.offset, format!("the `{}` box has no `{}` box", self.kind, FourCc(*kind)))
        })
    }

    /// Its fields.
    pub(super) fn fields(&self) -> Fields<'a> {
        Fields { kind: self.kind, rest: self.body, offset: self.offset }
    }

    /// Version and flags of a full box, and the fields after them.
    pub(super) fn full(&self) -> Result<(u8, u32, Fields<'a>), MediaError> {
        let mut fields = self.fields();
        let [version, flags @ ..] = fields.array::<4>()?;
        Ok((version, u32::from_be_bytes([0, flags[0], flags[1], flags[2]]), fields))
    }
}

impl<'a> Children<'a> {
    /// The first of the remaining boxes that is of this type.
    pub(super) fn find(mut self, kind: &[u8; 4]) -> Result<Option<Atom<'a>>, MediaError> {
        self.find_map(|atom| match atom {
            Ok(atom) if atom.kind.0 != *kind => None,
            found => Some(found),
        })
        .transpose()
    }

    fn read(&mut self) -> Result<Option<Atom<'a>>, MediaError> {
        // QuickTime ends some lists with a zero word, and some writers leave a few bytes of
        // padding.
        let Some((head, _)) = self.rest.split_first_chunk::<8>() else { return Ok(None) };
        let [s0, s1, s2, s3, kind @ ..] = *head;
        let kind = FourCc(kind);
        let (header, bytes) = match u32::from_be_bytes([s0, s1, s2, s3]) {
            0 => (8, self.rest.len() as u64),
            1 => match self.rest.get(8..16).and_then(|large| large.try_into().ok()) {
                Some(large) => (16, u64::from_be_bytes(large)),
                None => return Err(malformed(self.offset, format!("the header of box `{kind}` is cut off"))),
            },
            bytes => (8, u64::from(bytes)),
        };
        let end = usize::try_from(bytes).ok().filter(|end| (header..=self.rest.len()).contains(end));
        let Some(end) = end else {
            let room = self.rest.len();
            let what = format!("box `{kind}` claims {bytes} bytes where {header} to {room} are possible");
            return Err(malformed(self.offset, what));
        };
        let atom = Atom { kind, body: &self.rest[header..end], offset: self.offset + header as u64 };
        self.rest = &self.rest[end..];
        self.offset += bytes;
        Ok(Some(atom))
    }
}

impl<'a> Iterator for Children<'a> {
    type Item = Result<Atom<'a>, MediaError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.read().transpose();
        if matches!(item, Some(Err(_))) {
            self.rest = &[];
        }
        item
    }
}

impl<'a> Fields<'a> {
    /// The next `bytes` bytes.
    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8], MediaError> {
        let Some((head, tail)) = self.rest.split_at_checked(bytes) else {
            return Err(malformed(self.offset, format!("the `{}` box is too short", self.kind)));
        };
        self.rest = tail;
        self.offset += bytes as u64;
        Ok(head)
    }

    /// Steps over `bytes` bytes.
    pub(super) fn skip(&mut self, bytes: usize) -> Result<(), MediaError> {
        self.take(bytes).map(drop)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], MediaError> {
        let bytes = self.take(N)?;
        Ok(std::array::from_fn(|index| bytes[index]))
    }

    /// A byte.
    pub(super) fn u8(&mut self) -> Result<u8, MediaError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub(super) fn u16(&mut self) -> Result<u16, MediaError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes.
    pub(super) fn u32(&mut self) -> Result<u32, MediaError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Four bytes, signed.
    pub(super) fn i32(&mut self) -> Result<i32, MediaError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Eight bytes.
    pub(super) fn u64(&mut self) -> Result<u64, MediaError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Eight bytes if `wide`, else four: the fields that version 1 of a box widened.
    pub(super) fn u32_or_u64(&mut self, wide: bool) -> Result<u64, MediaError> {
        if wide { self.u64() } else { self.u32().map(u64::from) }
    }

    /// Everything that was not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Offset of the next field in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Everything that was not read yet, as boxes.
    pub(super) fn children(&self) -> Children<'a> {
        Children { rest: self.rest, offset: self.offset }
    }
}

impl fmt::Display for FourCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            self.0.iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
        } else {
            write!(f, "0x{:08x}", u32::from_be_bytes(self.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outer(body: &[u8]) -> Atom<'_> {
        Atom { kind: FourCc(*b"test"), body, offset: 100 }
    }

    #[test]
    fn children_and_their_offsets() {
        let bytes = b"\0\0\0\x0aabcdxx\0\0\0\x01long\0\0\0\0\0\0\0\x11y\0\0\0\0rest..";
        let list: Vec<_> = outer(bytes).children().map(|atom| atom.expect("sound boxes")).collect();
        assert_eq!(list.iter().map(|a| a.kind.to_string()).collect::<Vec<_>>(), ["abcd", "long", "rest"]);
        assert_eq!(list.iter().map(|a| a.body).collect::<Vec<_>>(), [b"xx".as_slice(), b"y", b".."]);
        assert_eq!(list.iter().map(|a| a.offset).collect::<Vec<_>>(), [108, 126, 135]);
    }

    #[test]
    fn wrong_sizes_are_refused() {
        for bytes in
            [&b"\0\0\0\x07abcd"[..], b"\0\0\0\x09abcd", b"\0\0\0\x01abcd\0\0", b"\xff\xff\xff\xffabcd"]
        {
            let list: Vec<_> = outer(bytes).children().collect();
            assert!(matches!(list[..], [Err(MediaError::Malformed { offset: 100, .. })]), "{bytes:?}");
        }
        let huge = b"\0\0\0\x01abcd\xff\xff\xff\xff\xff\xff\xff\xff";
        assert!(outer(huge).child(b"abcd").is_err());
        assert_eq!(outer(b"\0\0\0\0").children().count(), 0);
    }

    #[test]
    fn unprintable_names_are_escaped() {
        assert_eq!(FourCc(*b"ms\0\x55").to_string(), "0x6d730055");
    }
}
