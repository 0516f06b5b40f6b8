//! H.264 (ITU-T H.264): parameter sets, and where decoding can start.

pub(crate) use super::avc_config::{AvcConfig, avc_config};
use crate::Colour;
use crate::codec::bits::Bits;
use crate::codec::nal::unescape;
use crate::codec::sei;
use crate::codec::vui::{self, reduced};

/// NAL unit types used here (table 7-1).
pub(crate) mod unit {
    /// Coded slice of a picture that is not an IDR picture.
    pub(crate) const SLICE: u8 = 1;
    /// Slice data partition A.
    pub(crate) const PARTITION_A: u8 = 2;
    /// Coded slice of an IDR picture.
    pub(crate) const IDR: u8 = 5;
    /// Supplemental enhancement information.
    pub(crate) const SEI: u8 = 6;
    /// Sequence parameter set.
    pub(crate) const SPS: u8 = 7;
    /// Picture parameter set.
    pub(crate) const PPS: u8 = 8;
    /// Access unit delimiter.
    pub(crate) const AUD: u8 = 9;
}

const RECOVERY_POINT: usize = 6;
/// The beginning of a slice header never needs more than this.
const SLICE_START_BYTES: usize = 32;

/// The contents of a sequence parameter set (section 7.3.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sps {
    /// profile_idc.
    pub(crate) profile: u8,
    /// The constraint_set flags as one byte.
    pub(crate) constraints: u8,
    /// level_idc.
    pub(crate) level: u8,
    /// seq_parameter_set_id.
    pub(crate) id: u32,
    /// chroma_format_idc.
    pub(crate) chroma_format: u8,
    /// Bits per luma sample.
    pub(crate) luma_bits: u8,
    /// Bits per chroma sample.
    pub(crate) chroma_bits: u8,
    /// Visible width in pixels.
    pub(crate) width: u32,
    /// Visible height in pixels.
    pub(crate) height: u32,
    /// Pixel shape, if stated.
    pub(crate) pixel_aspect: Option<(u32, u32)>,
    /// Colour description, if stated.
    pub(crate) colour: Option<Colour>,
    /// Seconds per frame as a fraction, if stated.
    pub(crate) frame_duration: Option<(u32, u32)>,
    /// How many frames may precede a frame in decoding order and follow it in output order, if
    /// stated or implied.
    pub(crate) reorder_frames: Option<u32>,
    /// gaps_in_frame_num_value_allowed_flag.
    pub(crate) gaps_allowed: bool,
    separate_planes: bool,
    frame_num_bits: u32,
    frames_only: bool,
}

impl Sps {
    /// The frame_num after another one.
    pub(crate) fn next_frame_num(&self, number: u32) -> u32 {
        (number + 1) & ((1 << self.frame_num_bits) - 1)
    }

