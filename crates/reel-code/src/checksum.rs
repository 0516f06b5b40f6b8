//! The checksum of a row, and the part of a packet's checksum that depends on its payload alone.

/// CRC-32C of `bytes` (Castagnoli polynomial 0x1EDC6F41, reflected, initial value and final XOR of
/// all ones): RFC 3720 section 12.1 and appendix B.4.
///
/// Every stored row has one. It finds any single burst of up to 32 bits, and misses any other
/// damage with a probability of 2^-32. It is no defence against an attacker who can write to the
/// disks.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The ones'-complement sum of `bytes` as big-endian numbers of 16 bits, folded to 16 bits and not
/// complemented: the part of a UDP checksum that depends on the payload alone (RFC 1071). An odd
/// last byte counts as if a zero followed it.
///
/// Of bytes that are not all zero it is never 0.
///
/// At most 16 GiB: beyond that the sum of its words might not fit in 64 bits.
pub fn partial_checksum(bytes: &[u8]) -> u16 {
    let (blocks, rest) = bytes.as_chunks::<4>();
    // A sum of larger words has the same remainder, in any byte order (RFC 1071, section 2).
    let mut sum: u64 = blocks.iter().map(|block| u64::from(u32::from_ne_bytes(*block))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_ne_bytes(last));
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    u16::from_be_bytes((sum as u16).to_ne_bytes())
}

/// The ones'-complement sum of two partial checksums.
pub fn add_partial_checksums(one: u16, other: u16) -> u16 {
    let (sum, carry) = one.overflowing_add(other);
    sum + u16::from(carry)
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

    /// RFC 1071, section 4.1, word by word.
    fn partial_by_words(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn the_example_of_rfc_1071_holds() {
        assert_eq!(partial_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(partial_checksum(&[]), 0);
        assert_eq!(partial_checksum(&[0x12]), 0x1200);
        assert_eq!(partial_checksum(&[0xff; 1316]), 0xffff);
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

        #[test]
        fn the_partial_checksum_equals_the_sum_of_words(bytes in proptest::collection::vec(any::<u8>(), 0..3000), skip in 0usize..64) {
            let from = skip.min(bytes.len());
            prop_assert_eq!(partial_checksum(&bytes[from..]), partial_by_words(&bytes[from..]));
            let even = bytes.len() / 4 * 2;
            let parts = add_partial_checksums(partial_checksum(&bytes[..even]), partial_checksum(&bytes[even..]));
            prop_assert_eq!(parts, partial_checksum(&bytes));
        }
    }
}
