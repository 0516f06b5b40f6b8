//! AC-3 and Enhanced AC-3 (ETSI TS 102 366): sync frames, `dac3` and `dec3`.

use crate::codec::bits::Bits;

/// Bytes that are needed to read a header up to its frame length.
pub(crate) const HEADER_BYTES: usize = 8;
/// Samples of one audio block.
const BLOCK_SAMPLES: u32 = 256;
/// Blocks of a full AC-3 frame, and of one E-AC-3 sample in MP4.
pub(crate) const SAMPLE_BLOCKS: u32 = 6;

/// Kilobits per second by frmsizecod / 2 (table 4.13).
const KILOBITS: [u32; 19] =
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
const RATES: [u32; 3] = [48_000, 44_100, 32_000];
const CHANNELS: [u16; 8] = [2, 1, 2, 3, 3, 4, 4, 5];

/// The header of one sync frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// E-AC-3 rather than AC-3.
    pub(crate) enhanced: bool,
    /// Belongs to the independent frame before it.
    pub(crate) dependent: bool,
    /// The programme within the stream (E-AC-3); 0 for AC-3.
    pub(crate) substream: u8,
    /// Samples per second.
    pub(crate) sample_rate: u32,
    /// Audio blocks of 256 samples.
    pub(crate) blocks: u32,
    /// Bytes of the frame, header included.
    pub(crate) frame_bytes: usize,
    rate_code: u32,
    bit_rate_code: u32,
    bsid: u32,
    bsmod: u32,
    acmod: u32,
    lfe: bool,
    channel_map: Option<u32>,
    object_complexity: Option<u32>,
}

impl Frame {
    /// Reads the header at the start of `bytes`; `None` if there is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..2)? != [0x0b, 0x77] {
            return None;
        }
        let bsid = bytes.get(5)? >> 3;
        match bsid {
            0..=10 => Self::plain(bytes),
            11..=16 => Self::enhanced(bytes),
            _ => None,
        }
    }

    /// Samples per channel.
    pub(crate) fn samples(&self) -> u32 {
        self.blocks * BLOCK_SAMPLES
    }

    /// Starts a new access unit: the first independent substream.
    pub(crate) fn starts_unit(&self) -> bool {
        !self.dependent && self.substream == 0
    }

    /// Section 4.3.
    fn plain(bytes: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(bytes);
        bits.skip(32)?;
        let rate_code = bits.take(2)?;
        let size_code = bits.take(6)?;
        let bsid = bits.take(5)?;
        let bsmod = bits.take(3)?;
        let acmod = bits.take(3)?;
        if acmod & 1 == 1 && acmod != 1 {
            bits.take(2)?;
        }
        if acmod & 4 != 0 {
            bits.take(2)?;
        }
        if acmod == 2 {
            bits.take(2)?;
        }
        let lfe = bits.flag()?;
        let kilobits = *KILOBITS.get(size_code as usize / 2)?;
        let words = match rate_code {
            0 => kilobits * 2,
            1 => 320 * kilobits / 147 + (size_code & 1),
            2 => kilobits * 3,
            _ => return None,
        };
        Some(Self {
            enhanced: false,
            dependent: false,
            substream: 0,
            // Each identification above 8 halves the rate (annex F of ATSC A/52).
            sample_rate: RATES[rate_code as usize] >> bsid.saturating_sub(8),
            blocks: SAMPLE_BLOCKS,
            frame_bytes: words as usize * 2,
            rate_code,
            bit_rate_code: size_code / 2,
            bsid,
            bsmod,
            acmod,
            lfe,
            channel_map: None,
            object_complexity: None,
        })
    }

    /// Annex E.1.2.
    fn enhanced(bytes: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(bytes);
        bits.skip(16)?;
        let stream_type = bits.take(2)?;
        let substream = u8::try_from(bits.take(3)?).ok()?;
        let frame_bytes = (bits.take(11)? as usize + 1) * 2;
        let rate_code = bits.take(2)?;
        let (sample_rate, block_code) = if rate_code == 3 {
            (*RATES.get(bits.take(2)? as usize)? / 2, 3)
        } else {
            (RATES[rate_code as usize], bits.take(2)?)
        };
        let acmod = bits.take(3)?;
        let lfe = bits.flag()?;
        let bsid = bits.take(5)?;
        if stream_type == 3 || frame_bytes < HEADER_BYTES {
            return None;
        }
        let mut frame = Self {
            enhanced: true,
            dependent: stream_type == 1,
            substream,
            sample_rate,
            blocks: [1, 2, 3, 6][block_code as usize],
            frame_bytes,
            rate_code,
            bit_rate_code: 0,
            bsid,
            bsmod: 0,
            acmod,
            lfe,
            channel_map: None,
            object_complexity: None,
        };
        // The rest is description. A frame that is cut short here still states its length and rate.
        let _ = frame.read_description(&mut bits, stream_type, block_code);
        Some(frame)
    }

    fn read_description(&mut self, bits: &mut Bits<'_>, stream_type: u32, block_code: u32) -> Option<()> {
        let programmes = if self.acmod == 0 { 2 } else { 1 };
        for _ in 0..programmes {
            bits.take(5)?;
            optional(bits, 8)?;
        }
        if stream_type == 1 && bits.flag()? {
            self.channel_map = Some(bits.take(16)?);
        }
        if bits.flag()? {
            self.skip_mixing(bits, stream_type, block_code)?;
        }
        if bits.flag()? {
            self.bsmod = bits.take(3)?;
            bits.take(2)?;
            if self.acmod == 2 {
                bits.take(4)?;
            }
            if self.acmod >= 6 {
                bits.take(2)?;
            }
            for _ in 0..programmes {
                optional(bits, 8)?;
            }
            if self.rate_code < 3 {
                bits.take(1)?;
            }
        }
        if stream_type == 0 && block_code != 3 {
            bits.take(1)?;
        }
        if stream_type == 2 && (block_code == 3 || bits.flag()?) {
            bits.take(6)?;
        }
        if bits.flag()? {
            let length = bits.take(6)? + 1;
            // ETSI TS 103 420 section 8.3: seven reserved bits, the flag of joint object coding,
            // its complexity.
            if length >= 2 && bits.take(8)? == 1 {
                self.object_complexity = Some(bits.take(8)?);
            }
        }
        Some(())
    }

    fn skip_mixing(&self, bits: &mut Bits<'_>, stream_type: u32, block_code: u32) -> Option<()> {
        if self.acmod > 2 {
            bits.take(2)?;
            if self.acmod & 1 == 1 {
                bits.take(6)?;
            }
        }
        if self.acmod & 4 != 0 {
            bits.take(6)?;
        }
        if self.lfe {
            optional(bits, 5)?;
        }
        if stream_type != 0 {
            return Some(());
        }
        optional(bits, 6)?;
        if self.acmod == 0 {
            optional(bits, 6)?;
        }
        optional(bits, 6)?;
        match bits.take(2)? {
            1 => bits.skip(5)?,
            2 => bits.skip(12)?,
            3 => {
                let length = bits.take(5)? as usize + 2;
                bits.skip(length * 8)?;
            }
            _ => {}
        }
        if self.acmod < 2 {
            optional(bits, 14)?;
            if self.acmod == 0 {
                optional(bits, 14)?;
            }
        }
        if bits.flag()? {
            if block_code == 0 {
                bits.take(5)?;
            } else {
                for _ in 0..self.blocks {
                    optional(bits, 5)?;
                }
            }
        }
        Some(())
    }
}

