//! Changes of decoder configuration that the samples of a video track state themselves: parameter
//! sets before a key frame (`avc3`, `hev1` and joined files), sequence headers of AV1, key frames
//! of VP9.

use super::parameter_sets::{Described, SetsInForce};
use super::warnings::Warnings;
use crate::codec::{av1, h264, hevc, nal, vp9};
use crate::{Codec, Description, Track, Video, limits, times};

/// Parameter sets that are read of one sample: as many as are kept of all kinds.
const MOST_SETS: usize = 3 * limits::PARAMETER_SETS;

/// Follows the decoder configuration of a track through its key frames.
pub(crate) struct InBand {
    coded: Coded,
    /// How the track is coded now.
    current: Description,
    /// Changes that are made.
    changes: usize,
    /// How many may be made.
    most: usize,
    /// The first of them: milliseconds, and the new size.
    named: Vec<(i64, String)>,
    /// Key frames of other configurations beyond that.
    unfollowed: u64,
}

/// How a codec states its configuration within samples.
enum Coded {
    Sets(Box<Sets>),
    Av1(Option<av1::SequenceHeader>),
    Vp9 {
        now: Option<vp9::KeyFrame>,
        /// Pictures per second.
        rate: f64,
    },
}

struct Sets {
    hevc: bool,
    /// Bytes of the length before each NAL unit.
    length_bytes: usize,
    in_force: SetsInForce,
    now: Option<Described>,
}

impl InBand {
    /// For a track of pictures; `rate` is pictures per second, and at most `most` changes are
    /// followed.
    pub(crate) fn new(track: &Track, rate: f64, most: usize) -> Option<Self> {
        let current = track.description();
        current.video.as_ref()?;
        let coded = Coded::new(track.codec, &current.config, rate)?;
        Some(Self { coded, current, changes: 0, most, named: Vec::new(), unfollowed: 0 })
    }

    /// The first key frame of the track. If it states another configuration than the head of the
    /// file, it counts.
    pub(crate) fn begin(&mut self, track: &mut Track, data: &[u8]) {
        if let Some(description) = self.coded.follow(data, &self.current, true, true) {
            self.current = description.clone();
            track.describe(description);
        }
    }

    /// The file states another configuration from the next sample on.
    pub(crate) fn restart(&mut self, codec: Codec, description: Description) {
        let rate = if let Coded::Vp9 { rate, .. } = self.coded { rate } else { 0.0 };
        if let Some(coded) = Coded::new(codec, &description.config, rate) {
            self.coded = coded;
        }
        self.current = description;
    }

    /// How the track is coded from this sample on, if the sample states something new. Decoding can
    /// start at a sample with `sync`, which is shown at `at_ms`.
    pub(crate) fn follow(&mut self, data: &[u8], sync: bool, at_ms: i64) -> Option<Box<Description>> {
        let may_change = self.changes < self.most;
        let description = self.coded.follow(data, &self.current, sync, may_change)?;
        if !may_change {
            self.unfollowed += 1;
            return None;
        }
        self.changes += 1;
        if self.named.len() < limits::TS_CHANGE_WARNINGS {
            let size = description.video.as_ref().map_or((0, 0), |video| (video.width, video.height));
            self.named.push((at_ms, format!("{} x {}", size.0, size.1)));
        }
        self.current = description.clone();
        Some(Box::new(description))
    }

    /// Warnings about the changes of track `number`.
    pub(crate) fn warn(&self, number: u64, warnings: &mut Warnings) {
        for (at_ms, to) in &self.named {
            let at = times::at(*at_ms, 1000);
            warnings.add(format!(
                "the pictures of track {number} change at {at} to {to}: a new decoder configuration begins there"
            ));
        }
        if self.changes > self.named.len() {
            let more = self.changes - self.named.len();
            warnings.add(format!("the pictures of track {number} change {more} more times"));
        }
        if self.unfollowed > 0 {
            let limit = limits::OUT_CHANGES;
            warnings.add(format!(
                "the pictures of track {number} change more than {limit} times: some players cannot follow the later ones"
            ));
        }
    }
}

