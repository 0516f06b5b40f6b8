//! Arguments in XDR (RFC 4506), read without a copy. Every length is compared with what is there
//! before anything is done with it; the decoders of `nfs3_types` allocate what a length claims.

/// What is read is shorter than it claims, or is not what the protocol has in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbage;

/// The part of a message that is not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Garbage> {
        let (value, rest) = self.0.split_first_chunk().ok_or(Garbage)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*value))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Garbage> {
        let (value, rest) = self.0.split_first_chunk().ok_or(Garbage)?;
        self.0 = rest;
        Ok(u64::from_be_bytes(*value))
    }

    /// Opaque bytes of a variable length, of which there may be `max`.
    pub(crate) fn opaque(&mut self, max: usize) -> Result<&'a [u8], Garbage> {
        let bytes = self.u32()? as usize;
        if bytes > max || bytes.next_multiple_of(4) > self.0.len() {
            return Err(Garbage);
        }
        let (taken, rest) = self.0.split_at(bytes.next_multiple_of(4));
        self.0 = rest;
        Ok(&taken[..bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_order() {
        let bytes = [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 9];
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.u32(), Ok(7));
        assert_eq!(cursor.u64(), Ok((1 << 32) + 2));
        assert_eq!(cursor.opaque(5), Ok(&[1, 2, 3, 4, 5][..]));
        assert_eq!(cursor.u32(), Err(Garbage), "one byte is left");
    }

    #[test]
    fn a_length_beyond_the_message_or_the_limit_is_garbage() {
        for bytes in
            [[0, 0, 0, 8, 1, 2, 3, 4], [0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4], [0, 0, 0, 5, 1, 2, 3, 4]]
        {
            assert_eq!(Cursor::new(&bytes).opaque(usize::MAX), Err(Garbage), "{bytes:?}");
        }
        assert_eq!(Cursor::new(&[0, 0, 0, 4, 1, 2, 3, 4]).opaque(3), Err(Garbage));
        assert_eq!(Cursor::new(&[0, 0, 0, 3, 1, 2, 3]).opaque(3), Err(Garbage), "the padding is missing");
    }
}
