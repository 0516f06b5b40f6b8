//! The parameter sets of a video stream, and how they say that its pictures are coded (ITU-T H.264
//! section 7.4.1.2.1, H.265 section 7.4.2.4.2).

use crate::codec::{h264, hevc};
use crate::{Colour, Hdr, Video, limits};

/// Sets that are in force, and those that the latest picture brought.
#[derive(Clone, Debug)]
pub(crate) struct SetsInForce {
    hevc: bool,
    sets: ParameterSets,
    /// Those within the unfinished access unit.
    of_unit: ParameterSets,
    latest: Option<Described>,
}

/// What parameter sets state.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    /// Body of `avcC` or `hvcC`.
    pub(crate) config: Vec<u8>,
    /// Seconds per frame as a fraction.
    pub(crate) frame_duration: Option<(u32, u32)>,
    size: (u32, u32),
    pixel_aspect: Option<(u32, u32)>,
    colour: Option<Colour>,
    /// Profile, level, chroma format and bit depths.
    format: Vec<u8>,
    /// Metadata of high dynamic range, which no parameter set has.
    pub(crate) hdr: Hdr,
}

/// Parameter sets; one per id.
#[derive(Clone, Debug, Default)]
struct ParameterSets {
    vps: Vec<Vec<u8>>,
    sps: Vec<Vec<u8>>,
    pps: Vec<Vec<u8>>,
}

impl SetsInForce {
    /// For HEVC or H.264.
    pub(crate) fn new(hevc: bool) -> Self {
        let (sets, of_unit) = (ParameterSets::default(), ParameterSets::default());
        Self { hevc, sets, of_unit, latest: None }
    }

    /// Takes a NAL unit if it is a parameter set.
    pub(crate) fn take(&mut self, unit: &[u8]) {
        for sets in [&mut self.sets, &mut self.of_unit] {
            if self.hevc { sets.take_hevc(unit) } else { sets.take_h264(unit) }
        }
    }

    /// How a key frame and the pictures after it are coded; `pps` is the picture parameter set of
    /// its first slice. Where that changes, older sets are forgotten.
    pub(crate) fn describe(&mut self, pps: Option<u32>) -> Option<Described> {
        if let Some(pps) = pps {
            self.sets.activate(self.hevc, pps);
        }
        let mut described = self.sets.describe(self.hevc)?;
        let same = self.latest.as_ref().is_none_or(|latest| described.is_like(latest));
        if !same && !self.of_unit.sps.is_empty() && !self.of_unit.pps.is_empty() {
            let older = std::mem::replace(&mut self.sets, self.of_unit.clone());
            if self.sets.vps.is_empty() {
                self.sets.vps = older.vps;
            }
            if let Some(pps) = pps {
                self.sets.activate(self.hevc, pps);
            }
            described = self.sets.describe(self.hevc)?;
        }
        self.latest = Some(described.clone());
        Some(described)
    }

    /// The access unit has ended.
    pub(crate) fn end_unit(&mut self) {
        self.of_unit = ParameterSets::default();
    }
}

impl Described {
    /// The picture that the container describes as `stated`, where `before` has changed to this.
    /// What the parameter sets leave as it was stays as the container states it.
    pub(crate) fn video_after(&self, before: Option<&Self>, stated: &Video) -> Video {
        let same = |is_same: fn(&Self, &Self) -> bool| before.is_some_and(|before| is_same(self, before));
        let (width, height) =
            if same(|a, b| a.size == b.size) { (stated.width, stated.height) } else { self.size };
        let pixel_aspect = match self.pixel_aspect {
            _ if same(|a, b| a.pixel_aspect == b.pixel_aspect) => stated.pixel_aspect,
            Some(own) => own,
            None if before.is_none() => stated.pixel_aspect,
            None => (1, 1),
        };
        let is_colour_stated = same(|a, b| a.colour == b.colour) || before.is_none();
        let colour = if is_colour_stated { stated.colour.or(self.colour) } else { self.colour };
        Video { width, height, pixel_aspect, colour, ..stated.clone() }
    }