    /// Reads a whole unit, header byte included; `None` if it is damaged.
    pub(crate) fn parse(nal: &[u8]) -> Option<Self> {
        if nal.first()? & 0x1f != unit::SPS {
            return None;
        }
        let payload = unescape(&nal[1..]);
        let mut bits = Bits::new(&payload);
        let [profile, constraints, level] = [byte(&mut bits)?, byte(&mut bits)?, byte(&mut bits)?];
        let id = bits.ue().filter(|id| *id < 32)?;
        let mut chroma_format = 1;
        let mut separate_planes = false;
        let (mut luma_bits, mut chroma_bits) = (8, 8);
        if has_chroma_fields(profile) {
            chroma_format = bits.ue().filter(|format| *format <= 3)?;
            if chroma_format == 3 {
                separate_planes = bits.flag()?;
            }
            luma_bits = 8 + bits.ue().filter(|extra| *extra <= 6)?;
            chroma_bits = 8 + bits.ue().filter(|extra| *extra <= 6)?;
            bits.flag()?;
            if bits.flag()? {
                skip_scaling_lists(&mut bits, if chroma_format == 3 { 12 } else { 8 })?;
            }
        }
        let frame_num_bits = 4 + bits.ue().filter(|extra| *extra <= 12)?;
        let order_type = bits.ue()?;
        skip_picture_order(&mut bits, order_type)?;
        bits.ue()?;
        let gaps_allowed = bits.flag()?;
        let width_blocks = u64::from(bits.ue()?) + 1;
        let height_units = u64::from(bits.ue()?) + 1;
        let frames_only = bits.flag()?;
        if !frames_only {
            bits.flag()?;
        }
        bits.flag()?;
        let crop = if bits.flag()? {
            [u64::from(bits.ue()?), u64::from(bits.ue()?), u64::from(bits.ue()?), u64::from(bits.ue()?)]
        } else {
            [0; 4]
        };
        let field_factor = if frames_only { 1 } else { 2 };
        let (crop_x, crop_y) = match (chroma_format, separate_planes) {
            (1, _) => (2, 2 * field_factor),
            (2, _) => (2, field_factor),
            _ => (1, field_factor),
        };
        let width = (width_blocks * 16).checked_sub(crop_x * (crop[0] + crop[1]))?;
        let height = (height_units * 16 * field_factor).checked_sub(crop_y * (crop[2] + crop[3]))?;
        let mut sps = Self {
            profile,
            constraints,
            level,
            id,
            chroma_format: u8::try_from(chroma_format).ok()?,
            luma_bits: u8::try_from(luma_bits).ok()?,
            chroma_bits: u8::try_from(chroma_bits).ok()?,
            width: u32::try_from(width).ok().filter(|width| *width > 0)?,
            height: u32::try_from(height).ok().filter(|height| *height > 0)?,
            pixel_aspect: None,
            colour: None,
            frame_duration: None,
            reorder_frames: implied_reorder(profile, constraints, order_type),
            gaps_allowed,
            separate_planes,
            frame_num_bits,
            frames_only,
        };
        if bits.flag()? {
            // A damaged VUI loses only its own fields: the picture is still described.
            let _ = sps.read_vui(&mut bits);
        }
        Some(sps)
    }

    /// Annex E.1.1.
    fn read_vui(&mut self, bits: &mut Bits<'_>) -> Option<()> {
        let picture = vui::picture(bits)?;
        self.pixel_aspect = picture.pixel_aspect;
        self.colour = picture.colour;
        if bits.flag()? {
            let (units, scale) = (bits.take(32)?, bits.take(32)?);
            bits.flag()?;
            // A frame lasts two ticks: the tick is that of a field.
            let frame_units = units.checked_mul(2).filter(|units| *units > 0);
            self.frame_duration = frame_units.filter(|_| scale > 0).map(|units| reduced((units, scale)));
        }
        let nal_hrd = bits.flag()?;
        if nal_hrd {
            skip_hrd(bits)?;
        }
        let vcl_hrd = bits.flag()?;
        if vcl_hrd {
            skip_hrd(bits)?;
        }
        if nal_hrd || vcl_hrd {
            bits.flag()?;
        }
        bits.flag()?;
        if bits.flag()? {
            bits.flag()?;
            for _ in 0..4 {
                bits.ue()?;
            }
            self.reorder_frames = Some(bits.ue().filter(|frames| *frames <= 16)?);
        }
        Some(())
    }
}

/// The beginning of a slice header (section 7.3.3), as far as picture boundaries need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceStart {
    /// first_mb_in_slice.
    pub(crate) first_block: u32,
    /// Only intra prediction in this slice.
    pub(crate) intra: bool,
    /// pic_parameter_set_id.
    pub(crate) pps_id: u32,
    rest_at: usize,
}

