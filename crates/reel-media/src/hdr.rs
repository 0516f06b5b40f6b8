//! Metadata of high dynamic range: the forms in which containers and streams state it, and what
//! follows from Dolby Vision.

use crate::{Codec, Hdr, Track, Video};

/// Chromaticities of `mdcv` count in 0.00002.
const CHROMATICITY_PARTS: f64 = 50_000.0;
/// Luminances of `mdcv` count in 0.0001 candelas per square metre.
const LUMINANCE_PARTS: f64 = 10_000.0;
/// Code points of TransferCharacteristics (ISO 23091-2, 8.2).
const PQ: u16 = 16;
const HLG: u16 = 18;
/// BT.2020 with ten bits, which displays of standard range show, too.
const BT2020_10: u16 = 14;

/// The colour volume of a mastering display as fractions and candelas per square metre.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mastering {
    /// x and y of red, green, blue and the white point.
    pub(crate) points: [[f64; 2]; 4],
    /// Largest luminance.
    pub(crate) max: f64,
    /// Smallest luminance.
    pub(crate) min: f64,
}

impl Mastering {
    /// Body of `mdcv` (ISO/IEC 14496-12, 12.1.7); `None` if a value is not possible.
    pub(crate) fn mdcv(&self) -> Option<[u8; 24]> {
        let [red, green, blue, white] = self.points;
        let mut body = Vec::with_capacity(24);
        for value in [green, blue, red, white].into_iter().flatten() {
            // Not true for values that are no numbers.
            let is_possible = (0.0..=1.0).contains(&value);
            body.extend(is_possible.then(|| (value * CHROMATICITY_PARTS).round() as u16)?.to_be_bytes());
        }
        for value in [self.max, self.min] {
            let ticks = (value * LUMINANCE_PARTS).round();
            let is_possible = (0.0..=f64::from(u32::MAX)).contains(&ticks);
            body.extend(is_possible.then_some(ticks as u32)?.to_be_bytes());
        }
        (self.max > self.min).then_some(())?;
        body.try_into().ok()
    }
}

/// What players without Dolby Vision can do with a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// Nothing: its colours are coded in a way of their own.
    None,
    /// They show the base layer. The brand says how its colours are coded (Dolby Vision Streams
    /// Within the ISO Base Media File Format, version 2.4).
    Branded(&'static str),
    /// They show the base layer. What Dolby Vision adds to it is not signalled.
    Plain,
}

/// A Dolby Vision configuration record (Dolby Vision Streams Within the ISO Base Media File Format,
/// 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DolbyVision {
    pub(crate) profile: u8,
    pub(crate) level: u8,
    /// The track has an enhancement layer.
    pub(crate) enhanced: bool,
    /// The track has a base layer.
    pub(crate) base: bool,
    /// How the colours of the base layer are coded.
    pub(crate) compatibility: u8,
}

/// The record at the beginning of a box body or of Matroska's extra data, filled with zeros; `None`
/// if it is too short.
pub(crate) fn record(body: &[u8]) -> Option<[u8; 24]> {
    let mut record = [0; 24];
    let length = body.len().min(record.len());
    record[..length].copy_from_slice(&body[..length]);
    (length >= 5).then_some(record)
}

impl DolbyVision {
    fn parse(record: &[u8; 24]) -> Self {
        let word = u16::from_be_bytes([record[2], record[3]]);
        Self {
            profile: (word >> 9) as u8,
            level: (word >> 3 & 0x3f) as u8,
            enhanced: word >> 1 & 1 == 1,
            base: word & 1 == 1,
            compatibility: record[4] >> 4,
        }
    }

    /// The record of a track, if it fits the codec.
    pub(crate) fn of(codec: Codec, video: &Video) -> Option<Self> {
        let found = Self::parse(video.hdr.dolby_vision.as_ref()?);
        let fits = match codec {
            Codec::H264 => matches!(found.profile, 0 | 1 | 9),
            Codec::Hevc => matches!(found.profile, 2..=8 | 20),
            Codec::Av1 => found.profile == 10,
            _ => false,
        };
        fits.then_some(found)
    }

