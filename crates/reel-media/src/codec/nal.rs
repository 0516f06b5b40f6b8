//! NAL units of H.264 and HEVC: finding them, and writing them in the form of MP4.

/// NAL units of a length-prefixed sample (ISO 14496-15 section 4.3.3); stops at the first prefix
/// that does not fit.
pub(crate) fn length_prefixed(bytes: &[u8], prefix_bytes: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if prefix_bytes == 0 || rest.len() < prefix_bytes {
            return None;
        }
        let (prefix, tail) = rest.split_at(prefix_bytes);
        let length = prefix.iter().fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte));
        if length > tail.len() {
            rest = &[];
            return None;
        }
        let (unit, tail) = tail.split_at(length);
        rest = tail;
        Some(unit)
    })
}

/// Position of the next `00 00 01` at or after `from`.
pub(crate) fn find_start_code(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at + 2 < bytes.len() {
        // The third byte decides how far the search can advance at once.
        match bytes[at + 2] {
            0 => at += 1,
            1 if bytes[at] == 0 && bytes[at + 1] == 0 => return Some(at),
            _ => at += 3,
        }
    }
    None
}

/// Zero bytes after a unit belong to the byte stream, not to the unit.
pub(crate) fn trim_trailing_zeros(unit: &[u8]) -> &[u8] {
    let length = unit.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &unit[..length]
}

/// Appends a unit with a four-byte length before it, as in MP4.
pub(crate) fn push_length_prefixed(unit: &[u8], sample: &mut Vec<u8>) {
    let length = u32::try_from(unit.len()).unwrap_or(u32::MAX);
    sample.extend_from_slice(&length.to_be_bytes());
    sample.extend_from_slice(unit);
}

/// The raw payload of a unit, without emulation prevention bytes (ITU-T H.264 section 7.4.1).
pub(crate) fn unescape(unit: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(unit.len());
    let mut zeros = 0;
    for &byte in unit {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        payload.push(byte);
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_removed() {
        assert_eq!(unescape(&[0, 0, 3, 1, 0, 0, 3, 0, 0, 3]), [0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(unescape(&[0, 3, 0, 0, 4]), [0, 3, 0, 0, 4]);
    }

    #[test]
    fn a_wrong_length_prefix_ends_the_walk() {
        let units: Vec<_> = length_prefixed(&[0, 1, 7, 0, 9, 1], 2).collect();
        assert_eq!(units, [&[7][..]]);
    }

    proptest! {
        #[test]
        fn start_codes_are_where_a_plain_search_finds_them(bytes in proptest::collection::vec(0u8..3, 0..64)) {
            let plain = bytes.windows(3).position(|w| w == [0, 0, 1]);
            prop_assert_eq!(find_start_code(&bytes, 0), plain);
        }

        #[test]
        fn length_prefixed_units_are_read_back(units in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..8)) {
            let mut sample = Vec::new();
            units.iter().for_each(|unit| push_length_prefixed(unit, &mut sample));
            let read: Vec<_> = length_prefixed(&sample, 4).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(read, units);
        }
    }
}