    /// Whether players can show both with one decoder configuration. All parameter sets are also in
    /// the samples, so a decoder knows of the others.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.size, self.pixel_aspect, self.colour, &self.format)
            == (other.size, other.pixel_aspect, other.colour, &other.format)
    }

    /// The picture as it is described to players.
    pub(crate) fn video(&self) -> Video {
        Video {
            width: self.size.0,
            height: self.size.1,
            pixel_aspect: self.pixel_aspect.unwrap_or((1, 1)),
            rotation: 0,
            colour: self.colour,
            hdr: self.hdr,
        }
    }

    /// The picture in words.
    pub(crate) fn named(&self) -> String {
        format!("{} x {}", self.size.0, self.size.1)
    }
}

impl ParameterSets {
    fn take_h264(&mut self, unit: &[u8]) {
        match unit.first().map(|head| head & 0x1f) {
            Some(h264::unit::SPS) => {
                remember(&mut self.sps, unit, |set| h264::Sps::parse(set).map(|sps| sps.id));
            }
            Some(h264::unit::PPS) => {
                remember(&mut self.pps, unit, |set| h264::pps_ids(set).map(|(id, _)| id));
            }
            _ => {}
        }
    }

    fn take_hevc(&mut self, unit: &[u8]) {
        match hevc::kind(unit) {
            Some(hevc::unit::VPS) => {
                remember(&mut self.vps, unit, |set| set.get(2).map(|byte| u32::from(byte >> 4)));
            }
            Some(hevc::unit::SPS) => {
                remember(&mut self.sps, unit, |set| hevc::Sps::parse(set).map(|sps| sps.id));
            }
            Some(hevc::unit::PPS) => {
                remember(&mut self.pps, unit, |set| hevc::pps_ids(set).map(|(id, _)| id));
            }
            _ => {}
        }
    }

    /// Puts the sequence parameter set first that the picture parameter set `pps` names.
    fn activate(&mut self, hevc: bool, pps: u32) {
        let ids = |set: &Vec<u8>| if hevc { hevc::pps_ids(set) } else { h264::pps_ids(set) };
        let Some((_, named)) = self.pps.iter().filter_map(ids).find(|(id, _)| *id == pps) else { return };
        let id = |set: &Vec<u8>| {
            if hevc {
                hevc::Sps::parse(set).map(|sps| sps.id)
            } else {
                h264::Sps::parse(set).map(|sps| sps.id)
            }
        };
        if let Some(place) = self.sps.iter().position(|set| id(set) == Some(named)) {
            self.sps.swap(0, place);
        }
    }

    /// The decoder configuration, if all sets are there. The first sequence parameter set counts.
    fn describe(&self, hevc: bool) -> Option<Described> {
        if self.pps.is_empty() {
            return None;
        }
        if hevc {
            let sps = hevc::Sps::parse(self.sps.first()?)?;
            let depths = [sps.chroma_format, sps.luma_bits, sps.chroma_bits];
            return Some(Described {
                config: hevc::hevc_config(&self.vps, &self.sps, &self.pps)?,
                size: (sps.width, sps.height),
                pixel_aspect: sps.pixel_aspect,
                colour: sps.colour,
                frame_duration: sps.frame_duration,
                format: [&sps.profile[..], &depths].concat(),
                hdr: Hdr::default(),
            });
        }
        let sps = h264::Sps::parse(self.sps.first()?)?;
        Some(Described {
            config: h264::avc_config(&self.sps, &self.pps)?,
            size: (sps.width, sps.height),
            pixel_aspect: sps.pixel_aspect,
            colour: sps.colour,
            frame_duration: sps.frame_duration,
            format: vec![sps.profile, sps.level, sps.chroma_format, sps.luma_bits, sps.chroma_bits],
            hdr: Hdr::default(),
        })
    }
}

/// Keeps a set, and replaces an older one with the same id.
fn remember(sets: &mut Vec<Vec<u8>>, unit: &[u8], id: impl Fn(&[u8]) -> Option<u32>) {
    if sets.iter().any(|set| set == unit) {
        return;
    }
    let Some(own) = id(unit) else { return };
    match sets.iter().position(|set| id(set) == Some(own)) {
        Some(place) => sets[place] = unit.to_vec(),
        None if sets.len() < limits::PARAMETER_SETS => sets.push(unit.to_vec()),
        None => {}
    }
}
