//! The common model of all containers: tracks, and samples in decoding order.

/// What a track carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrackKind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
    /// Text shown over the pictures; always WebVTT inside Reel.
    Subtitle,
}

/// The codecs that Reel stores and serves unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// AAC (ISO 14496-3). `config`: AudioSpecificConfig. Samples: raw access units, no ADTS.
    Aac,
    /// AC-3 (ETSI TS 102 366). `config`: body of `dac3`. Samples: sync frames.
    Ac3,
    /// AV1. `config`: body of `av1C`. Samples: temporal units without temporal delimiters.
    Av1,
    /// Enhanced AC-3. `config`: body of `dec3`. Samples: sync frames of one 1536-sample block.
    Eac3,
    /// FLAC. `config`: body of `dfLa` (version and flags, then metadata blocks). Samples: frames.
    Flac,
    /// H.264. `config`: body of `avcC`. Samples: length-prefixed NAL units.
    H264,
    /// HEVC. `config`: body of `hvcC`. Samples: length-prefixed NAL units.
    Hevc,
    /// MPEG-1/2 layer III. `config`: empty. Samples: frames.
    Mp3,
    /// Opus. `config`: body of `dOps`. Samples: packets.
    Opus,
    /// VP9. `config`: body of `vpcC` (with its version and flags). Samples: (super)frames.
    Vp9,
    /// WebVTT. `config`: empty. Samples: the cue text as UTF-8; the sample's time is the cue's.
    WebVtt,
}

/// A named place in a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chapter {
    /// Where it begins in the presentation.
    pub start_ns: u64,
    /// Its name; may be empty.
    pub name: String,
}

/// One track of a file, as its container describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// What it carries.
    pub kind: TrackKind,
    /// How it is coded.
    pub codec: Codec,
    /// Decoder configuration; its shape depends on [`Codec`].
    pub config: Vec<u8>,
    /// Ticks per second of all times of this track.
    pub timescale: u32,
    /// ISO 639-2/T or BCP 47 language, `None` if the file states none (or `und`).
    pub language: Option<String>,
    /// The name the file gives the track.
    pub name: Option<String>,
    /// Marked as the default track of its kind.
    pub default: bool,
    /// Subtitles that are shown even when subtitles are off.
    pub forced: bool,
    /// Present for [`TrackKind::Video`].
    pub video: Option<Video>,
    /// Present for [`TrackKind::Audio`].
    pub audio: Option<Audio>,
}

/// Properties of a video track.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// Coded size in pixels, as in the sample entry.
    pub width: u32,
    /// See `width`.
    pub height: u32,
    /// Pixel aspect ratio (horizontal, vertical); (1, 1) for square pixels.
    pub pixel_aspect: (u32, u32),
    /// Clockwise rotation to apply for display, degrees: 0, 90, 180 or 270.
    pub rotation: u16,
    /// Colour description (ISO 23091-2 code points), if the file states it.
    pub colour: Option<Colour>,
    /// Metadata of high dynamic range, if the file states it.
    pub hdr: Hdr,
}

/// What a display needs to know to show pictures of high dynamic range, as stated by the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hdr {
    /// Colour volume of the mastering display (SMPTE ST 2086): body of `mdcv` (ISO/IEC 14496-12,
    /// 12.1.7).
    pub mastering: Option<[u8; 24]>,
    /// MaxCLL and MaxFALL in candelas per square metre (CTA-861.3): body of `clli`.
    pub light: Option<(u16, u16)>,
    /// Dolby Vision configuration record: body of `dvcC`, `dvvC` or `dvwC` (Dolby Vision Streams
    /// Within the ISO Base Media File Format, 3.2).
    pub dolby_vision: Option<[u8; 24]>,
}

/// ISO 23091-2 colour code points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// ColourPrimaries.
    pub primaries: u16,
    /// TransferCharacteristics.
    pub transfer: u16,
    /// MatrixCoefficients.
    pub matrix: u16,
    /// VideoFullRangeFlag.
    pub full_range: bool,
}

/// Properties of an audio track.
#[derive(Clone, Debug, PartialEq)]
pub struct Audio {
    /// Channels to be played.
    pub channels: u16,
    /// Samples per second.
    pub sample_rate: u32,
    /// Bits per sample where that has a meaning (FLAC), else 16.
    pub sample_bits: u16,
    /// Ticks (of the track's timescale) of decoder warm-up at the start that must not be heard. The
    /// first sample's `pts` is at most `-priming` if the file states it by an edit list, OpusHead
    /// or similar.
    pub priming: u32,
}

/// The times and flags of one sample, in ticks of its track's timescale.
///
/// Zero is the start of the presentation: edit lists, start offsets and the like have been applied.
/// `pts` may be negative (audio warm-up). The demuxer leaves out a sample that lies wholly before
/// zero and that later samples do not need, except cues, which the packager counts and leaves out.
/// Samples come in decoding order. `dts` never decreases
/// within a track; it has no upper limit, and may be negative (B-frames).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Decoding time.
    pub dts: i64,
    /// Presentation time.
    pub pts: i64,
    /// Time until the next sample in decoding order (for subtitles: how long the cue is shown).
    pub duration: u32,
    /// Decoding can start here.
    pub sync: bool,
}

/// How the samples of a track are coded. The codec, the timescale and the warm-up
/// ([`Audio::priming`]) stay those of the [`Track`].
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Decoder configuration; its shape depends on [`Codec`].
    pub config: Vec<u8>,
    /// Present for [`TrackKind::Video`].
    pub video: Option<Video>,
    /// Present for [`TrackKind::Audio`].
    pub audio: Option<Audio>,
}

impl Track {
    /// How the samples of the track are coded.
    pub(crate) fn description(&self) -> Description {
        let Track { config, video, audio, .. } = self.clone();
        Description { config, video, audio }
    }

    /// The samples are coded like this.
    pub(crate) fn describe(&mut self, description: Description) {
        Description { config: self.config, video: self.video, audio: self.audio } = description;
    }
}

/// One sample as a demuxer returns it; its bytes are in the buffer given to the call.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Index into [`crate::Demux::tracks`].
    pub track: usize,
    /// Times and flags.
    pub sample: Sample,
    /// How the track is coded from this sample on, if that differs from the samples before. The
    /// first sample of a track has none; for pictures, it comes with a key frame only. There are at
    /// most as many in a track as an index may have ([`crate::Change`]).
    pub change: Option<Box<Description>>,
}
