//! Opus: the identification header (RFC 7845 section 5.1), `dOps` and packet durations (RFC 6716
//! section 3.1).

/// All Opus times count 48 kHz samples.
pub(crate) const SAMPLE_RATE: u32 = 48_000;
/// The longest packet, 120 ms (RFC 6716 section 3.2.5).
const MAX_PACKET_SAMPLES: u32 = 5760;

/// The identification header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Output channels.
    pub(crate) channels: u8,
    /// Samples to discard at the start, at 48 kHz.
    pub(crate) pre_skip: u16,
    /// Rate of the original, for information.
    pub(crate) input_rate: u32,
    /// Gain to apply, Q7.8 decibels.
    pub(crate) gain: u16,
    /// Channel mapping family.
    pub(crate) family: u8,
    /// Stream count, coupled count and channel mapping; empty for family 0.
    pub(crate) mapping: Vec<u8>,
}

impl Head {
    /// Reads `OpusHead`.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        // The upper half of the version is the incompatible part.
        if bytes.get(..8)? != b"OpusHead" || bytes.get(8)? & 0xf0 != 0 {
            return None;
        }
        let fixed: &[u8; 10] = bytes.get(9..19)?.try_into().ok()?;
        let [channels, skip_low, skip_high, r0, r1, r2, r3, gain_low, gain_high, family] = *fixed;
        let mapping = if family == 0 { &[][..] } else { bytes.get(19..21 + usize::from(channels))? };
        (channels > 0).then(|| Self {
            channels,
            pre_skip: u16::from_le_bytes([skip_low, skip_high]),
            input_rate: u32::from_le_bytes([r0, r1, r2, r3]),
            gain: u16::from_le_bytes([gain_low, gain_high]),
            family,
            mapping: mapping.to_vec(),
        })
    }

    /// Body of `dOps` (Encapsulation of Opus in ISO Base Media File Format, section 4.3.2).
    pub(crate) fn dops(&self) -> Vec<u8> {
        let mut body = vec![0, self.channels];
        body.extend(self.pre_skip.to_be_bytes());
        body.extend(self.input_rate.to_be_bytes());
        body.extend(self.gain.to_be_bytes());
        body.push(self.family);
        body.extend_from_slice(&self.mapping);
        body
    }
}

/// Samples (at 48 kHz) a packet decodes to; `None` if it is damaged.
pub(crate) fn packet_samples(packet: &[u8]) -> Option<u32> {
    let toc = *packet.first()?;
    let configuration = u32::from(toc >> 3);
    let frame = match configuration {
        0..=11 => [480, 960, 1920, 2880][configuration as usize % 4],
        12..=15 => [480, 960][configuration as usize % 2],
        _ => [120, 240, 480, 960][configuration as usize % 4],
    };
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1)? & 0x3f),
    };
    let samples = frame * frames;
    (samples > 0 && samples <= MAX_PACKET_SAMPLES).then_some(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_to_dops() {
        let mut head = b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0".to_vec();
        let parsed = Head::parse(&head).unwrap();
        assert_eq!((parsed.channels, parsed.pre_skip, parsed.input_rate), (2, 312, 48_000));
        assert_eq!(parsed.dops(), [0, 2, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 0]);
        head[18] = 1;
        assert_eq!(Head::parse(&head), None, "mapping missing");
        head.extend([1, 1, 0, 1]);
        assert_eq!(Head::parse(&head).unwrap().dops()[10..], [1, 1, 1, 0, 1]);
    }

    #[test]
    fn durations_of_the_toc() {
        assert_eq!(packet_samples(&[0b1111_1000]), Some(960), "CELT 20 ms");
        assert_eq!(packet_samples(&[0b0001_1001]), Some(5760), "SILK 2 x 60 ms");
        assert_eq!(packet_samples(&[0b0110_0000]), Some(480), "hybrid 10 ms");
        assert_eq!(packet_samples(&[0b1000_0011, 3]), Some(360), "3 x 2.5 ms");
        assert_eq!(packet_samples(&[0b0001_1011, 3]), None, "longer than 120 ms");
        assert_eq!(packet_samples(&[]), None);
    }
}
