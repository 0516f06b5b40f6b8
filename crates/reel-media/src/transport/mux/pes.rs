//! PES packets (ISO 13818-1 section 2.4.3.6).

/// Time stamps have 33 bits (section 2.4.3.7).
const STAMP_MASK: u64 = (1 << 33) - 1;

/// Longest header: with both time stamps.
const HEADER_BYTES_MAX: usize = 19;

/// Bytes that may follow the header of a PES packet whose length is stated.
pub(super) const PAYLOAD_BYTES_MAX: usize = u16::MAX as usize - HEADER_BYTES_MAX;

/// When the first access unit of a PES packet is shown and decoded, in 90 kHz ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamps {
    pub(super) pts: u64,
    /// At most `pts`.
    pub(super) dts: u64,
}

/// Puts a header before `payload`. `is_sized`: its length is stated, which only pictures may leave
/// out; the payload has then at most [`PAYLOAD_BYTES_MAX`].
pub(super) fn packet(stream_id: u8, stamps: Stamps, payload: &[u8], is_sized: bool) -> Vec<u8> {
    let Stamps { pts, dts } = stamps;
    let fields: &[(u8, u64)] = if pts == dts { &[(2, pts)] } else { &[(3, pts), (1, dts)] };
    let stamp_bytes = 5 * fields.len();
    let length = if is_sized { u16::try_from(3 + stamp_bytes + payload.len()).unwrap_or(0) } else { 0 };
    let mut bytes = Vec::with_capacity(HEADER_BYTES_MAX + payload.len());
    bytes.extend([0, 0, 1, stream_id]);
    bytes.extend(length.to_be_bytes());
    // data_alignment_indicator: an access unit begins in it.
    bytes.extend([0x84, if pts == dts { 0x80 } else { 0xc0 }, stamp_bytes as u8]);
    fields.iter().for_each(|(prefix, ticks)| bytes.extend(stamp(*prefix, *ticks)));
    bytes.extend_from_slice(payload);
    bytes
}

/// A time stamp with its four-bit prefix and marker bits.
fn stamp(prefix: u8, ticks: u64) -> [u8; 5] {
    let ticks = ticks & STAMP_MASK;
    // Bits 32..30, 29..15 and 14..0, each with a marker bit after it.
    let top = (ticks >> 30) as u8;
    let middle = ((ticks >> 15) as u16) << 1 | 1;
    let low = (ticks as u16) << 1 | 1;
    let ([b, c], [d, e]) = (middle.to_be_bytes(), low.to_be_bytes());
    [prefix << 4 | top << 1 | 1, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a time stamp as the standard describes it.
    fn read(bytes: &[u8]) -> u64 {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|at| u64::from(bytes[at]));
        (a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1
    }

    #[test]
    fn stamps_are_read_back() {
        for ticks in [0, 1, 0x7fff, 0x8000, 0x1_2345_6789, STAMP_MASK] {
            let bytes = stamp(2, ticks);
            assert_eq!(read(&bytes), ticks);
            assert!([bytes[0], bytes[2], bytes[4]].iter().all(|byte| byte & 1 == 1), "{bytes:x?}");
            assert_eq!(bytes[0] >> 4, 2);
        }
        assert_eq!(read(&stamp(2, STAMP_MASK + 8)), 7, "it wraps");
    }

    #[test]
    fn a_decoding_time_is_stated_if_it_differs() {
        let one = packet(0xc0, Stamps { pts: 5, dts: 5 }, &[9; 10], true);
        assert_eq!(one[..9], [0, 0, 1, 0xc0, 0, 18, 0x84, 0x80, 5]);
        assert_eq!((read(&one[9..]), &one[14..]), (5, &[9; 10][..]));
        let two = packet(0xe0, Stamps { pts: 7, dts: 5 }, &[9; 70_000], false);
        assert_eq!(two[..9], [0, 0, 1, 0xe0, 0, 0, 0x84, 0xc0, 10]);
        assert_eq!((read(&two[9..]), read(&two[14..])), (7, 5));
    }
}
