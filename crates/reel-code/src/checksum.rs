//! The checksum of a row.

/// CRC-32C of `bytes` (Castagnoli polynomial 0x1EDC6F41, reflected, initial value and final XOR of
/// all ones): RFC 3720 section 12.1 and appendix B.4.
///
/// Every stored row has one. It finds any single burst of up to 32 bits, and misses any other
/// damage with a probability of 2^-32. It is no defence against an attacker who can write to the
/// disks.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The polynomial division written out bit by bit: the reference for the fast one.
    fn crc32c_by_bits(bytes: &[u8]) -> u32 {
        let mut crc = !0u32;
        for &byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            }
        }
        !crc
    }

    #[test]
    fn the_examples_of_rfc_3720_hold() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
        assert_eq!(crc32c(&descending), 0x113f_db5c);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    proptest! {
        #[test]
        fn the_checksum_equals_the_division_by_bits(bytes in proptest::collection::vec(any::<u8>(), 0..3000), skip in 0usize..64) {
            let from = skip.min(bytes.len());
            prop_assert_eq!(crc32c(&bytes[from..]), crc32c_by_bits(&bytes[from..]));
        }
    }
}
