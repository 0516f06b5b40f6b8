//! What H.264 and HEVC state about a picture in the same form: pixel shape, colour, rate.

use crate::Colour;
use crate::codec::bits::Bits;

/// Sample aspect ratios by aspect_ratio_idc (ITU-T H.264 table E-1, H.265 table E.1).
const PIXEL_ASPECTS: [(u32, u32); 17] = [
    (1, 1),
    (1, 1),
    (12, 11),
    (10, 11),
    (16, 11),
    (40, 33),
    (24, 11),
    (20, 11),
    (32, 11),
    (80, 33),
    (18, 11),
    (15, 11),
    (64, 33),
    (160, 99),
    (4, 3),
    (3, 2),
    (2, 1),
];
const EXTENDED_SAR: u32 = 255;
/// Code point for "not stated" (ISO 23091-2).
const UNSPECIFIED: u16 = 2;

/// The part of the VUI with which both standards begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Pixel shape, if stated.
    pub(crate) pixel_aspect: Option<(u32, u32)>,
    /// Colour description, if stated.
    pub(crate) colour: Option<Colour>,
}

/// Reads aspect ratio, overscan, video signal type and chroma location (H.264 E.1.1, H.265 E.2.1).
pub(crate) fn picture(bits: &mut Bits<'_>) -> Option<Picture> {
    let mut pixel_aspect = None;
    if bits.flag()? {
        let code = bits.take(8)?;
        let aspect = if code == EXTENDED_SAR {
            Some((bits.take(16)?, bits.take(16)?))
        } else {
            PIXEL_ASPECTS.get(code as usize).copied().filter(|_| code != 0)
        };
        pixel_aspect = aspect.filter(|(wide, high)| *wide > 0 && *high > 0).map(reduced);
    }
    if bits.flag()? {
        bits.flag()?;
    }
    let mut colour = None;
    if bits.flag()? {
        bits.take(3)?;
        let full_range = bits.flag()?;
        if bits.flag()? {
            colour = Some(Colour {
                primaries: code_point(bits)?,
                transfer: code_point(bits)?,
                matrix: code_point(bits)?,
                full_range,
            });
        } else if full_range {
            colour = Some(Colour {
                primaries: UNSPECIFIED,
                transfer: UNSPECIFIED,
                matrix: UNSPECIFIED,
                full_range,
            });
        }
    }
    if bits.flag()? {
        bits.ue()?;
        bits.ue()?;
    }
    Some(Picture { pixel_aspect, colour })
}

/// A fraction in lowest terms; (0, x) and (x, 0) stay as they are.
pub(crate) fn reduced((a, b): (u32, u32)) -> (u32, u32) {
    let divisor = gcd(u64::from(a), u64::from(b));
    match u32::try_from(divisor) {
        Ok(divisor) if divisor > 1 => (a / divisor, b / divisor),
        _ => (a, b),
    }
}

/// Greatest common divisor; of (0, 0) it is 0.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn code_point(bits: &mut Bits<'_>) -> Option<u16> {
    bits.take(8).and_then(|value| u16::try_from(value).ok())
}
