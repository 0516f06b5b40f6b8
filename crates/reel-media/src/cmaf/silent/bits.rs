//! Bits of which the first is the highest of the first byte.

#[derive(Default)]
pub(super) struct Bits {
    pub(super) bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    /// The lowest `count` bits of a number.
    pub(super) fn put(&mut self, value: u64, count: u32) {
        for place in (0..count).rev() {
            self.skip(1);
            let at = self.count - 1;
            self.bytes[at / 8] |= ((value >> place & 1) as u8) << (7 - at % 8);
        }
    }

    /// Bits that are zero.
    pub(super) fn skip(&mut self, count: usize) {
        self.count += count;
        self.bytes.resize(self.count.div_ceil(8), 0);
    }
}
