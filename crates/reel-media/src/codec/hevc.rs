//! HEVC (ITU-T H.265): parameter sets, `hvcC`, and where decoding can start.

use crate::Colour;
use crate::codec::bits::Bits;
use crate::codec::nal::unescape;
use crate::codec::vui::{self, reduced};

/// NAL unit types used here (table 7-1).
pub(crate) mod unit {
    /// Last type of coded slices.
    pub(crate) const LAST_SLICE: u8 = 31;
    /// Leading picture that may refer to pictures before its random access point.
    pub(crate) const RASL: std::ops::RangeInclusive<u8> = 8..=9;
    /// Pictures at which decoding can start.
    pub(crate) const RANDOM_ACCESS: std::ops::RangeInclusive<u8> = 16..=23;
    /// Video parameter set.
    pub(crate) const VPS: u8 = 32;
    /// Sequence parameter set.
    pub(crate) const SPS: u8 = 33;
    /// Picture parameter set.
    pub(crate) const PPS: u8 = 34;
    /// Access unit delimiter.
    pub(crate) const AUD: u8 = 35;
    /// Supplemental enhancement information before the picture.
    pub(crate) const PREFIX_SEI: u8 = 39;
}

/// Bytes of profile_tier_level up to and including general_level_idc, as `hvcC` repeats them.
const PROFILE_BYTES: usize = 12;

/// The contents of a sequence parameter set (section 7.3.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sps {
    /// sps_seq_parameter_set_id.
    pub(crate) id: u32,
    /// General profile, tier, compatibility, constraints and level, as in the stream.
    pub(crate) profile: [u8; PROFILE_BYTES],
    /// Number of temporal layers.
    pub(crate) layers: u8,
    /// sps_temporal_id_nesting_flag.
    pub(crate) nested: bool,
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
    /// How many pictures may precede a picture in decoding order and follow it in output order.
    pub(crate) reorder_frames: u32,
    /// Pixel shape, if stated.
    pub(crate) pixel_aspect: Option<(u32, u32)>,
    /// Colour description, if stated.
    pub(crate) colour: Option<Colour>,
    /// Seconds per picture as a fraction, if stated.
    pub(crate) frame_duration: Option<(u32, u32)>,
}

impl Sps {
    /// Reads a whole unit, header included; `None` if it is damaged.
    pub(crate) fn parse(nal: &[u8]) -> Option<Self> {
        if kind(nal)? != unit::SPS || !is_base_layer(nal) {
            return None;
        }
        let payload = unescape(&nal[2..]);
        let mut bits = Bits::new(&payload);
        bits.take(4)?;
        let sub_layers = bits.take(3)?;
        let nested = bits.flag()?;
        let profile: [u8; PROFILE_BYTES] = payload.get(1..=PROFILE_BYTES)?.try_into().ok()?;
        bits.skip(PROFILE_BYTES * 8)?;
        skip_sub_layers(&mut bits, sub_layers)?;
        let id = bits.ue().filter(|id| *id < 16)?;
        let chroma_format = bits.ue().filter(|format| *format <= 3)?;
        let separate_planes = chroma_format == 3 && bits.flag()?;
        let (coded_width, coded_height) = (bits.ue()?, bits.ue()?);
        let crop = if bits.flag()? {
            [u64::from(bits.ue()?), u64::from(bits.ue()?), u64::from(bits.ue()?), u64::from(bits.ue()?)]
        } else {
            [0; 4]
        };
        let (crop_x, crop_y) = match (chroma_format, separate_planes) {
            (1, _) => (2, 2),
            (2, _) => (2, 1),
            _ => (1, 1),
        };
        let width = u64::from(coded_width).checked_sub(crop_x * (crop[0] + crop[1]))?;
        let height = u64::from(coded_height).checked_sub(crop_y * (crop[2] + crop[3]))?;
        let luma_bits = 8 + bits.ue().filter(|extra| *extra <= 8)?;
        let chroma_bits = 8 + bits.ue().filter(|extra| *extra <= 8)?;
        let order_bits = 4 + bits.ue().filter(|extra| *extra <= 12)?;
        let each_layer = bits.flag()?;
        let mut reorder_frames = 0;
        for _ in if each_layer { 0 } else { sub_layers }..=sub_layers {
            bits.ue()?;
            reorder_frames = bits.ue().filter(|frames| *frames <= 16)?;
            bits.ue()?;
        }
        let mut sps = Self {
            id,
            profile,
            layers: u8::try_from(sub_layers + 1).ok()?,
            nested,
            chroma_format: u8::try_from(chroma_format).ok()?,
            luma_bits: u8::try_from(luma_bits).ok()?,
            chroma_bits: u8::try_from(chroma_bits).ok()?,
            width: u32::try_from(width).ok().filter(|width| *width > 0)?,
            height: u32::try_from(height).ok().filter(|height| *height > 0)?,
            reorder_frames,
            pixel_aspect: None,
            colour: None,
            frame_duration: None,
        };
        // The rest is not needed to start decoding. Damage there loses only its own fields.
        let _ = sps.read_tail(&mut bits, order_bits);
        Some(sps)
    }