impl Coded {
    fn new(codec: Codec, config: &[u8], rate: f64) -> Option<Self> {
        match codec {
            Codec::H264 => {
                let avc = h264::AvcConfig::parse(config)?;
                let sets = avc.sps.iter().chain(&avc.pps).copied();
                Some(Self::Sets(Box::new(Sets::new(false, avc.length_bytes, sets))))
            }
            Codec::Hevc => {
                let hevc = hevc::HevcConfig::parse(config)?;
                let sets = hevc.units.iter().copied().filter(|unit| hevc::is_base_layer(unit));
                Some(Self::Sets(Box::new(Sets::new(true, hevc.length_bytes, sets))))
            }
            Codec::Av1 => Some(Self::Av1(config.get(4..).and_then(av1::sequence_header))),
            Codec::Vp9 => Some(Self::Vp9 { now: None, rate }),
            _ => None,
        }
    }

    /// How the track is coded from this sample on, if that is new. It is noted if it `counts`.
    fn follow(
        &mut self,
        data: &[u8],
        current: &Description,
        sync: bool,
        counts: bool,
    ) -> Option<Description> {
        let stated = current.video.as_ref()?;
        let (config, video) = match self {
            Self::Sets(sets) => sets.follow(data, stated, sync, counts)?,
            _ if !sync => return None,
            Self::Av1(now) => {
                let header = av1::sequence_header(data)?;
                let before = if counts { now.replace(header) } else { *now };
                if before.is_none_or(|before| before == header) {
                    return None;
                }
                let video = resized(stated, (header.width, header.height));
                (av1::av1_config(data)?, Video { colour: header.colour.or(stated.colour), ..video })
            }
            Self::Vp9 { now, rate } => {
                let key = vp9::KeyFrame::parse(data)?;
                let before = if counts { now.replace(key) } else { *now };
                if before.is_none_or(|before| before == key) {
                    return None;
                }
                let video = resized(stated, (key.width, key.height));
                (key.vpcc(*rate, None, stated.colour), video)
            }
        };
        Some(Description { config, video: Some(video), audio: None })
    }
}

impl Sets {
    fn new<'a>(hevc: bool, length_bytes: usize, sets: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut in_force = SetsInForce::new(hevc);
        sets.take(MOST_SETS).for_each(|set| in_force.take(set));
        in_force.end_unit();
        let now = in_force.describe(None);
        Self { hevc, length_bytes, in_force, now }
    }

    fn follow(&mut self, data: &[u8], stated: &Video, sync: bool, counts: bool) -> Option<(Vec<u8>, Video)> {
        let mut pps = None;
        let mut sets = 0;
        for unit in nal::length_prefixed(data, self.length_bytes) {
            let Some(head) = unit.first() else { continue };
            let is_set = if self.hevc {
                let kind = hevc::kind(unit).filter(|_| hevc::is_base_layer(unit));
                if kind.is_some_and(|kind| kind <= hevc::unit::LAST_SLICE) {
                    pps = hevc::slice_pps_id(unit);
                    break;
                }
                matches!(kind, Some(hevc::unit::VPS | hevc::unit::SPS | hevc::unit::PPS))
            } else {
                let kind = head & 0x1f;
                if matches!(kind, h264::unit::SLICE | h264::unit::PARTITION_A | h264::unit::IDR) {
                    pps = h264::SliceStart::parse(unit).map(|slice| slice.pps_id);
                    break;
                }
                matches!(kind, h264::unit::SPS | h264::unit::PPS)
            };
            if is_set && sets < MOST_SETS {
                sets += 1;
                self.in_force.take(unit);
            }
        }
        let described = if sync { self.in_force.describe(pps) } else { None };
        self.in_force.end_unit();
        let described = described?;
        if self.now.as_ref().is_some_and(|now| described.is_like(now)) {
            return None;
        }
        let video = described.video_after(self.now.as_ref(), stated);
        let mut config = described.config.clone();
        // The samples keep their lengths.
        let place = if self.hevc { 21 } else { 4 };
        if let (Some(byte), Ok(bytes)) = (config.get_mut(place), u8::try_from(self.length_bytes)) {
            *byte = (*byte & !3) | bytes.saturating_sub(1);
        }
        if counts {
            self.now = Some(described);
        }
        Some((config, video))
    }
}

fn resized(stated: &Video, (width, height): (u32, u32)) -> Video {
    Video { width, height, ..stated.clone() }
}
