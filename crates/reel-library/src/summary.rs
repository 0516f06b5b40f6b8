//! What lists and pages show of a title.

use crate::poster::PosterKind;

/// A title in short.
#[derive(Clone, Debug, PartialEq)]
pub struct TitleSummary {
    /// Its id in URLs.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When it was published, seconds since 1970.
    pub added_unix_s: u64,
    /// Bytes of all its objects, without parity.
    pub bytes: u64,
    /// Playing time in seconds.
    pub duration_s: f64,
    /// Pictures: one for each rendition, best first.
    pub video: Vec<VideoSummary>,
    /// Sound.
    pub audio: Vec<AudioSummary>,
    /// Subtitles.
    pub subtitles: Vec<SubtitleSummary>,
    /// How its poster is stored.
    pub poster: PosterKind,
    /// Why the title cannot be played, if it cannot: the fields above that come from its index are then empty.
    pub problem: Option<String>,
}

/// A video track in short.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoSummary {
    /// Track number in the index.
    pub track: u32,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// RFC 6381 codec string.
    pub codec: String,
    /// Frames per second on average.
    pub frame_rate: f64,
    /// Average bits per second.
    pub bitrate_bps: u64,
}

/// An audio track in short.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioSummary {
    /// Track number in the index.
    pub track: u32,
    /// ISO 639-2/T or BCP 47.
    pub language: Option<String>,
    /// The name the file gave it.
    pub name: Option<String>,
    /// RFC 6381 codec string.
    pub codec: String,
    /// Channels.
    pub channels: u16,
    /// Samples per second.
    pub sample_rate: u32,
    /// Marked as the one to choose first.
    pub default: bool,
}

/// A subtitle track in short.
#[derive(Clone, Debug, PartialEq)]
pub struct SubtitleSummary {
    /// Track number in the index.
    pub track: u32,
    /// ISO 639-2/T or BCP 47.
    pub language: Option<String>,
    /// The name the file gave it.
    pub name: Option<String>,
    /// To be shown even when subtitles are off.
    pub forced: bool,
}