    fn read_tail(&mut self, bits: &mut Bits<'_>, order_bits: u32) -> Option<()> {
        for _ in 0..6 {
            bits.ue()?;
        }
        if bits.flag()? && bits.flag()? {
            skip_scaling_lists(bits)?;
        }
        bits.take(2)?;
        if bits.flag()? {
            bits.take(8)?;
            bits.ue()?;
            bits.ue()?;
            bits.flag()?;
        }
        skip_short_term_sets(bits)?;
        if bits.flag()? {
            for _ in 0..bits.ue().filter(|count| *count <= 32)? {
                bits.take(order_bits)?;
                bits.flag()?;
            }
        }
        bits.take(2)?;
        if bits.flag()? {
            self.read_vui(bits)?;
        }
        Some(())
    }

    /// Annex E.2.1.
    fn read_vui(&mut self, bits: &mut Bits<'_>) -> Option<()> {
        let picture = vui::picture(bits)?;
        self.pixel_aspect = picture.pixel_aspect;
        self.colour = picture.colour;
        bits.take(3)?;
        if bits.flag()? {
            for _ in 0..4 {
                bits.ue()?;
            }
        }
        if bits.flag()? {
            let (units, scale) = (bits.take(32)?, bits.take(32)?);
            self.frame_duration = (units > 0 && scale > 0).then(|| reduced((units, scale)));
        }
        Some(())
    }
}

/// nal_unit_type of a unit.
pub(crate) fn kind(nal: &[u8]) -> Option<u8> {
    (nal.len() > 2).then(|| (nal[0] >> 1) & 0x3f)
}

/// Whether a unit belongs to the base layer (nuh_layer_id 0), the only supported one.
pub(crate) fn is_base_layer(nal: &[u8]) -> bool {
    nal.len() > 2 && nal[0] & 1 == 0 && nal[1] & 0xf8 == 0
}

/// The ids of a picture parameter set: its own and that of its sequence parameter set.
pub(crate) fn pps_ids(nal: &[u8]) -> Option<(u32, u32)> {
    let payload = unescape(nal.get(2..nal.len().min(16))?);
    let mut bits = Bits::new(&payload);
    Some((bits.ue()?, bits.ue()?))
}

/// slice_pic_parameter_set_id of a slice unit.
pub(crate) fn slice_pps_id(nal: &[u8]) -> Option<u32> {
    let payload = unescape(nal.get(2..nal.len().min(16))?);
    let mut bits = Bits::new(&payload);
    bits.flag()?; // first_slice_segment_in_pic_flag
    if unit::RANDOM_ACCESS.contains(&kind(nal)?) {
        bits.flag()?; // no_output_of_prior_pics_flag
    }
    bits.ue()
}

/// Whether a slice unit is the first of its picture (first_slice_segment_in_pic_flag).
pub(crate) fn starts_picture(nal: &[u8]) -> bool {
    kind(nal).is_some_and(|kind| kind <= unit::LAST_SLICE) && nal[2] & 0x80 != 0
}

