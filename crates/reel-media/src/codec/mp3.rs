//! MPEG audio frame headers (ISO 11172-3 section 2.4.1.3, ISO 13818-3).

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 4;

/// Kilobits per second by bitrate_index, MPEG-1: layers I, II, III.
const RATES_1: [[u32; 15]; 3] = [
    [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
];
/// The same for the low sampling frequencies of MPEG-2 and 2.5: layer I, layers II and III.
const RATES_2: [[u32; 15]; 2] = [
    [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

/// One frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// 1, 2 or 3.
    pub(crate) layer: u8,
    /// Samples per second.
    pub(crate) sample_rate: u32,
    /// 1 or 2.
    pub(crate) channels: u16,
    /// Bytes of the frame, header included.
    pub(crate) frame_bytes: usize,
    /// Samples the frame decodes to, per channel.
    pub(crate) samples: u32,
}

impl Header {
    /// Reads a header at the start of `bytes`; `None` if there is none (free format included).
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        if head[0] != 0xff || head[1] & 0xe0 != 0xe0 {
            return None;
        }
        // Version: 0 is MPEG-2.5, 1 reserved, 2 MPEG-2, 3 MPEG-1.
        let version = (head[1] >> 3) & 3;
        let layer = 4 - ((head[1] >> 1) & 3);
        if version == 1 || layer == 4 {
            return None;
        }
        let mpeg1 = version == 3;
        let rate_index = usize::from(head[2] >> 4);
        let kilobits = if mpeg1 {
            RATES_1[usize::from(layer) - 1].get(rate_index)
        } else {
            RATES_2[usize::from(layer > 1)].get(rate_index)
        };
        let bits_per_second = kilobits.filter(|rate| **rate > 0)? * 1000;
        let sample_rate = [44_100u32, 48_000, 32_000].get(usize::from((head[2] >> 2) & 3))?
            >> match version {
                3 => 0,
                2 => 1,
                _ => 2,
            };
        let padding = u32::from((head[2] >> 1) & 1);
        let samples = match (layer, mpeg1) {
            (1, _) => 384,
            (2, _) | (3, true) => 1152,
            _ => 576,
        };
        let frame_bytes = if layer == 1 {
            (12 * bits_per_second / sample_rate + padding) * 4
        } else {
            samples / 8 * bits_per_second / sample_rate + padding
        };
        Some(Self {
            layer,
            sample_rate,
            channels: if head[3] >> 6 == 3 { 1 } else { 2 },
            frame_bytes: frame_bytes as usize,
            samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_headers() {
        // 128 kbit/s, 44.1 kHz, joint stereo, MPEG-1 layer III.
        let header = Header::parse(&[0xff, 0xfb, 0x90, 0x64]).unwrap();
        assert_eq!((header.layer, header.sample_rate, header.channels), (3, 44_100, 2));
        assert_eq!((header.frame_bytes, header.samples), (417, 1152));
        // The same with padding.
        assert_eq!(Header::parse(&[0xff, 0xfb, 0x92, 0x64]).unwrap().frame_bytes, 418);
        // MPEG-2 layer III, 64 kbit/s, 22.05 kHz, mono.
        let header = Header::parse(&[0xff, 0xf3, 0x80, 0xc4]).unwrap();
        assert_eq!((header.layer, header.sample_rate, header.channels, header.samples), (3, 22_050, 1, 576));
        assert_eq!(header.frame_bytes, 208);
        // MPEG-1 layer II, 192 kbit/s, 48 kHz.
        let header = Header::parse(&[0xff, 0xfd, 0xa4, 0x00]).unwrap();
        assert_eq!((header.layer, header.frame_bytes), (2, 576));
    }

    #[test]
    fn reserved_values_are_refused() {
        assert_eq!(Header::parse(&[0xff, 0xeb, 0x90, 0x64]), None, "version");
        assert_eq!(Header::parse(&[0xff, 0xf9, 0x90, 0x64]), None, "layer");
        assert_eq!(Header::parse(&[0xff, 0xfb, 0xf0, 0x64]), None, "bit rate");
        assert_eq!(Header::parse(&[0xff, 0xfb, 0x9c, 0x64]), None, "sample rate");
    }
}
