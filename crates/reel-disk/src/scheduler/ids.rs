//! A map by numbers that the driver assigns. No outsider chooses them, so a hash that resists
//! chosen keys would be a waste.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What is known of each number.
pub(super) type ById<T> = HashMap<u64, T, BuildHasherDefault<IdHasher>>;

/// One multiplication (D. Knuth, TAOCP 6.4): numbers in a row fall into different places.
#[derive(Debug, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn finish(&self) -> u64 {
        // The upper bits are the mixed ones; the map takes the lower.
        self.0.rotate_left(26)
    }
}