/// The sync frames of a sample, in order; stops at the first damage.
pub(crate) fn frames(sample: &[u8]) -> impl Iterator<Item = Frame> {
    let mut rest = sample;
    std::iter::from_fn(move || {
        let frame = Frame::parse(rest)?;
        rest = rest.get(frame.frame_bytes..)?;
        Some(frame)
    })
}

/// Body of `dac3` (annex F.4).
pub(crate) fn dac3(frame: &Frame) -> Vec<u8> {
    let fields = [
        (frame.rate_code, 2),
        (frame.bsid, 5),
        (frame.bsmod, 3),
        (frame.acmod, 3),
        (u32::from(frame.lfe), 1),
        (frame.bit_rate_code, 5),
        (0, 5),
    ];
    packed(&fields)
}

/// Body of `dec3` (annex F.6) for the substreams found in one sample; `None` if it begins with no
/// frame.
pub(crate) fn dec3(sample: &[u8]) -> Option<Vec<u8>> {
    let all: Vec<_> = frames(sample).collect();
    let first = all.first()?;
    let samples: u32 = all.iter().filter(|frame| frame.starts_unit()).map(Frame::samples).sum();
    let bytes: usize = all.iter().map(|frame| frame.frame_bytes).sum();
    let kilobits =
        bytes as u64 * 8 * u64::from(first.sample_rate) / u64::from(samples.max(BLOCK_SAMPLES)) / 1000;
    let mut programmes: Vec<(Frame, Vec<Frame>)> = Vec::new();
    for frame in &all {
        let place = usize::from(frame.substream);
        if frame.dependent {
            // Dependent substreams number themselves within the independent one before them.
            let Some((_, dependents)) = programmes.last_mut() else { continue };
            if place == dependents.len() {
                dependents.push(*frame);
            }
        } else if place == programmes.len() {
            programmes.push((*frame, Vec::new()));
        } else {
            // The next group of blocks repeats what is known.
            break;
        }
    }
    let count = u32::try_from(programmes.len()).ok()?.checked_sub(1)?;
    let mut fields = vec![(u32::try_from(kilobits).ok()?.min(0x1fff), 13), (count & 7, 3)];
    for (frame, dependents) in &programmes {
        fields.extend([(frame.rate_code, 2), (frame.bsid, 5), (0, 2), (frame.bsmod, 3), (frame.acmod, 3)]);
        fields.extend([(u32::from(frame.lfe), 1), (0, 3), (u32::try_from(dependents.len()).ok()? & 15, 4)]);
        if dependents.is_empty() {
            fields.push((0, 1));
        } else {
            fields.push((dependents.iter().fold(0, |sum, frame| sum | channel_locations(frame)), 9));
        }
    }
    if let Some(complexity) = first.object_complexity {
        fields.extend([(1, 8), (complexity, 8)]);
    }
    Some(packed(&fields))
}

