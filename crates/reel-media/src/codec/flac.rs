//! FLAC (RFC 9639): stream info, `dfLa`, and frame durations.

use crate::codec::bits::Bits;

const STREAM_INFO_BYTES: usize = 34;
/// Flag of the last metadata block, type 0 (STREAMINFO) and its length.
const LAST_STREAM_INFO: [u8; 4] = [0x80, 0, 0, 34];

/// The contents of STREAMINFO (section 8.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamInfo {
    /// Samples per second.
    pub(crate) sample_rate: u32,
    /// Channels.
    pub(crate) channels: u16,
    /// Bits per sample.
    pub(crate) sample_bits: u16,
    raw: [u8; STREAM_INFO_BYTES],
}

impl StreamInfo {
    /// Finds STREAMINFO in metadata blocks, with or without the `fLaC` marker before them.
    pub(crate) fn find(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(b"fLaC").unwrap_or(bytes);
        loop {
            let (head, tail) = rest.split_at_checked(4)?;
            let length = usize::try_from(u32::from_be_bytes([0, head[1], head[2], head[3]])).ok()?;
            if head[0] & 0x7f == 0 {
                return Self::parse(tail.get(..length)?);
            }
            rest = tail.get(length..)?;
        }
    }

    /// Reads the block's body.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let raw: [u8; STREAM_INFO_BYTES] = body.get(..STREAM_INFO_BYTES)?.try_into().ok()?;
        let mut bits = Bits::new(&raw);
        bits.skip(80)?;
        let sample_rate = bits.take(20).filter(|rate| *rate > 0)?;
        let channels = u16::try_from(bits.take(3)? + 1).ok()?;
        let sample_bits = u16::try_from(bits.take(5)? + 1).ok()?;
        Some(Self { sample_rate, channels, sample_bits, raw })
    }

    /// Body of `dfLa` (Encapsulation of FLAC in ISO Base Media File Format, section 3.3.2):
    /// version, flags, STREAMINFO.
    pub(crate) fn dfla(&self) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(LAST_STREAM_INFO);
        body.extend(self.raw);
        body
    }

    /// Samples of a frame (section 9.1); `None` if its header is damaged.
    pub(crate) fn frame_samples(frame: &[u8]) -> Option<u32> {
        let mut bits = Bits::new(frame);
        // Sync code 0x3ffe and a reserved zero.
        if bits.take(15)? != 0b111_1111_1111_1100 {
            return None;
        }
        bits.flag()?;
        let size_code = bits.take(4)?;
        bits.skip(12)?;
        // The coded number has as many bytes as its first byte has leading ones.
        let first = u8::try_from(bits.take(8)?).ok()?;
        bits.skip(8 * usize::try_from(first.leading_ones().saturating_sub(1)).ok()?)?;
        match size_code {
            1 => Some(192),
            2..=5 => Some(144 << size_code),
            6 => Some(bits.take(8)? + 1),
            7 => Some(bits.take(16)? + 1),
            8..=15 => Some(1 << size_code),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> Vec<u8> {
        let mut body = vec![0x10, 0, 0x10, 0, 0, 0, 0, 0, 0, 0];
        // 44100 Hz, 2 channels, 16 bits, no length.
        body.extend([0x0a, 0xc4, 0x42, 0xf0, 0, 0, 0, 0]);
        body.extend([0; 16]);
        body
    }

    #[test]
    fn stream_info_is_found_behind_other_blocks() {
        let mut bytes = b"fLaC".to_vec();
        bytes.extend([1, 0, 0, 2, 9, 9]);
        bytes.extend(LAST_STREAM_INFO);
        bytes.extend(info());
        let found = StreamInfo::find(&bytes).unwrap();
        assert_eq!((found.sample_rate, found.channels, found.sample_bits), (44_100, 2, 16));
        let body = found.dfla();
        assert_eq!(body.len(), 42);
        assert_eq!(body[..8], [0, 0, 0, 0, 0x80, 0, 0, 34]);
        bytes.truncate(40);
        assert_eq!(StreamInfo::find(&bytes), None);
    }

    #[test]
    fn frame_sizes() {
        assert_eq!(StreamInfo::frame_samples(&[0xff, 0xf8, 0xc9, 0x18, 0x00]), Some(4096));
        assert_eq!(StreamInfo::frame_samples(&[0xff, 0xf8, 0x79, 0x18, 0xc2, 0x80, 0x04, 0x7f]), Some(1152));
        assert_eq!(StreamInfo::frame_samples(&[0xff, 0xf8, 0x39, 0x18, 0x05]), Some(1152));
        assert_eq!(StreamInfo::frame_samples(&[0xff, 0xe8, 0xc9, 0x18, 0x00]), None);
    }
}
