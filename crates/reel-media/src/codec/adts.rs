//! ADTS (ISO 13818-7 section 6.2, ISO 14496-3 1.A.2): the framing of AAC outside of MP4.

use crate::codec::bits::Bits;
use crate::codec::config::audio_specific::RATES;

/// Shortest header.
pub(crate) const HEADER_BYTES: usize = 7;

/// Samples an AAC frame decodes to, per channel.
pub(crate) const FRAME_SAMPLES: u32 = 1024;

/// One frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Audio object type (1 main, 2 low complexity, ...).
    pub(crate) object_type: u8,
    /// sampling_frequency_index.
    pub(crate) rate_index: u8,
    /// channel_configuration; 0 means that the frame itself describes the channels.
    pub(crate) channel_configuration: u8,
    /// Bytes of the header, checksum included.
    pub(crate) header_bytes: usize,
    /// Bytes of header and payload.
    pub(crate) frame_bytes: usize,
    /// Raw data blocks in the frame.
    pub(crate) blocks: u8,
}

impl Header {
    /// Reads a header at the start of `bytes`; `None` if there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        // Sync word of twelve ones, layer 00.
        if head[0] != 0xff || head[1] & 0xf6 != 0xf0 {
            return None;
        }
        let header = Self {
            object_type: (head[2] >> 6) + 1,
            rate_index: (head[2] >> 2) & 0xf,
            channel_configuration: ((head[2] & 1) << 2) | (head[3] >> 6),
            header_bytes: if head[1] & 1 == 1 { HEADER_BYTES } else { HEADER_BYTES + 2 },
            frame_bytes: (usize::from(head[3] & 3) << 11)
                | (usize::from(head[4]) << 3)
                | usize::from(head[5] >> 5),
            blocks: (head[6] & 3) + 1,
        };
        let sound = usize::from(header.rate_index) < RATES.len() && header.frame_bytes > header.header_bytes;
        sound.then_some(header)
    }

    /// Samples per second.
    pub(crate) fn sample_rate(&self) -> u32 {
        RATES[usize::from(self.rate_index)]
    }

    /// Channels of the configuration; `None` if the frame itself describes them.
    pub(crate) fn channels(&self) -> Option<u16> {
        match self.channel_configuration {
            0 => None,
            7 => Some(8),
            count => Some(u16::from(count)),
        }
    }

    /// The AudioSpecificConfig (ISO 14496-3 section 1.6.2.1) with the same meaning.
    pub(crate) fn audio_specific_config(&self) -> Vec<u8> {
        vec![
            (self.object_type << 3) | (self.rate_index >> 1),
            (self.rate_index << 7) | (self.channel_configuration << 3),
        ]
    }
}

/// Samples per second and samples per frame of the core coder in an AudioSpecificConfig, before any
/// band replication (ISO 14496-3 sections 1.6.2.1 and 4.4.1).
pub(crate) fn core_frame(config: &[u8]) -> Option<(u32, u32)> {
    const LOW_DELAY: [u32; 2] = [23, 39];
    const REPLICATED: [u32; 2] = [5, 29];
    let mut bits = Bits::new(config);
    let mut object = object_type(&mut bits)?;
    let core = rate(&mut bits)?;
    bits.take(4)?;
    if REPLICATED.contains(&object) {
        rate(&mut bits)?;
        object = object_type(&mut bits)?;
    }
    let short = bits.flag()?;
    let samples = match (LOW_DELAY.contains(&object), short) {
        (true, true) => 480,
        (true, false) => 512,
        (false, true) => 960,
        (false, false) => FRAME_SAMPLES,
    };
    (core > 0).then_some((core, samples))
}

fn object_type(bits: &mut Bits<'_>) -> Option<u32> {
    match bits.take(5)? {
        31 => bits.take(6).map(|more| 32 + more),
        object => Some(object),
    }
}

fn rate(bits: &mut Bits<'_>) -> Option<u32> {
    match bits.take(4)? {
        15 => bits.take(24),
        index => RATES.get(index as usize).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_48_khz_stereo() {
        let bytes = [0xff, 0xf1, 0x4c, 0x80, 0x2e, 0x7f, 0xfc];
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(header.sample_rate(), 48_000);
        assert_eq!(header.channels(), Some(2));
        assert_eq!(header.frame_bytes, 0x2e7f >> 5);
        assert_eq!((header.header_bytes, header.blocks), (7, 1));
        assert_eq!(header.audio_specific_config(), [0x11, 0x90]);
    }

    #[test]
    fn frames_of_configurations() {
        assert_eq!(core_frame(&[0x12, 0x10]), Some((44_100, 1024)));
        assert_eq!(core_frame(&[0x12, 0x14]), Some((44_100, 960)));
        // Explicit band replication: 24 kHz core, 48 kHz output.
        assert_eq!(core_frame(&[0x2b, 0x11, 0x88, 0x00]), Some((24_000, 1024)));
        assert_eq!(core_frame(&[0x12]), None);
    }

    #[test]
    fn no_sync_no_header() {
        assert_eq!(Header::parse(&[0xff, 0xe1, 0x4c, 0x80, 0x2e, 0x7f, 0xfc]), None);
        assert_eq!(Header::parse(&[0xff, 0xf1, 0x4c]), None);
        assert_eq!(Header::parse(&[0xff, 0xf1, 0x7c, 0x80, 0x2e, 0x7f, 0xfc]), None, "no such rate");
    }
}
