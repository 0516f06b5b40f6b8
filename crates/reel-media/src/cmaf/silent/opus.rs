//! Opus (RFC 6716): frames of 20 ms of CELT in full band that say that they are silent.

/// Samples of a frame.
pub(super) const FRAME_SAMPLES: u64 = 960;
/// Configuration 31 of table 2, one frame in the packet.
const TOC: u8 = 31 << 3;
/// Two channels.
const STEREO: u8 = 4;
/// The first symbol of a frame of CELT, with a probability of 1/32768, is silence (section 4.3).
const SILENCE: [u8; 2] = [0xff, 0xfe];

/// The streams of a packet (RFC 7845 section 5.1.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    count: u8,
    /// How many of them, the first ones, have two channels.
    coupled: u8,
}

impl Streams {
    /// The streams of a `dOps` box.
    pub(super) fn of(config: &[u8]) -> Option<Streams> {
        let (channels, family) = (*config.get(1)?, *config.get(10)?);
        let (count, coupled) = match family {
            0 => (1, u8::from(channels == 2)),
            _ => (*config.get(11)?, *config.get(12)?),
        };
        (count > 0 && coupled <= count).then_some(Streams { count, coupled })
    }

    /// A packet of silence. All frames except the last are delimited (RFC 6716, appendix B).
    pub(super) fn silence(self) -> Vec<u8> {
        let mut packet = Vec::new();
        for stream in 0..self.count {
            packet.push(TOC | if stream < self.coupled { STEREO } else { 0 });
            if stream + 1 < self.count {
                packet.push(SILENCE.len() as u8);
            }
            packet.extend(SILENCE);
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_one_and_several_streams() {
        let silence = |config: &[u8]| Streams::of(config).map(Streams::silence);
        let plain = |channels| [0, channels, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 0];
        assert_eq!(silence(&plain(1)), Some(vec![0xf8, 0xff, 0xfe]));
        assert_eq!(silence(&plain(2)), Some(vec![0xfc, 0xff, 0xfe]));
        let mapped = [0, 3, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 1, 2, 1, 0, 1, 2];
        assert_eq!(silence(&mapped), Some(vec![0xfc, 2, 0xff, 0xfe, 0xf8, 0xff, 0xfe]));
        assert_eq!(silence(&mapped[..11]), None);
        assert_eq!(silence(&[0, 3, 1, 0x38, 0, 0, 0xbb, 0x80, 0, 0, 1, 1, 2]), None);
    }
}
