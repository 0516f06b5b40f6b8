//! AV1: open bitstream units (AV1 specification section 5.3), sequence header, `av1C`.

use crate::Colour;
use crate::codec::bits::Bits;

/// OBU types (section 6.2.2).
mod unit {
    pub(super) const SEQUENCE_HEADER: u8 = 1;
    pub(super) const TEMPORAL_DELIMITER: u8 = 2;
    pub(super) const FRAME_HEADER: u8 = 3;
    pub(super) const FRAME: u8 = 6;
}

/// One unit of a temporal unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Obu<'a> {
    kind: u8,
    /// Header, size and payload.
    whole: &'a [u8],
    payload: &'a [u8],
}

/// The contents of a sequence header (section 5.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceHeader {
    profile: u8,
    level: u8,
    high_tier: bool,
    high_bit_depth: bool,
    twelve_bit: bool,
    monochrome: bool,
    subsampling: (bool, bool),
    chroma_position: u8,
    /// The header is for a single picture.
    reduced: bool,
    /// Largest width in pixels.
    pub(crate) width: u32,
    /// Largest height in pixels.
    pub(crate) height: u32,
    /// Colour description, if stated.
    pub(crate) colour: Option<Colour>,
}

/// The units of a temporal unit in the low-overhead format (section 5.2); stops at the first
/// damage.
pub(crate) fn units(bytes: &[u8]) -> impl Iterator<Item = Obu<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (obu, tail) = split_unit(rest)?;
        rest = tail;
        Some(obu)
    })
}

/// Removes temporal delimiters, as ISO files require (AV1 ISOBMFF binding section 2.4).
pub(crate) fn remove_temporal_delimiters(sample: &mut Vec<u8>) {
    if !units(sample).any(|obu| obu.kind == unit::TEMPORAL_DELIMITER) {
        return;
    }
    let mut kept = Vec::with_capacity(sample.len());
    let mut seen = 0;
    for obu in units(sample) {
        seen += obu.whole.len();
        if obu.kind != unit::TEMPORAL_DELIMITER {
            kept.extend_from_slice(obu.whole);
        }
    }
    // Bytes that cannot be read as a unit stay as they are.
    kept.extend_from_slice(&sample[seen..]);
    *sample = kept;
}

/// The first readable sequence header of a temporal unit or of configOBUs.
pub(crate) fn sequence_header(bytes: &[u8]) -> Option<SequenceHeader> {
    units(bytes)
        .filter(|obu| obu.kind == unit::SEQUENCE_HEADER)
        .find_map(|obu| SequenceHeader::parse(obu.payload))
}

/// Whether the first frame of a temporal unit is a shown key frame.
pub(crate) fn is_key_frame(bytes: &[u8]) -> bool {
    // Reduced headers are used by still pictures, which are always key frames.
    let reduced = sequence_header(bytes).is_some_and(|header| header.reduced);
    let first = units(bytes).find(|obu| matches!(obu.kind, unit::FRAME | unit::FRAME_HEADER));
    first.is_some_and(|obu| {
        let mut bits = Bits::new(obu.payload);
        // show_existing_frame 0, frame_type KEY_FRAME, show_frame 1 (section 5.9.2).
        reduced || bits.take(4) == Some(0b0001)
    })
}

/// Body of `av1C` (AV1 ISOBMFF binding section 2.3) made from the first temporal unit.
pub(crate) fn av1_config(temporal_unit: &[u8]) -> Option<Vec<u8>> {
    let obu = units(temporal_unit).find(|obu| obu.kind == unit::SEQUENCE_HEADER)?;
    let header = SequenceHeader::parse(obu.payload)?;
    let bit = u8::from;
    let mut body = vec![
        0x81,
        (header.profile << 5) | header.level,
        (bit(header.high_tier) << 7)
            | (bit(header.high_bit_depth) << 6)
            | (bit(header.twelve_bit) << 5)
            | (bit(header.monochrome) << 4)
            | (bit(header.subsampling.0) << 3)
            | (bit(header.subsampling.1) << 2)
            | header.chroma_position,
        0,
    ];
    body.extend_from_slice(obu.whole);
    Some(body)
}

impl SequenceHeader {
    fn parse(payload: &[u8]) -> Option<Self> {
        let mut bits = Bits::new(payload);
        let profile = byte(&mut bits, 3)?;
        bits.flag()?;
        let reduced = bits.flag()?;
        let (level, high_tier) =
            if reduced { (byte(&mut bits, 5)?, false) } else { read_operating_points(&mut bits)? };
        let (width_bits, height_bits) = (bits.take(4)? + 1, bits.take(4)? + 1);
        let (width, height) =
            (bits.take(width_bits)?.checked_add(1)?, bits.take(height_bits)?.checked_add(1)?);
        if !reduced && bits.flag()? {
            bits.take(7)?;
        }
        bits.take(3)?;
        if !reduced {
            skip_tools(&mut bits)?;
        }
        bits.take(3)?;
        let mut header = Self {
            profile,
            level,
            high_tier,
            high_bit_depth: false,
            twelve_bit: false,
            monochrome: false,
            subsampling: (false, false),
            chroma_position: 0,
            reduced,
            width,
            height,
            colour: None,
        };
        header.read_colour(&mut bits)?;
        Some(header)
    }