/// Whether decoding can start at this access unit.
pub(crate) fn is_random_access<'a>(mut units: impl Iterator<Item = &'a [u8]>) -> bool {
    units.any(|nal| kind(nal).is_some_and(|kind| unit::RANDOM_ACCESS.contains(&kind)))
}

/// Body of `hvcC` (ISO 14496-15 section 8.3.3.1) for samples with four-byte lengths; `None` if the
/// first sequence parameter set is damaged or a set is too long.
pub(crate) fn hevc_config(vps: &[Vec<u8>], sps: &[Vec<u8>], pps: &[Vec<u8>]) -> Option<Vec<u8>> {
    let first = Sps::parse(sps.first()?)?;
    let mut body = vec![1];
    body.extend_from_slice(&first.profile);
    // States nothing about parallel decoding of slices or the frame rate.
    body.extend([0xf0, 0, 0xfc, 0xfc | first.chroma_format]);
    body.extend([0xf8 | (first.luma_bits - 8), 0xf8 | (first.chroma_bits - 8), 0, 0]);
    body.push((first.layers << 3) | (u8::from(first.nested) << 2) | 3);
    let arrays = [(unit::VPS, vps), (unit::SPS, sps), (unit::PPS, pps)];
    body.push(u8::try_from(arrays.iter().filter(|(_, sets)| !sets.is_empty()).count()).ok()?);
    for (kind, sets) in arrays.into_iter().filter(|(_, sets)| !sets.is_empty()) {
        body.push(kind);
        body.extend(u16::try_from(sets.len()).ok()?.to_be_bytes());
        for set in sets {
            body.extend(u16::try_from(set.len()).ok()?.to_be_bytes());
            body.extend_from_slice(set);
        }
    }
    Some(body)
}

/// The contents of `hvcC`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HevcConfig<'a> {
    /// Bytes of the length before each unit of a sample: 1, 2 or 4.
    pub(crate) length_bytes: usize,
    /// All units of all arrays, in order.
    pub(crate) units: Vec<&'a [u8]>,
}

impl<'a> HevcConfig<'a> {
    /// Reads the body of `hvcC`.
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        if *body.first()? != 1 {
            return None;
        }
        let length_bytes = usize::from(body.get(21)? & 3) + 1;
        let arrays = *body.get(22)?;
        let mut rest = body.get(23..)?;
        let mut units = Vec::new();
        for _ in 0..arrays {
            let (head, tail) = rest.split_at_checked(3)?;
            rest = tail;
            for _ in 0..u16::from_be_bytes([head[1], head[2]]) {
                let (length, tail) = rest.split_at_checked(2)?;
                let (set, tail) =
                    tail.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])))?;
                rest = tail;
                units.push(set);
            }
        }
        Some(Self { length_bytes, units })
    }

    /// The first readable sequence parameter set.
    pub(crate) fn sps(&self) -> Option<Sps> {
        self.units.iter().find_map(|nal| Sps::parse(nal))
    }
}

fn skip_sub_layers(bits: &mut Bits<'_>, sub_layers: u32) -> Option<()> {
    let mut present = Vec::new();
    for _ in 0..sub_layers {
        present.push((bits.flag()?, bits.flag()?));
    }
    if sub_layers > 0 {
        bits.skip(2 * (8 - sub_layers as usize))?;
    }
    for (profile, level) in present {
        bits.skip(if profile { 88 } else { 0 } + if level { 8 } else { 0 })?;
    }
    Some(())
}

/// Section 7.3.4.
fn skip_scaling_lists(bits: &mut Bits<'_>) -> Option<()> {
    for size in 0..4 {
        for _ in (0..6).step_by(if size == 3 { 3 } else { 1 }) {
            if !bits.flag()? {
                bits.ue()?;
                continue;
            }
            if size > 1 {
                bits.se()?;
            }
            for _ in 0..64.min(1 << (4 + (size << 1))) {
                bits.se()?;
            }
        }
    }
    Some(())
}

