//! Reads single bits, most significant first, and never beyond the given bytes.

/// A cursor over bits. A read past the end gives `None`; nothing panics.
#[derive(Clone, Debug)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Bits<'a> {
    /// Starts at the first bit of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Bits not yet read.
    pub(crate) fn left(&self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.position)
    }

    /// Bits read so far.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The next `count` (at most 32) bits as a number.
    pub(crate) fn take(&mut self, count: u32) -> Option<u32> {
        if count > 32 || self.left() < count as usize {
            return None;
        }
        let mut value = 0u64;
        for _ in 0..count {
            let byte = self.bytes[self.position / 8];
            value = (value << 1) | u64::from((byte >> (7 - self.position % 8)) & 1);
            self.position += 1;
        }
        u32::try_from(value).ok()
    }

    /// One bit.
    pub(crate) fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|bit| bit == 1)
    }

    /// Steps over `count` bits.
    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        if self.left() < count {
            return None;
        }
        self.position += count;
        Some(())
    }

    /// Unsigned Exp-Golomb code, ue(v) of ITU-T H.264 section 9.1.
    pub(crate) fn ue(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let rest = self.take(zeros)?;
        u32::try_from((1u64 << zeros) - 1 + u64::from(rest)).ok()
    }

    /// Signed Exp-Golomb code, se(v) of ITU-T H.264 section 9.1.1.
    pub(crate) fn se(&mut self) -> Option<i32> {
        let code = i64::from(self.ue()?);
        let value = if code % 2 == 1 { (code + 1) / 2 } else { -(code / 2) };
        i32::try_from(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golomb_codes_of_the_standards_table() {
        // 1 010 011 00100 00101 = 0 1 2 3 4
        let bytes = [0b1010_0110, 0b0100_0010, 0b1000_0000];
        let mut bits = Bits::new(&bytes);
        let read: Vec<_> = (0..5).map(|_| bits.ue().unwrap()).collect();
        assert_eq!(read, [0, 1, 2, 3, 4]);
        let mut bits = Bits::new(&bytes);
        let read: Vec<_> = (0..5).map(|_| bits.se().unwrap()).collect();
        assert_eq!(read, [0, 1, -1, 2, -2]);
    }

    #[test]
    fn the_end_is_none() {
        let mut bits = Bits::new(&[0xff]);
        assert_eq!(bits.take(9), None);
        assert_eq!(bits.take(8), Some(0xff));
        assert_eq!(bits.flag(), None);
        assert_eq!(Bits::new(&[0; 9]).ue(), None);
    }

    proptest! {
        #[test]
        fn any_walk_stays_inside(bytes in proptest::collection::vec(any::<u8>(), 0..32), steps in proptest::collection::vec(0u32..40, 0..40)) {
            let mut bits = Bits::new(&bytes);
            for step in steps {
                let before = bits.left();
                match step {
                    38 => { let _ = bits.ue(); }
                    39 => { let _ = bits.se(); }
                    n => { let _ = bits.take(n); }
                }
                prop_assert!(bits.left() <= before);
            }
        }
    }
}