/// Channels that a sample plays: those of the first programme and those that its dependent
/// substreams add.
pub(crate) fn channels(sample: &[u8]) -> Option<u16> {
    let mut all = frames(sample);
    let first = all.next()?;
    let base = CHANNELS[first.acmod as usize] + u16::from(first.lfe);
    let added = all.take_while(|frame| frame.dependent).fold(0, |sum, frame| sum | channel_locations(&frame));
    // Lc/Rc, Lrs/Rrs, Lsd/Rsd, Lw/Rw and Lvh/Rvh are pairs; Cs, Ts, Cvh and LFE2 single.
    let pairs = u16::try_from((added & 0b0_0111_0011).count_ones()).ok()?;
    let singles = u16::try_from((added & 0b1_1000_1100).count_ones()).ok()?;
    Some(base + pairs * 2 + singles)
}

/// chan_loc of table F.6.1 from the custom channel map of table E.1.4 (its bit 0 is the most
/// significant).
fn channel_locations(frame: &Frame) -> u32 {
    let Some(map) = frame.channel_map else { return 0 };
    let at = |bit: u32| (map >> (15 - bit)) & 1;
    (0..8).map(|place| at(place + 5) << place).sum::<u32>() | at(14) << 8
}

fn optional(bits: &mut Bits<'_>, count: usize) -> Option<()> {
    if bits.flag()? { bits.skip(count) } else { Some(()) }
}

fn packed(fields: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut filled = 8;
    for (value, count) in fields {
        for bit in (0..*count).rev() {
            if filled == 8 {
                bytes.push(0u8);
                filled = 0;
            }
            if let Some(last) = bytes.last_mut() {
                *last |= u8::from((value >> bit) & 1 == 1) << (7 - filled);
            }
            filled += 1;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_frame() {
        // 48 kHz, 192 kbit/s, 3/2 with LFE.
        let frame = Frame::parse(&[0x0b, 0x77, 0, 0, 0x14, 0x40, 0xe1, 0]).unwrap();
        assert_eq!((frame.sample_rate, frame.frame_bytes, frame.samples()), (48_000, 768, 1536));
        assert!(frame.lfe);
        assert_eq!(dac3(&frame), [0x10, 0x3d, 0x40]);
    }

    #[test]
    fn an_enhanced_frame() {
        // Independent substream 0, 256 bytes, 48 kHz, six blocks, stereo, bsid 16.
        let mut bytes = vec![0x0b, 0x77, 0x00, 0x7f, 0x34, 0x80, 0, 0, 0, 0, 0];
        bytes.resize(256, 0);
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!((frame.frame_bytes, frame.blocks, frame.bsid), (256, 6, 16));
        assert_eq!(channels(&bytes), Some(2));
        let body = dec3(&bytes).unwrap();
        assert_eq!(body, [0x02, 0x00, 0x20, 0x04, 0x00], "64 kbit/s, one substream");
    }

    #[test]
    fn damaged_frames_are_refused() {
        assert_eq!(Frame::parse(&[0x0b, 0x77, 0, 0, 0x3f, 0x40, 0xe1, 0]), None, "frame size code");
        assert_eq!(Frame::parse(&[0x0b, 0x77, 0, 0, 0xd4, 0x40, 0xe1, 0]), None, "rate code");
        assert_eq!(Frame::parse(&[0x0b, 0x77, 0, 0]), None);
    }
}
