//! The variants: a number gives one film, with its container, codecs, shape and oddity.

use reel_testkit::Rng;
use std::collections::HashSet;

/// How a film is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Container {
    Mp4,
    Fragmented,
    Mov,
    Mkv,
    Webm,
    Ts,
    M2ts,
}

/// How its pictures are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pictures {
    /// H.264 without B-frames.
    H264,
    /// H.264 with three B-frames in a pyramid.
    H264B,
    Hevc,
    Vp9,
    Av1,
}

/// How a sound track is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sound {
    Aac,
    /// Six channels.
    AacSurround,
    Mp3,
    Ac3,
    Eac3,
    Opus,
    Flac,
}

/// What is odd about a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Oddity {
    // What the encoder or the muxer makes.
    Nothing,
    VariableRate,
    PictureGap,
    SoundGap,
    TwoSounds,
    LateSound,
    LatePictures,
    ShortSound,
    LongSound,
    NoSound,
    SoundOnly,
    OneKeyFrame,
    OpenGop,
    IntraRefresh,
    Interlaced,
    Slices,
    HiddenPictures,
    Subtitles,
    Offset,
    OddSize,
    /// Half a picture a second.
    Slow,
    /// The film is a second of another, cut without coding it again.
    Trimmed,
    // MP4 and MOV.
    Rotated,
    FirstHeader,
    NegativeOffsets,
    CoarseTimescale,
    FragmentEachFrame,
    FragmentByTime,
    FragmentEachTrack,
    Cmaf,
    // Matroska.
    Live,
    LiveCutOff,
    ShortClusters,
    // Transport streams.
    Wrap,
    StandingCounters,
    CopiedPackets,
    LostPackets,
    CutAnywhere,
    CutOff,
    OverlappingParts,
    PartsWithGap,
    PartsFromZero,
    FullRate,
    PacketEachFrame,
    Garbage,
}

use Oddity as O;

/// What any film can have.
const OF_ALL: [Oddity; 20] = [
    O::Nothing,
    O::VariableRate,
    O::PictureGap,
    O::SoundGap,
    O::TwoSounds,
    O::LateSound,
    O::LatePictures,
    O::ShortSound,
    O::LongSound,
    O::NoSound,
    O::SoundOnly,
    O::OneKeyFrame,
    O::OpenGop,
    O::IntraRefresh,
    O::Interlaced,
    O::Slices,
    O::Offset,
    O::OddSize,
    O::Slow,
    O::Trimmed,
];

impl Container {
    pub(crate) const ALL: [Container; 7] = [
        Container::Mp4,
        Container::Fragmented,
        Container::Mov,
        Container::Mkv,
        Container::Webm,
        Container::Ts,
        Container::M2ts,
    ];

    /// The end of the file's name.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Container::Mp4 | Container::Fragmented => "mp4",
            Container::Mov => "mov",
            Container::Mkv => "mkv",
            Container::Webm => "webm",
            Container::Ts => "ts",
            Container::M2ts => "m2ts",
        }
    }

    pub(crate) fn is_transport_stream(self) -> bool {
        matches!(self, Container::Ts | Container::M2ts)
    }

    pub(crate) fn is_mp4(self) -> bool {
        matches!(self, Container::Mp4 | Container::Mov | Container::Fragmented)
    }

    fn own_oddities(self) -> &'static [Oddity] {
        match self {
            Container::Mp4 => {
                &[O::Rotated, O::FirstHeader, O::NegativeOffsets, O::CoarseTimescale, O::Subtitles]
            }
            Container::Mov => &[O::Rotated, O::Subtitles],
            Container::Fragmented => &[
                O::FragmentEachFrame,
                O::FragmentByTime,
                O::FragmentEachTrack,
                O::Cmaf,
                O::NegativeOffsets,
                O::CutOff,
            ],
            Container::Mkv => {
                &[O::Live, O::LiveCutOff, O::ShortClusters, O::Subtitles, O::CutOff, O::HiddenPictures]
            }
            Container::Webm => &[O::Live, O::LiveCutOff, O::ShortClusters, O::CutOff, O::HiddenPictures],
            Container::Ts | Container::M2ts => &[
                O::Wrap,
                O::StandingCounters,
                O::CopiedPackets,
                O::LostPackets,
                O::CutAnywhere,
                O::CutOff,
                O::OverlappingParts,
                O::PartsWithGap,
                O::PartsFromZero,
                O::FullRate,
                O::PacketEachFrame,
                O::Garbage,
            ],
        }
    }

    /// Codecs that ffmpeg writes into it and Reel takes from it.
    fn pictures(self) -> &'static [Pictures] {
        use Pictures::*;
        match self {
            Container::Mp4 | Container::Fragmented | Container::Mkv => &[H264, H264B, Hevc, Vp9, Av1],
            Container::Mov | Container::Ts | Container::M2ts => &[H264, H264B, Hevc],
            Container::Webm => &[Vp9, Av1],
        }
    }

    fn sounds(self) -> &'static [Sound] {
        use Sound::*;
        match self {
            Container::Mp4 | Container::Fragmented | Container::Mkv => {
                &[Aac, AacSurround, Mp3, Ac3, Eac3, Opus, Flac]
            }
            Container::Mov => &[Aac, AacSurround, Mp3, Ac3, Eac3],
            Container::Webm => &[Opus],
            Container::Ts => &[Aac, AacSurround, Mp3, Ac3, Eac3],
            // ffmpeg writes other sound into files of discs as data without a name.
            Container::M2ts => &[Ac3, Eac3],
        }
    }
}

