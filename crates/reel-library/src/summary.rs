//! The summary of a title for lists and pages.

use crate::poster::PosterKind;
use reel_media::{TitleIndex, TrackKind, codec_string};
use reel_volume::TitleRecord;

/// The summary of a title.
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
    /// Video: one track for each rendition, best first.
    pub video: Vec<VideoSummary>,
    /// Audio tracks.
    pub audio: Vec<AudioSummary>,
    /// Subtitle tracks.
    pub subtitles: Vec<SubtitleSummary>,
    /// The kind of its poster.
    pub poster: PosterKind,
    /// Why the title cannot be played; `None` if it can. The fields above that come from its index
    /// are empty then.
    pub problem: Option<String>,
}

/// The summary of a video track.
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

/// The summary of an audio track.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioSummary {
    /// Track number in the index.
    pub track: u32,
    /// ISO 639-2/T or BCP 47.
    pub language: Option<String>,
    /// The name in the file.
    pub name: Option<String>,
    /// RFC 6381 codec string.
    pub codec: String,
    /// Channels.
    pub channels: u16,
    /// Samples per second.
    pub sample_rate: u32,
    /// Marked as the one to select by default.
    pub default: bool,
}

/// The summary of a subtitle track.
#[derive(Clone, Debug, PartialEq)]
pub struct SubtitleSummary {
    /// Track number in the index.
    pub track: u32,
    /// ISO 639-2/T or BCP 47.
    pub language: Option<String>,
    /// The name in the file.
    pub name: Option<String>,
    /// To be shown even when subtitles are off.
    pub forced: bool,
}

/// The summary of a title, from catalogue and index.
pub(crate) fn summarise(record: &TitleRecord, index: &TitleIndex, poster: PosterKind) -> TitleSummary {
    let mut summary = unreadable(record, poster, String::new());
    summary.problem = None;
    summary.duration_s = index.duration_ns as f64 / 1e9;
    for (number, track) in index.tracks.iter().enumerate() {
        let (number, description) = (number as u32, &track.track);
        let (language, name) = (description.language.clone(), description.name.clone());
        match description.kind {
            TrackKind::Video => {
                let (width, height) = track.display_size().unwrap_or_default();
                summary.video.push(VideoSummary {
                    track: number,
                    width,
                    height,
                    codec: codec_string(description),
                    frame_rate: track
                        .frame_rate
                        .map_or(0.0, |r| f64::from(r.numerator) / f64::from(r.denominator.max(1))),
                    bitrate_bps: track.average_bps,
                });
            }
            TrackKind::Audio => {
                let audio = description.audio.as_ref();
                summary.audio.push(AudioSummary {
                    track: number,
                    language,
                    name,
                    codec: codec_string(description),
                    channels: audio.map_or(0, |audio| audio.channels),
                    sample_rate: audio.map_or(0, |audio| audio.sample_rate),
                    default: description.default,
                });
            }
            TrackKind::Subtitle => {
                let forced = description.forced;
                summary.subtitles.push(SubtitleSummary { track: number, language, name, forced });
            }
        }
    }
    summary
        .video
        .sort_by_key(|v| std::cmp::Reverse((u64::from(v.width) * u64::from(v.height), v.bitrate_bps)));
    summary
}

/// The summary of a title of which only the catalogue's record is available.
pub(crate) fn unreadable(record: &TitleRecord, poster: PosterKind, problem: String) -> TitleSummary {
    TitleSummary {
        id: record.id.clone(),
        name: record.name.clone(),
        added_unix_s: record.added_unix_s,
        bytes: record.bytes(),
        duration_s: 0.0,
        video: Vec::new(),
        audio: Vec::new(),
        subtitles: Vec::new(),
        poster,
        problem: Some(problem),
    }
}