    /// What players without Dolby Vision can do with it. `transfer` is the code point that the
    /// stream states.
    pub(crate) fn base_layer(self, transfer: Option<u16>) -> Base {
        match (self.profile, self.compatibility) {
            (1 | 3 | 5, _) | (10 | 20, 0) => Base::None,
            (8 | 9 | 10 | 20, 1) if !self.enhanced => Base::Branded("db1p"),
            (8 | 9 | 10 | 20, 2) if !self.enhanced => Base::Branded("db2g"),
            (8 | 9 | 10 | 20, 4) if !self.enhanced && transfer == Some(BT2020_10) => Base::Branded("db4g"),
            (8 | 9 | 10 | 20, 4) if !self.enhanced => Base::Branded("db4h"),
            _ => Base::Plain,
        }
    }

    /// The type of the box around its record.
    pub(crate) fn box_type(self) -> &'static [u8; 4] {
        match self.profile {
            0..=7 => b"dvcC",
            8..=10 => b"dvvC",
            _ => b"dvwC",
        }
    }
}

/// Name of the sample entry of a codec with Dolby Vision, with parameter sets in the entry or in
/// the samples.
pub(crate) fn entry_name(codec: Codec, in_band: bool) -> &'static str {
    match (codec, in_band) {
        (Codec::H264, false) => "dva1",
        (Codec::H264, true) => "dvav",
        (Codec::Av1, _) => "dav1",
        (_, false) => "dvh1",
        (_, true) => "dvhe",
    }
}

/// Dolby Vision as it is signalled for a track: the record and what other players can show.
/// `None` if nothing is signalled.
pub(crate) fn signalled(track: &Track) -> Option<(DolbyVision, Base)> {
    let video = track.video.as_ref()?;
    let found = DolbyVision::of(track.codec, video)?;
    let base = found.base_layer(video.colour.map(|colour| colour.transfer));
    (base != Base::Plain).then_some((found, base))
}

impl Track {
    /// Whether only players with Dolby Vision can show the picture: other decoders give wrong
    /// colours.
    pub fn needs_dolby_vision(&self) -> bool {
        signalled(self).is_some_and(|(_, base)| base == Base::None)
    }
}

/// The brands of a file with this track.
pub(crate) fn brands(track: &Track) -> Vec<&'static str> {
    match signalled(track) {
        Some((_, Base::Branded(brand))) => vec!["dby1", brand],
        Some(_) => vec!["dby1"],
        None => Vec::new(),
    }
}

/// The dynamic range of the picture, as VIDEO-RANGE of HLS names it
/// (draft-pantos-hls-rfc8216bis, 4.4.6.2); `None` if nothing states it.
pub(crate) fn range(track: &Track) -> Option<&'static str> {
    let video = track.video.as_ref()?;
    let transfer = video.colour.map(|colour| colour.transfer);
    let dolby_vision = DolbyVision::of(track.codec, video);
    let compatibility = dolby_vision.map(|found| (found.base_layer(transfer), found.compatibility));
    match (compatibility, transfer) {
        (Some((Base::None, _)), _) | (_, Some(PQ)) => Some("PQ"),
        (Some((_, 4)), _) | (_, Some(HLG)) => Some("HLG"),
        // 2 is "not stated".
        (Some((_, 1 | 6)), None | Some(2)) => Some("PQ"),
        (_, Some(_)) | (Some((_, 2)), None) => Some("SDR"),
        _ => None,
    }
}