/// A film of the corpus.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) number: u64,
    pub(crate) container: Container,
    pub(crate) pictures: Pictures,
    pub(crate) sound: Sound,
    pub(crate) second_sound: Sound,
    pub(crate) oddity: Oddity,
    pub(crate) size: (u32, u32),
    pub(crate) rate: &'static str,
    pub(crate) seconds: u64,
    /// Pictures between key frames.
    pub(crate) key_distance: u64,
    /// For choices of the oddity.
    pub(crate) rng: Rng,
}

/// How many variants there are: each container has each of its oddities.
pub(crate) const COUNT: u64 = 7 * 33;
/// How many of them are made by day: a fifth.
const BY_DAY: usize = COUNT.div_ceil(5) as usize;

impl Variant {
    /// The variant of a number.
    pub(crate) fn of(number: u64) -> Variant {
        let mut rng = Rng::new(number);
        let containers = Container::ALL.len() as u64;
        let container = Container::ALL[(number % containers) as usize];
        let oddities: Vec<Oddity> = container.own_oddities().iter().chain(&OF_ALL).copied().collect();
        let oddity = oddities[(number / containers) as usize % oddities.len()];
        let pictures = match oddity {
            // What only x264 makes.
            O::IntraRefresh | O::Interlaced | O::Slices if container != Container::Webm => {
                *rng.pick(&[Pictures::H264, Pictures::H264B])
            }
            O::HiddenPictures => Pictures::Vp9,
            _ => *rng.pick(container.pictures()),
        };
        let mut sound = *rng.pick(container.sounds());
        // Decoders of AC-3 add noise that depends on all frames before, of which a cut leaves
        // fewer.
        let is_exact = oddity == O::Trimmed && container != Container::M2ts;
        if is_exact && matches!(sound, Sound::Ac3 | Sound::Eac3) {
            sound = Sound::Aac;
        }
        Variant {
            number,
            container,
            pictures,
            sound,
            second_sound: *rng.pick(container.sounds()),
            oddity,
            size: *rng.pick(&[(320, 180), (160, 120), (256, 144)]),
            rate: rng.pick::<&str>(&["25", "24000/1001", "30000/1001", "50", "24", "30"]),
            seconds: rng.range(2, 6),
            key_distance: *rng.pick(&[12, 25, 50]),
            rng: rng.part(1),
        }
    }

    /// A name that says what it is.
    pub(crate) fn name(&self) -> String {
        let Variant { number, container, pictures, sound, oddity, .. } = self;
        format!("{number:03}-{container:?}-{pictures:?}-{sound:?}-{oddity:?}").to_lowercase()
    }

    /// Container, codecs and oddity.
    fn facts(&self) -> [String; 4] {
        let pictures = self.has_pictures().then_some(self.pictures);
        let sound = self.has_sound().then_some(self.sound);
        [
            format!("{:?}", self.container),
            format!("pictures {pictures:?}"),
            format!("sound {sound:?}"),
            format!("{:?}", self.oddity),
        ]
    }

    /// Whether it has pictures.
    pub(crate) fn has_pictures(&self) -> bool {
        self.oddity != O::SoundOnly
    }

    /// Whether it has sound.
    pub(crate) fn has_sound(&self) -> bool {
        self.oddity != O::NoSound
    }
}

/// A part of the variants: those with the most containers, codecs and oddities that none before
/// them has.
pub(crate) fn by_day() -> Vec<Variant> {
    let mut left: Vec<Variant> = (0..COUNT).map(Variant::of).collect();
    let mut seen = HashSet::new();
    let mut chosen = Vec::new();
    for _ in 0..BY_DAY {
        // A container or a codec counts more than an oddity.
        let new = |variant: &Variant| -> u32 {
            let weighed = variant.facts().into_iter().zip([100, 100, 100, 1]);
            weighed.filter(|(fact, _)| !seen.contains(fact)).map(|(_, weight)| weight).sum()
        };
        // The first of those with the most.
        let best = (0..left.len()).rev().max_by_key(|at| new(&left[*at])).unwrap_or_default();
        let variant = left.remove(best);
        seen.extend(variant.facts());
        chosen.push(variant);
    }
    chosen
}

#[test]
fn each_container_has_each_of_its_oddities() {
    let made: HashSet<[String; 2]> = (0..COUNT)
        .map(|number| Variant::of(number).facts())
        .map(|[container, .., oddity]| [container, oddity])
        .collect();
    for container in Container::ALL {
        for oddity in container.own_oddities().iter().chain(&OF_ALL) {
            assert!(
                made.contains(&[format!("{container:?}"), format!("{oddity:?}")]),
                "{container:?} {oddity:?}"
            );
        }
    }
}

#[test]
fn the_variants_of_the_day_have_each_container_codec_and_oddity() {
    let facts = |variants: &[Variant], kind: usize| -> HashSet<String> {
        variants.iter().map(|variant| variant.facts()[kind].clone()).collect()
    };
    let all: Vec<Variant> = (0..COUNT).map(Variant::of).collect();
    for kind in 0..4 {
        assert_eq!(facts(&by_day(), kind), facts(&all, kind));
    }
}
