//! MPEG audio, layer III (ISO 11172-3, ISO 13818-3): frames without main data.

use crate::codec::mp3::Header;

/// The layer whose frames are known.
const LAYER: u8 = 3;
/// bitrate_index of the lowest rate that has room for the side information.
const LOWEST_RATE: u8 = 1 << 4;
/// No checksum follows the header.
const UNPROTECTED: u8 = 1;

/// The header of a frame of silence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    header: [u8; 4],
    bytes: usize,
}

impl Head {
    /// The header, the samples of a frame and the sampling rate of sound of which `frame` is one.
    pub(super) fn of(frame: &[u8]) -> Option<(Head, u64, u64)> {
        let [sync, version, rates, mode] = *frame.first_chunk::<4>()?;
        // The same rate and channels, without padding.
        let header = [sync, version | UNPROTECTED, LOWEST_RATE | rates & 0b1100, mode];
        let Header { layer, sample_rate, samples, frame_bytes: bytes, .. } = Header::parse(&header)?;
        (layer == LAYER).then_some((Head { header, bytes }, samples.into(), sample_rate.into()))
    }

    /// A frame whose side information says that no channel has any data.
    pub(super) fn silence(self) -> Vec<u8> {
        let mut frame = self.header.to_vec();
        frame.resize(self.bytes, 0);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_has_the_rate_and_the_channels_of_the_sound() {
        let of = |frame: &[u8]| Head::of(frame).map(|(head, samples, rate)| (head.silence(), samples, rate));
        let (frame, samples, rate) = of(&[0xff, 0xfb, 0x92, 0x64, 1, 2, 3]).expect("layer III");
        assert_eq!((&frame[..4], samples, rate), (&[0xff, 0xfb, 0x10, 0x64][..], 1152, 44_100));
        assert_eq!((frame.len(), frame[4..].iter().all(|byte| *byte == 0)), (104, true));
        let (frame, samples, rate) = of(&[0xff, 0xf2, 0x80, 0xc4, 9, 9]).expect("a low rate, protected");
        assert_eq!((&frame[..4], samples, rate), (&[0xff, 0xf3, 0x10, 0xc4][..], 576, 22_050));
        // Header and side information need 13 bytes for one channel.
        assert_eq!(frame.len(), 26);
        assert_eq!(of(&[0xff, 0xfd, 0xa4, 0]), None, "layer II");
        assert_eq!(of(&[0xff, 0xfb]), None);
    }

    #[test]
    fn the_lowest_rate_has_room_for_the_side_information_of_any_frame() {
        for version in [0xfa, 0xf2, 0xe2] {
            for rate in 0..3u8 {
                for mode in [0, 3u8] {
                    let (head, ..) =
                        Head::of(&[0xff, version, 0x90 | rate << 2, mode << 6]).expect("a header");
                    let side = match (version == 0xfa, mode == 3) {
                        (true, false) => 32,
                        (false, true) => 9,
                        _ => 17,
                    };
                    assert!(head.bytes >= 4 + side, "{version:x} {rate} {mode}");
                }
            }
        }
    }
}