/// What the person who ingests should know about the Dolby Vision of a track.
pub(crate) fn warning(codec: Codec, video: &Video) -> Option<String> {
    let found = DolbyVision::of(codec, video);
    let Some(found) = found else {
        return video
            .hdr
            .dolby_vision
            .map(|_| "its configuration of Dolby Vision does not fit its codec and is ignored".to_owned());
    };
    let profile = found.profile;
    match found.base_layer(video.colour.map(|colour| colour.transfer)) {
        Base::None => Some(format!(
            "only players with Dolby Vision can show it: profile {profile} has no other colours"
        )),
        Base::Branded(_) => None,
        Base::Plain if found.enhanced => Some(format!(
            "it plays without Dolby Vision, as its base layer: the enhancement layer of profile {profile} is not \
             signalled"
        )),
        Base::Plain => Some(format!(
            "it plays without Dolby Vision, as its base layer: profile {profile}.{} is not known",
            found.compatibility
        )),
    }
}

/// Why a track without a base layer is not stored; `None` if it has one, or is no Dolby Vision.
pub(crate) fn no_base_layer(codec: Codec, hdr: &Hdr) -> Option<&'static str> {
    let found = DolbyVision::parse(hdr.dolby_vision.as_ref()?);
    let is_enhancement = codec != Codec::Vp9 && found.enhanced && !found.base;
    is_enhancement.then_some("it is the enhancement layer of Dolby Vision, without a picture of its own")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_and_ordered() {
        let p3 = [[0.68, 0.32], [0.265, 0.69], [0.15, 0.06], [0.3127, 0.329]];
        let display = Mastering { points: p3, max: 1000.0, min: 0.0001 };
        let body = display.mdcv().expect("possible values");
        let words: Vec<u16> = body[..16].chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect();
        assert_eq!(words, [13_250, 34_500, 7500, 3000, 34_000, 16_000, 15_635, 16_450]);
        assert_eq!(body[16..], [0, 0x98, 0x96, 0x80, 0, 0, 0, 1]);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 1.1, 1e300] {
            for point in 0..8 {
                let mut display = display;
                display.points[point / 2][point % 2] = bad;
                assert_eq!(display.mdcv(), None, "{bad}");
            }
        }
        for (max, min) in [(f64::NAN, 0.0), (1.0, f64::NAN), (-1.0, -2.0), (1e6, 0.0), (1.0, 1.0), (0.0, 0.0)]
        {
            assert_eq!(Mastering { max, min, ..display }.mdcv(), None, "{max} {min}");
        }
    }

    /// A record of version 1.0.
    fn record_of(profile: u8, level: u8, layers: u8, compatibility: u8) -> [u8; 24] {
        let word = u16::from(profile) << 9 | u16::from(level) << 3 | u16::from(layers);
        record(&[1, 0, (word >> 8) as u8, word as u8, compatibility << 4]).expect("long enough")
    }

    #[test]
    fn base_layers_of_all_profiles() {
        let of = |profile, layers, compatibility, transfer| {
            DolbyVision::parse(&record_of(profile, 6, layers, compatibility)).base_layer(transfer)
        };
        const RPU: u8 = 5;
        assert_eq!(of(5, RPU, 0, None), Base::None);
        assert_eq!(of(8, RPU, 1, Some(16)), Base::Branded("db1p"));
        assert_eq!(of(8, RPU, 2, Some(1)), Base::Branded("db2g"));
        assert_eq!(of(8, RPU, 4, Some(18)), Base::Branded("db4h"));
        assert_eq!(of(8, RPU, 4, Some(14)), Base::Branded("db4g"));
        assert_eq!(of(9, RPU, 2, None), Base::Branded("db2g"));
        assert_eq!((of(10, RPU, 0, None), of(10, RPU, 1, None)), (Base::None, Base::Branded("db1p")));
        assert_eq!(
            (of(7, 7, 6, Some(16)), of(4, 7, 2, None), of(8, RPU, 7, None)),
            (Base::Plain, Base::Plain, Base::Plain)
        );
        assert_eq!(of(8, 7, 1, None), Base::Plain, "an enhancement layer in profile 8 is none of it");
        assert_eq!((record(&[1, 0, 10, 53]), record(&[])), (None, None));
    }
}
