//! Little-endian fields, one after another: the encoding of everything that Reel writes about a
//! volume.

/// What is wrong with encoded bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct EncodingError {
    /// What was found.
    pub what: &'static str,
    /// The offset from the start of the encoded bytes.
    pub at: usize,
}

/// Appends fields to bytes.
#[derive(Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A length of two bytes, then the text in UTF-8. The caller has checked the length.
    pub(crate) fn text(&mut self, text: &str) {
        debug_assert!(text.len() <= usize::from(u16::MAX));
        self.u16(text.len() as u16);
        self.raw(text.as_bytes());
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn set_u32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Zeros up to a length.
    pub(crate) fn pad_to(&mut self, bytes: usize) {
        debug_assert!(self.bytes.len() <= bytes);
        self.bytes.resize(bytes, 0);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Takes fields from bytes, never past their end.
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { bytes, at: 0 }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, EncodingError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, EncodingError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, EncodingError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, EncodingError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, EncodingError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], EncodingError> {
        let Some((head, _)) = self.bytes[self.at..].split_first_chunk::<N>() else {
            return Err(self.error("the bytes end within a field"));
        };
        self.at += N;
        Ok(*head)
    }

    pub(crate) fn raw(&mut self, bytes: usize) -> Result<&'a [u8], EncodingError> {
        if bytes > self.left() {
            return Err(self.error("the bytes end within a field"));
        }
        let from = self.at;
        self.at += bytes;
        Ok(&self.bytes[from..self.at])
    }

    /// A text of at most `bytes_max` bytes.
    pub(crate) fn text(&mut self, bytes_max: usize) -> Result<String, EncodingError> {
        let bytes = usize::from(self.u16()?);
        if bytes > bytes_max {
            return Err(self.error("a text is longer than allowed"));
        }
        let raw = self.raw(bytes)?;
        String::from_utf8(raw.to_vec()).map_err(|_| self.error("a text is not UTF-8"))
    }

    /// A count of items of at least `item_bytes` each. It is never more than the remaining bytes
    /// can hold, so that memory may be allocated for them.
    pub(crate) fn count(&mut self, count_max: usize, item_bytes: usize) -> Result<usize, EncodingError> {
        let count = self.u32()? as usize;
        if count > count_max {
            return Err(self.error("a count is larger than allowed"));
        }
        if count.saturating_mul(item_bytes) > self.left() {
            return Err(self.error("a count is larger than the bytes that follow"));
        }
        Ok(count)
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn error(&self, what: &'static str) -> EncodingError {
        EncodingError { what, at: self.at }
    }
}
