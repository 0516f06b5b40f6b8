//! FLAC (RFC 9639): frames of one constant for each channel.

use super::bits::Bits;
use crate::codec::flac::StreamInfo;

/// Before STREAMINFO in `dfLa`: version and flags, and the head of the block.
const BEFORE_INFO_BYTES: usize = 8;
/// Of a stream whose frames differ in size.
const USUAL_SAMPLES: u64 = 4096;

/// How the frames of a stream are coded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    channels: u16,
    sample_bits: u16,
    /// All frames but the last have the same size, and are numbered by frames; else by samples.
    is_fixed: bool,
}

impl Stream {
    /// How the stream with this `dfLa` box is coded of which `frame` is a frame, the samples of a
    /// frame, and the sampling rate.
    pub(super) fn of(config: &[u8], frame: &[u8]) -> Option<(Stream, u64, u64)> {
        let info = config.get(BEFORE_INFO_BYTES..)?;
        let StreamInfo { sample_rate, channels, sample_bits, .. } = StreamInfo::parse(info)?;
        let largest = u64::from(u16::from_be_bytes([info[2], info[3]]));
        let is_fixed = frame.get(1)? & 1 == 0;
        let samples = if is_fixed && largest > 0 { largest } else { USUAL_SAMPLES };
        // More have no simple assignment to channels.
        (channels <= 8).then_some((Stream { channels, sample_bits, is_fixed }, samples, sample_rate.into()))
    }

    /// A frame of silence of so many samples, which begins with this sample of the track.
    pub(super) fn silence(self, first_sample: u64, samples: u64) -> Vec<u8> {
        let mut frame = Bits::default();
        // Sync code, and which number follows.
        frame.put(0b111_1111_1111_1100, 15);
        frame.put(u64::from(!self.is_fixed), 1);
        // The size follows in 16 bits; the rate is that of STREAMINFO.
        frame.put(0b0111_0000, 8);
        // Independent channels, with the bits of STREAMINFO.
        frame.put(u64::from(self.channels) - 1, 4);
        frame.skip(4);
        put_number(&mut frame, if self.is_fixed { first_sample / samples } else { first_sample });
        frame.put(samples - 1, 16);
        let check = remainder::<8>(0x07, &frame.bytes);
        frame.put(check, 8);
        // Each subframe: its type, a constant without wasted bits, and the constant.
        frame.skip(usize::from(self.channels) * (8 + usize::from(self.sample_bits)));
        let mut bytes = frame.bytes;
        let check = remainder::<16>(0x8005, &bytes) as u16;
        bytes.extend(check.to_be_bytes());
        bytes
    }
}

/// A number of up to 36 bits as section 9.1.5 codes it.
fn put_number(frame: &mut Bits, number: u64) {
    let number = number & ((1 << 36) - 1);
    let Some(more) = (1..=6).find(|more| number >> (if *more == 6 { 36 } else { 6 + 5 * more }) == 0) else {
        return;
    };
    if number < 0x80 {
        return frame.put(number, 8);
    }
    // As many ones as there are bytes, and a zero.
    let first = (0xff00u64 >> (more + 1)) & 0xff;
    frame.put(first | number >> (6 * more), 8);
    for byte in (0..more).rev() {
        frame.put(0x80 | (number >> (6 * byte) & 0x3f), 8);
    }
}

/// The remainder of a cyclic redundancy check of so many bits.
fn remainder<const BITS: u32>(polynomial: u64, bytes: &[u8]) -> u64 {
    let mut value = 0u64;
    for byte in bytes {
        value ^= u64::from(*byte) << (BITS - 8);
        for _ in 0..8 {
            let is_set = value >> (BITS - 1) & 1 == 1;
            value = (value << 1 ^ if is_set { polynomial } else { 0 }) & ((1 << BITS) - 1);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: [u8; 42] = {
        let mut info = [0; 42];
        (info[4], info[7]) = (0x80, 34);
        // Blocks of 4096, 44100 Hz, 2 channels, 16 bits.
        (info[8], info[10]) = (0x10, 0x10);
        (info[18], info[19], info[20], info[21]) = (0x0a, 0xc4, 0x42, 0xf0);
        info
    };

    #[test]
    fn a_frame_of_two_channels() {
        let (stream, samples, rate) = Stream::of(&INFO, &[0xff, 0xf8]).expect("a stream");
        assert_eq!((samples, rate), (4096, 44_100));
        let frame = stream.silence(3 * 4096, samples);
        assert_eq!(frame[..7], [0xff, 0xf8, 0x70, 0x10, 3, 0x0f, 0xff]);
        assert_eq!(frame[8..14], [0; 6]);
        assert_eq!((frame.len(), StreamInfo::frame_samples(&frame)), (16, Some(4096)));
        assert_eq!((remainder::<8>(0x07, &frame[..8]), remainder::<16>(0x8005, &frame)), (0, 0));
        let (stream, samples, _) = Stream::of(&INFO, &[0xff, 0xf9]).expect("frames of any size");
        assert_eq!(stream.silence(0x1234, samples)[..7], [0xff, 0xf9, 0x70, 0x10, 0xe1, 0x88, 0xb4]);
    }

    #[test]
    fn checks_and_numbers_as_they_are_published() {
        // The catalogue of parametrised algorithms: CRC-8/SMBUS and CRC-16/UMTS.
        assert_eq!(remainder::<8>(0x07, b"123456789"), 0xf4);
        assert_eq!(remainder::<16>(0x8005, b"123456789"), 0xfee8);
        let coded = |number| {
            let mut bits = Bits::default();
            put_number(&mut bits, number);
            bits.bytes
        };
        for text in ["\u{7f}", "\u{80}", "\u{7ff}", "\u{800}", "\u{ffff}", "\u{10000}"] {
            let number = text.chars().next().map_or(0, u64::from);
            assert_eq!(coded(number), text.as_bytes(), "{number:x}");
        }
        assert_eq!(coded((1 << 36) - 1), [0xfe, 0xbf, 0xbf, 0xbf, 0xbf, 0xbf, 0xbf]);
        assert_eq!(coded(1 << 31), [0xfe, 0x82, 0x80, 0x80, 0x80, 0x80, 0x80]);
        assert_eq!(coded((1 << 31) - 1), [0xfd, 0xbf, 0xbf, 0xbf, 0xbf, 0xbf]);
    }
}