impl SliceStart {
    /// Reads the start of a slice unit, header byte included.
    pub(crate) fn parse(nal: &[u8]) -> Option<Self> {
        let payload = unescape(nal.get(1..nal.len().min(SLICE_START_BYTES))?);
        let mut bits = Bits::new(&payload);
        let first_block = bits.ue()?;
        let kind = bits.ue()? % 5;
        let pps_id = bits.ue()?;
        Some(Self { first_block, intra: kind == 2 || kind == 4, pps_id, rest_at: bits.position() })
    }

    /// frame_num and, for a field, whether it is the bottom one.
    pub(crate) fn frame_and_field(self, nal: &[u8], sps: &Sps) -> Option<(u32, Option<bool>)> {
        let payload = unescape(nal.get(1..nal.len().min(SLICE_START_BYTES))?);
        let mut bits = Bits::new(&payload);
        bits.skip(self.rest_at)?;
        if sps.separate_planes {
            bits.take(2)?;
        }
        let frame = bits.take(sps.frame_num_bits)?;
        let field = !sps.frames_only && bits.flag()?;
        Some((frame, if field { Some(bits.flag()?) } else { None }))
    }
}

/// The ids of a picture parameter set: its own and that of its sequence parameter set.
pub(crate) fn pps_ids(nal: &[u8]) -> Option<(u32, u32)> {
    let payload = unescape(nal.get(1..nal.len().min(SLICE_START_BYTES))?);
    let mut bits = Bits::new(&payload);
    Some((bits.ue()?, bits.ue()?))
}

/// Whether decoding can start at this access unit: an IDR picture, a recovery point, or only intra
/// slices.
pub(crate) fn is_random_access<'a>(units: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut slices = 0;
    let mut intra_only = true;
    for nal in units {
        match nal.first().map(|header| header & 0x1f) {
            Some(unit::IDR) => return true,
            Some(unit::SEI) if has_recovery_point(nal) => return true,
            Some(unit::SLICE | unit::PARTITION_A) => {
                slices += 1;
                intra_only &= SliceStart::parse(nal).is_some_and(|slice| slice.intra);
            }
            _ => {}
        }
    }
    slices > 0 && intra_only
}

/// Profiles whose parameter sets and `avcC` carry chroma format and bit depths.
pub(super) fn has_chroma_fields(profile: u8) -> bool {
    matches!(profile, 100 | 110 | 122 | 244 | 44 | 83 | 86 | 118 | 128 | 138 | 139 | 134 | 135)
}

/// Streams that cannot reorder (section E.2.1, max_num_reorder_frames inference, and 8.2.1.3).
fn implied_reorder(profile: u8, constraints: u8, order_type: u32) -> Option<u32> {
    let intra_only = constraints & 0x10 != 0 && matches!(profile, 44 | 86 | 100 | 110 | 122 | 244);
    (profile == 66 || intra_only || order_type == 2).then_some(0)
}

fn skip_picture_order(bits: &mut Bits<'_>, order_type: u32) -> Option<()> {
    match order_type {
        0 => {
            bits.ue().filter(|extra| *extra <= 12)?;
        }
        1 => {
            bits.flag()?;
            bits.se()?;
            bits.se()?;
            for _ in 0..bits.ue().filter(|count| *count <= 255)? {
                bits.se()?;
            }
        }
        2 => {}
        _ => return None,
    }
    Some(())
}

fn skip_scaling_lists(bits: &mut Bits<'_>, lists: usize) -> Option<()> {
    for list in 0..lists {
        if bits.flag()? {
            skip_scaling_list(bits, if list < 6 { 16 } else { 64 })?;
        }
    }
    Some(())
}

fn skip_scaling_list(bits: &mut Bits<'_>, size: usize) -> Option<()> {
    let mut last = 8i64;
    for _ in 0..size {
        let next = (last + i64::from(bits.se()?) + 256).rem_euclid(256);
        if next == 0 {
            break;
        }
        last = next;
    }
    Some(())
}

