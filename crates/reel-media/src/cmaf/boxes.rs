//! Writing ISO base media boxes into memory.

/// A growing sequence of boxes; the size of a box is filled in when the box ends.
#[derive(Debug, Default)]
pub(crate) struct Boxes {
    bytes: Vec<u8>,
    holes: Vec<Hole>,
    hole_bytes: u64,
}

/// Bytes that belong to the sequence but are stored elsewhere. They count in the sizes of the boxes
/// around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    /// Its position among the bytes written.
    pub(crate) at: usize,
    /// Index of the track whose tables fill it, as given to [`Boxes::hole`].
    pub(crate) filler: usize,
}

impl Boxes {
    /// One box of `kind` whose payload `fill` writes.
    pub(crate) fn plain(&mut self, kind: &[u8; 4], fill: impl FnOnce(&mut Boxes)) {
        let (start, holes_before) = (self.bytes.len(), self.hole_bytes);
        self.u32(0);
        self.raw(kind);
        fill(self);
        // Only headers are written here, and the limits on tables, strings and configurations keep
        // them far below 4 GiB.
        let bytes = ((self.bytes.len() - start) as u64 + self.hole_bytes - holes_before) as u32;
        self.bytes[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
    }

    /// One FullBox of `kind`.
    pub(crate) fn full(&mut self, kind: &[u8; 4], version: u8, flags: u32, fill: impl FnOnce(&mut Boxes)) {
        self.plain(kind, |b| {
            b.u32(u32::from(version) << 24 | flags & 0x00ff_ffff);
            fill(b);
        });
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.raw(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.raw(&value.to_be_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.raw(&value.to_be_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    /// Leaves out `bytes` bytes that `filler` will supply.
    pub(crate) fn hole(&mut self, filler: usize, bytes: u64) {
        self.holes.push(Hole { at: self.bytes.len(), filler });
        self.hole_bytes += bytes;
    }

    pub(crate) fn holes(&self) -> &[Hole] {
        &self.holes
    }

    /// Bytes written and left out so far.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.bytes.len() as u64 + self.hole_bytes
    }

    /// Bytes written so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Overwrites the four bytes at `at`, for offsets known only at the end.
    pub(crate) fn patch_u32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_sizes() {
        let mut boxes = Boxes::default();
        boxes.plain(b"moov", |b| {
            b.full(b"mfhd", 1, 2, |b| b.u16(7));
            b.plain(b"free", |_| ());
        });
        let expected = b"\0\0\0\x1emoov\0\0\0\x0emfhd\x01\0\0\x02\0\x07\0\0\0\x08free".to_vec();
        assert_eq!(boxes.into_vec(), expected);
    }

    #[test]
    fn holes_count_in_sizes() {
        let mut boxes = Boxes::default();
        boxes.plain(b"moov", |b| {
            b.plain(b"stbl", |b| b.hole(3, 100));
            b.u8(1);
        });
        assert_eq!((boxes.total_bytes(), boxes.holes()), (117, &[Hole { at: 16, filler: 3 }][..]));
        assert_eq!(boxes.into_vec(), b"\0\0\0\x75moov\0\0\0\x6cstbl\x01");
    }
}