/// Section 7.3.7 for all sets of a sequence parameter set.
fn skip_short_term_sets(bits: &mut Bits<'_>) -> Option<()> {
    let sets = bits.ue().filter(|count| *count <= 64)?;
    let mut pictures = 0u32;
    for set in 0..sets {
        if set > 0 && bits.flag()? {
            bits.flag()?;
            bits.ue()?;
            let mut kept = 0;
            for _ in 0..=pictures {
                let used = bits.flag()?;
                if used || bits.flag()? {
                    kept += 1;
                }
            }
            pictures = kept;
        } else {
            let before = bits.ue().filter(|count| *count <= 16)?;
            let after = bits.ue().filter(|count| *count <= 16)?;
            for _ in 0..before + after {
                bits.ue()?;
                bits.flag()?;
            }
            pictures = before + after;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VPS: &[u8] = &[
        0x40, 0x01, 0x0c, 0x01, 0xff, 0xff, 0x02, 0x20, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00,
        0x00, 0x03, 0x00, 0x3c, 0x95, 0x98, 0x09,
    ];
    /// Main 10, 322x182, 12:11 pixels, BT.2020 with PQ, 24000/1001.
    const SPS: &[u8] = &[
        0x42, 0x01, 0x01, 0x02, 0x20, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
        0x3c, 0xa0, 0x0a, 0x48, 0x0b, 0x9c, 0x94, 0xd9, 0x65, 0x66, 0x92, 0x4c, 0xaf, 0x02, 0x6a, 0x12, 0x20,
        0x12, 0x08, 0x00, 0x00, 0x1f, 0x48, 0x00, 0x02, 0xee, 0x00, 0x40,
    ];
    const PPS: &[u8] = &[0x44, 0x01, 0xc1, 0x72, 0xb4, 0x62, 0x40];

    #[test]
    fn parameter_sets_of_x265() {
        let sps = Sps::parse(SPS).unwrap();
        assert_eq!((sps.width, sps.height, sps.luma_bits, sps.chroma_bits), (322, 182, 10, 10));
        assert_eq!((sps.layers, sps.nested, sps.reorder_frames, sps.chroma_format), (1, true, 2, 1));
        assert_eq!(sps.pixel_aspect, Some((12, 11)));
        assert_eq!(sps.colour, Some(Colour { primaries: 9, transfer: 16, matrix: 9, full_range: false }));
        assert_eq!(sps.frame_duration, Some((1001, 24_000)));
        assert_eq!(pps_ids(PPS), Some((0, 0)));
    }

    #[test]
    fn a_configuration_as_ffmpeg_writes_it() {
        let body = hevc_config(&[VPS.to_vec()], &[SPS.to_vec()], &[PPS.to_vec()]).unwrap();
        let head = [
            1, 2, 0x20, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 0x3c, 0xf0, 0, 0xfc, 0xfd, 0xfa, 0xfa, 0, 0, 0x0f, 3,
            0x20, 0, 1, 0, 24,
        ];
        assert_eq!(body[..head.len()], head);
        let read = HevcConfig::parse(&body).unwrap();
        assert_eq!((read.length_bytes, &read.units[..]), (4, &[VPS, SPS, PPS][..]));
        assert_eq!(read.sps().unwrap().width, 322);
        assert_eq!(HevcConfig::parse(&body[..40]), None);
    }

    #[test]
    fn where_decoding_can_start() {
        let (idr, predicted, rasl) = ([0x26, 1, 0x80], [2, 1, 0x80], [0x10, 1, 0x80]);
        assert!(
            is_random_access([&idr[..]].into_iter())
                && !is_random_access([&predicted[..], &rasl[..]].into_iter())
        );
        assert!(starts_picture(&predicted) && !starts_picture(&[2, 1, 0]) && !starts_picture(PPS));
        assert!(unit::RASL.contains(&kind(&rasl).unwrap()));
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..45, value: u8, cut in 0usize..46) {
            let mut damaged = SPS.to_vec();
            damaged[at] = value;
            damaged.truncate(cut);
            let _ = (Sps::parse(&damaged), hevc_config(&[], &[damaged.clone()], &[]), pps_ids(&damaged), slice_pps_id(&damaged));
            let mut body = hevc_config(&[VPS.to_vec()], &[SPS.to_vec()], &[PPS.to_vec()]).unwrap();
            body[at] = value;
            let _ = HevcConfig::parse(&body).and_then(|config| config.sps());
        }
    }
}
