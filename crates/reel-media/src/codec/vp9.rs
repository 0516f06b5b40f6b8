//! VP9: the uncompressed frame header (VP9 bitstream specification section 6.2) and `vpcC`.

use crate::Colour;
use crate::codec::bits::Bits;

/// Levels (annex A): level times ten, luma samples per second, luma samples per picture.
const LEVELS: [(u8, u64, u64); 14] = [
    (10, 829_440, 36_864),
    (11, 2_764_800, 73_728),
    (20, 4_608_000, 122_880),
    (21, 9_216_000, 245_760),
    (30, 20_736_000, 552_960),
    (31, 36_864_000, 983_040),
    (40, 83_558_400, 2_228_224),
    (41, 160_432_128, 2_228_224),
    (50, 311_951_360, 8_912_896),
    (51, 588_251_136, 8_912_896),
    (52, 1_176_502_272, 8_912_896),
    (60, 1_176_502_272, 35_651_584),
    (61, 2_353_004_544, 35_651_584),
    (62, 4_706_009_088, 35_651_584),
];
const HIGHEST_LEVEL: u8 = 62;
const SRGB: u32 = 7;

/// The contents of a key frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyFrame {
    /// Profile, 0 to 3.
    pub(crate) profile: u8,
    /// 8, 10 or 12.
    pub(crate) bit_depth: u8,
    /// Whether chroma is halved horizontally / vertically.
    pub(crate) subsampling: (bool, bool),
    /// Coded width in pixels.
    pub(crate) width: u32,
    /// Coded height in pixels.
    pub(crate) height: u32,
    /// Colour as far as the header states it; `None` if it says "unknown" and studio range.
    pub(crate) colour: Option<Colour>,
}

impl KeyFrame {
    /// Reads the header of a key frame, which may be the first of a superframe; `None` for any
    /// other frame and for damage.
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(frame);
        let (profile, key) = frame_type(&mut bits)?;
        if !key {
            return None;
        }
        bits.take(2)?;
        if bits.take(24)? != 0x49_83_42 {
            return None;
        }
        let bit_depth = match profile >= 2 && bits.flag()? {
            true => 12,
            false if profile >= 2 => 10,
            false => 8,
        };
        let space = bits.take(3)?;
        let full_range = space == SRGB || bits.flag()?;
        let subsampling = match (profile & 1 == 1, space == SRGB) {
            (true, true) => {
                bits.flag()?;
                (false, false)
            }
            (true, false) => {
                let both = (bits.flag()?, bits.flag()?);
                bits.flag()?;
                both
            }
            (false, _) => (true, true),
        };
        let (width, height) = (bits.take(16)? + 1, bits.take(16)? + 1);
        Some(Self { profile, bit_depth, subsampling, width, height, colour: colour(space, full_range) })
    }

    /// Body of `vpcC` with version and flags (VP Codec ISO Media File Format Binding, section 2.2).
    /// `rate` is frames per second; `level` overrides the level found from size and rate.
    pub(crate) fn vpcc(&self, rate: f64, level: Option<u8>, colour: Option<Colour>) -> Vec<u8> {
        let chroma = match self.subsampling {
            // The binding's default is colocated with luma, the more common of the two 4:2:0
            // positions.
            (true, true) => 1,
            (true, false) => 2,
            _ => 3,
        };
        let level = level.unwrap_or_else(|| self.level(rate));
        let colour = colour.or(self.colour);
        let point = |value: Option<u16>| value.and_then(|value| u8::try_from(value).ok()).unwrap_or(2);
        vec![
            1,
            0,
            0,
            0,
            self.profile,
            level,
            (self.bit_depth << 4) | (chroma << 1) | u8::from(colour.is_some_and(|colour| colour.full_range)),
            point(colour.map(|colour| colour.primaries)),
            point(colour.map(|colour| colour.transfer)),
            point(colour.map(|colour| colour.matrix)),
            0,
            0,
        ]
    }

    /// The lowest level whose picture size and sample rate suffice.
    fn level(&self, rate: f64) -> u8 {
        let picture = u64::from(self.width) * u64::from(self.height);
        let samples = (picture as f64 * rate) as u64;
        LEVELS
            .iter()
            .find(|(_, per_second, per_picture)| samples <= *per_second && picture <= *per_picture)
            .map_or(HIGHEST_LEVEL, |(level, ..)| *level)
    }
}

/// Profile and whether it is a key frame.
fn frame_type(bits: &mut Bits<'_>) -> Option<(u8, bool)> {
    if bits.take(2)? != 2 {
        return None;
    }
    let (low, high) = (bits.take(1)?, bits.take(1)?);
    let profile = u8::try_from(high * 2 + low).ok()?;
    if profile == 3 && bits.flag()? {
        return None;
    }
    let repeats = bits.flag()?;
    Some((profile, !repeats && !bits.flag()?))
}

/// color_space (section 7.2.2) in ISO 23091-2 code points.
fn colour(space: u32, full_range: bool) -> Option<Colour> {
    let (primaries, transfer, matrix) = match space {
        1 => (5, 6, 5),
        2 => (1, 1, 1),
        3 => (6, 6, 6),
        4 => (7, 7, 7),
        5 => (9, 14, 9),
        SRGB => (1, 13, 0),
        _ if full_range => (2, 2, 2),
        _ => return None,
    };
    Some(Colour { primaries, transfer, matrix, full_range })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Profile 0 key frame of 320x180.
    const KEY: [u8; 10] = [0x82, 0x49, 0x83, 0x42, 0x00, 0x13, 0xf0, 0x0b, 0x30, 0x00];

    #[test]
    fn a_key_frame() {
        let key = KeyFrame::parse(&KEY).unwrap();
        assert_eq!((key.profile, key.bit_depth, key.width, key.height), (0, 8, 320, 180));
        assert!(KeyFrame::parse(&KEY).is_some());
        assert_eq!(KeyFrame::parse(&[0x86, 0, 0]), None);
        assert_eq!(KeyFrame::parse(&[0x8a, 0, 0]), None, "a repeated frame");
        assert_eq!(KeyFrame::parse(&KEY[..6]), None);
    }

    #[test]
    fn levels_grow_with_size_and_rate() {
        let mut key = KeyFrame::parse(&KEY).unwrap();
        assert_eq!(key.vpcc(25.0, None, None), [1, 0, 0, 0, 0, 11, 0x82, 2, 2, 2, 0, 0]);
        (key.width, key.height) = (1920, 1080);
        assert_eq!(key.vpcc(30.0, None, None)[5], 40);
        assert_eq!(key.vpcc(60.0, None, None)[5], 41);
        (key.width, key.height) = (65536, 65536);
        assert_eq!(key.vpcc(60.0, None, None)[5], 62);
    }
}