/// Annex E.1.2.
fn skip_hrd(bits: &mut Bits<'_>) -> Option<()> {
    let count = bits.ue().filter(|count| *count < 32)? + 1;
    bits.take(8)?;
    for _ in 0..count {
        bits.ue()?;
        bits.ue()?;
        bits.flag()?;
    }
    bits.take(20)?;
    Some(())
}

/// Annex D.1.
fn has_recovery_point(nal: &[u8]) -> bool {
    let payload = unescape(&nal[1..nal.len().min(sei::SEARCH_BYTES)]);
    sei::messages(&payload).any(|(kind, _)| kind == RECOVERY_POINT)
}

/// Takes the first byte off.
pub(super) fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    Some(*first)
}

fn byte(bits: &mut Bits<'_>) -> Option<u8> {
    bits.take(8).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// High profile, 320x180 interlaced, 12:11 pixels, BT.709 full range, 30000/1001.
    const INTERLACED: &[u8] = &[
        0x67, 0x64, 0x00, 0x15, 0xac, 0xd9, 0x41, 0x43, 0x3f, 0x26, 0x04, 0xdc, 0x04, 0x04, 0x05, 0x00, 0x00,
        0x03, 0x03, 0xe9, 0x00, 0x00, 0xea, 0x60, 0x1f, 0x14, 0x29, 0x96,
    ];
    /// Constrained baseline, 318x178, odd pixels.
    const BASELINE: &[u8] = &[
        0x67, 0x42, 0xc0, 0x0d, 0xda, 0x05, 0x06, 0x7a, 0x88, 0xff, 0xc1, 0x64, 0x01, 0x65, 0xc4, 0x00, 0x00,
        0x0f, 0xa4, 0x00, 0x03, 0xa9, 0x80, 0x3c, 0x50, 0xaa, 0x80,
    ];
    const PPS: &[u8] = &[0x68, 0xfe, 0x8f, 0xcb];

    #[test]
    fn parameter_sets_of_x264() {
        let sps = Sps::parse(INTERLACED).unwrap();
        assert_eq!((sps.profile, sps.level, sps.width, sps.height), (100, 21, 320, 180));
        assert_eq!(sps.pixel_aspect, Some((12, 11)));
        assert_eq!(sps.colour, Some(Colour { primaries: 1, transfer: 1, matrix: 1, full_range: true }));
        assert_eq!(sps.frame_duration, Some((1001, 30_000)));
        assert_eq!(sps.reorder_frames, Some(2));
        let sps = Sps::parse(BASELINE).unwrap();
        assert_eq!((sps.profile, sps.width, sps.height), (66, 318, 178));
        assert_eq!(sps.pixel_aspect, Some((1424, 1431)));
        assert_eq!((sps.colour, sps.reorder_frames), (None, Some(0)));
        assert_eq!(pps_ids(PPS), Some((0, 0)));
    }

    #[test]
    fn where_decoding_can_start() {
        // first_mb 0, slice type 7 (I) or 5 (P).
        let (intra, predicted, idr) = ([0x41, 0x88, 0x80], [0x41, 0x98, 0x80], [0x65, 0x88, 0x80]);
        let recovery = [6, 5, 1, 9, 6, 1, 0xc0, 0x80];
        assert!(is_random_access([&idr[..]].into_iter()));
        assert!(is_random_access([&intra[..], &intra[..]].into_iter()));
        assert!(!is_random_access([&intra[..], &predicted[..]].into_iter()));
        assert!(is_random_access([&recovery[..], &predicted[..]].into_iter()));
        assert!(!is_random_access([&recovery[..4], &predicted[..]].into_iter()));
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..28, value: u8, cut in 0usize..28) {
            let mut damaged = INTERLACED.to_vec();
            damaged[at] = value;
            damaged.truncate(cut);
            if let Some(sps) = Sps::parse(&damaged) {
                let slice = SliceStart::parse(&damaged);
                let _ = slice.and_then(|slice| slice.frame_and_field(&damaged, &sps));
            }
            let _ = is_random_access([&damaged[..]].into_iter());
        }
    }
}