    /// Section 5.5.2.
    fn read_colour(&mut self, bits: &mut Bits<'_>) -> Option<()> {
        self.high_bit_depth = bits.flag()?;
        self.twelve_bit = self.profile == 2 && self.high_bit_depth && bits.flag()?;
        self.monochrome = self.profile != 1 && bits.flag()?;
        let described = bits.flag()?;
        let points = if described { [bits.take(8)?, bits.take(8)?, bits.take(8)?] } else { [2; 3] };
        let full_range;
        if self.monochrome {
            full_range = bits.flag()?;
            self.subsampling = (true, true);
        } else if points == [1, 13, 0] {
            full_range = true;
        } else {
            full_range = bits.flag()?;
            self.subsampling = match self.profile {
                0 => (true, true),
                1 => (false, false),
                _ if self.twelve_bit => {
                    let across = bits.flag()?;
                    (across, across && bits.flag()?)
                }
                _ => (true, false),
            };
            if self.subsampling == (true, true) {
                self.chroma_position = byte(bits, 2)?;
            }
        }
        let point = |value: u32| u16::try_from(value).ok();
        if described || full_range {
            self.colour = Some(Colour {
                primaries: point(points[0])?,
                transfer: point(points[1])?,
                matrix: point(points[2])?,
                full_range,
            });
        }
        Some(())
    }
}

/// From timing_info_present_flag to the operating points; gives level and tier of the first point.
fn read_operating_points(bits: &mut Bits<'_>) -> Option<(u8, bool)> {
    let mut delay_bits = None;
    if bits.flag()? {
        bits.skip(64)?;
        if bits.flag()? {
            skip_uvlc(bits)?;
        }
        if bits.flag()? {
            delay_bits = Some(bits.take(5)? as usize + 1);
            bits.skip(32 + 10)?;
        }
    }
    let display_delay = bits.flag()?;
    let mut first = None;
    for _ in 0..=bits.take(5)? {
        bits.take(12)?;
        let level = byte(bits, 5)?;
        let high_tier = level > 7 && bits.flag()?;
        if let Some(count) = delay_bits
            && bits.flag()?
        {
            bits.skip(2 * count + 1)?;
        }
        if display_delay && bits.flag()? {
            bits.take(4)?;
        }
        first.get_or_insert((level, high_tier));
    }
    first
}

/// From enable_interintra_compound to order_hint_bits.
fn skip_tools(bits: &mut Bits<'_>) -> Option<()> {
    bits.take(4)?;
    let order_hint = bits.flag()?;
    if order_hint {
        bits.take(2)?;
    }
    let screen_content = if bits.flag()? { 2 } else { bits.take(1)? };
    if screen_content > 0 && !bits.flag()? {
        bits.take(1)?;
    }
    if order_hint {
        bits.take(3)?;
    }
    Some(())
}

/// Section 4.10.3.
fn skip_uvlc(bits: &mut Bits<'_>) -> Option<()> {
    let mut zeros = 0;
    while !bits.flag()? {
        zeros += 1;
    }
    bits.skip(if zeros < 32 { zeros } else { 0 })
}

fn split_unit(bytes: &[u8]) -> Option<(Obu<'_>, &[u8])> {
    let header = *bytes.first()?;
    let extension = header & 4 != 0;
    let mut head = 1 + usize::from(extension);
    let length = if header & 2 != 0 {
        let (value, used) = leb128(bytes.get(head..)?)?;
        head += used;
        usize::try_from(value).ok()?
    } else {
        bytes.len().checked_sub(head)?
    };
    let end = head.checked_add(length).filter(|end| *end <= bytes.len())?;
    let (whole, rest) = bytes.split_at(end);
    Some((Obu { kind: (header >> 3) & 15, whole, payload: &whole[head..] }, rest))
}

/// Section 4.10.5.
fn leb128(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(8).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn byte(bits: &mut Bits<'_>, count: u32) -> Option<u8> {
    bits.take(count).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Temporal delimiter, sequence header (322x182, 10 bits, BT.2020 with PQ), start of a key
    /// frame.
    const UNIT: &[u8] = &[
        0x12, 0x00, 0x0a, 0x0e, 0x00, 0x00, 0x00, 0x04, 0x3d, 0x06, 0xd4, 0xda, 0xf9, 0x50, 0x91, 0x00, 0x90,
        0x40, 0x32, 0x02, 0x10, 0x00,
    ];

    #[test]
    fn a_configuration_as_libaom_writes_it() {
        let body = av1_config(UNIT).unwrap();
        assert_eq!(body[..4], [0x81, 0x00, 0x4c, 0]);
        assert_eq!(body[4..], UNIT[2..18]);
        let header = sequence_header(&body[4..]).unwrap();
        assert_eq!((header.width, header.height), (322, 182));
        assert_eq!(header.colour, Some(Colour { primaries: 9, transfer: 16, matrix: 9, full_range: false }));
    }

    #[test]
    fn delimiters_are_removed_and_key_frames_are_recognized() {
        let mut sample = UNIT.to_vec();
        remove_temporal_delimiters(&mut sample);
        assert_eq!(sample, UNIT[2..]);
        assert!(is_key_frame(&sample));
        assert!(!is_key_frame(&[0x32, 0x02, 0x30, 0]), "an inter frame");
        assert!(!is_key_frame(&[]));
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..22, value: u8, cut in 0usize..23) {
            let mut damaged = UNIT.to_vec();
            damaged[at] = value;
            damaged.truncate(cut);
            let before = damaged.len();
            let _ = (av1_config(&damaged), is_key_frame(&damaged));
            remove_temporal_delimiters(&mut damaged);
            prop_assert!(damaged.len() <= before);
        }
    }
}
