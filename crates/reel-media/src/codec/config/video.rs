//! `avcC`, `hvcC` (ISO/IEC 14496-15, 5.3.3 and 8.3.3), `av1C` (AV1 in ISOBMFF, 2.3) and `vpcC` (VP
//! codec in ISOBMFF).

use super::{ConfigError, split};
use crate::Colour;

/// Code point "unspecified" of ISO 23091-2.
const UNSPECIFIED: u8 = 2;

/// Checks an AVCDecoderConfigurationRecord. True if it has parameter sets (`avc3` may have them
/// only in the samples).
pub(crate) fn avcc(mut body: &[u8]) -> Result<bool, ConfigError> {
    let name = "avcC";
    let [version, _, _, _, length, sequence] = *split::<6>(&mut body, name)?;
    if version != 1 {
        return Err(ConfigError { name, what: "has an unknown version" });
    }
    length_size(name, length)?;
    for _ in 0..sequence & 31 {
        unit(&mut body, name)?;
    }
    let [pictures] = *split::<1>(&mut body, name)?;
    for _ in 0..pictures {
        unit(&mut body, name)?;
    }
    Ok(sequence & 31 > 0 && pictures > 0)
}

/// Checks an HEVCDecoderConfigurationRecord.
pub(crate) fn hvcc(mut body: &[u8]) -> Result<(), ConfigError> {
    let name = "hvcC";
    let head = split::<23>(&mut body, name)?;
    // Version 0 was written while the standard was a draft; the layout is the same.
    if head[0] > 1 {
        return Err(ConfigError { name, what: "has an unknown version" });
    }
    length_size(name, head[21])?;
    for _ in 0..head[22] {
        let [_, high, low] = *split::<3>(&mut body, name)?;
        for _ in 0..u16::from_be_bytes([high, low]) {
            unit(&mut body, name)?;
        }
    }
    Ok(())
}

/// Checks an AV1CodecConfigurationRecord.
pub(crate) fn av1c(mut body: &[u8]) -> Result<(), ConfigError> {
    let name = "av1C";
    match split::<4>(&mut body, name)?[0] {
        0x81 => Ok(()),
        _ => Err(ConfigError { name, what: "has an unknown version" }),
    }
}

/// Checks a VPCodecConfigurationBox (with its version and flags). Returns the colour if it states
/// one.
pub(crate) fn vpcc(mut body: &[u8]) -> Result<Option<Colour>, ConfigError> {
    let name = "vpcC";
    let [version, _, _, _, profile, _, depth, primaries, transfer, matrix, _, _] =
        *split::<12>(&mut body, name)?;
    if version != 1 {
        return Err(ConfigError { name, what: "has an unknown version" });
    }
    if profile > 3 || !matches!(depth >> 4, 8 | 10 | 12) {
        return Err(ConfigError { name, what: "states an unknown profile or bit depth" });
    }
    let stated = [primaries, transfer, matrix].iter().any(|point| *point != UNSPECIFIED);
    Ok(stated.then_some(Colour {
        primaries: primaries.into(),
        transfer: transfer.into(),
        matrix: matrix.into(),
        full_range: depth & 1 == 1,
    }))
}

/// NAL unit lengths take 1, 2 or 4 bytes.
fn length_size(name: &'static str, byte: u8) -> Result<(), ConfigError> {
    match byte & 3 {
        2 => Err(ConfigError { name, what: "has NAL unit lengths of three bytes" }),
        _ => Ok(()),
    }
}

fn unit(body: &mut &[u8], name: &'static str) -> Result<(), ConfigError> {
    let bytes = usize::from(u16::from_be_bytes(*split::<2>(body, name)?));
    let (unit, rest) = body
        .split_at_checked(bytes)
        .ok_or(ConfigError { name, what: "has a parameter set that ends early" })?;
    *body = rest;
    if unit.is_empty() {
        return Err(ConfigError { name, what: "has an empty parameter set" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn avc_with_and_without_parameter_sets() {
        let full = [1, 100, 0, 31, 0xff, 0xe1, 0, 2, 0x67, 0x64, 1, 0, 1, 0x68];
        assert_eq!(avcc(&full), Ok(true));
        for cut in 0..full.len() {
            assert!(avcc(&full[..cut]).is_err(), "cut at {cut}");
        }
        assert_eq!(avcc(&[1, 100, 0, 31, 0xff, 0xe0, 0]), Ok(false));
        assert!(avcc(&[1, 100, 0, 31, 0xfe, 0xe0, 0]).is_err());
        assert!(avcc(&[0, 100, 0, 31, 0xff, 0xe0, 0]).is_err());
    }

    #[test]
    fn hevc_arrays() {
        let mut body = vec![1];
        body.extend([0; 20]);
        body.extend([3, 1, 0xa0, 0, 1, 0, 2, 0x40, 1]);
        assert_eq!(hvcc(&body), Ok(()));
        for cut in 0..body.len() {
            assert!(hvcc(&body[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn av1_and_vp9() {
        assert_eq!(av1c(&[0x81, 0, 0, 0]), Ok(()));
        assert!(av1c(&[0x01, 0, 0, 0]).is_err());
        assert_eq!(vpcc(&[1, 0, 0, 0, 0, 21, 0x82, 2, 2, 2, 0, 0]), Ok(None));
        let colour = Colour { primaries: 9, transfer: 16, matrix: 9, full_range: true };
        assert_eq!(vpcc(&[1, 0, 0, 0, 2, 21, 0xa3, 9, 16, 9, 0, 0]), Ok(Some(colour)));
        assert!(vpcc(&[1, 0, 0, 0, 9, 21, 0x82, 2, 2, 2, 0, 0]).is_err());
    }
}
