//! Titles.

use crate::below::Below;
use crate::rfc3339::rfc3339;
use reel_library::TitleSummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// All titles, by name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TitleList {
    /// The titles.
    pub titles: Vec<Title>,
}

/// A title.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Title {
    /// Names it in addresses.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The first file that it was made from.
    pub source: SourceFile,
    /// Its length.
    pub duration_s: f64,
    /// When it was added (RFC 3339).
    #[schemars(extend("format" = "date-time"))]
    pub added: String,
    /// The bytes that it takes of the volume.
    pub bytes: u64,
    /// The renditions of its picture.
    pub video: Vec<VideoTrack>,
    /// Its sound tracks.
    pub audio: Vec<AudioTrack>,
    /// Its subtitles.
    pub subtitles: Vec<SubtitleTrack>,
    /// Its chapters, by start.
    pub chapters: Vec<Chapter>,
    /// The forms that it is stored in.
    pub forms: Vec<StoredForm>,
    /// The address of its picture.
    pub poster: String,
    /// Where it is played: each address opens a session.
    pub watch: WatchAddresses,
    /// The address of the whole title as one file, without a reservation.
    pub download: String,
    /// What was left out of it or changed when it was added, each in a sentence; as many as are
    /// kept.
    pub warnings: Vec<String>,
    /// Present when the title cannot be played: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What of a title is to be changed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TitleChange {
    /// Its new name.
    pub name: String,
}

/// Of which file of a title the times are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileTimesQuery {
    /// The form of the file; without one, `cmaf`.
    #[serde(default)]
    pub form: FileForm,
}

/// The form of a title as one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileForm {
    /// MP4.
    #[default]
    Cmaf,
    /// The stored transport stream.
    Ts,
}

impl From<FileForm> for reel_library::Form {
    fn from(form: FileForm) -> reel_library::Form {
        match form {
            FileForm::Cmaf => reel_library::Form::Cmaf,
            FileForm::Ts => reel_library::Form::Ts,
        }
    }
}

/// When the bytes of a title as one file (`download`, `progressive`) are shown.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileTimes {
    /// The length of the file.
    pub bytes: u64,
    /// The media time of its end.
    pub duration_ns: u64,
    /// Its stretches in the order of the file. Both numbers ascend, from 0.
    pub stretches: Vec<FileStretch>,
}

/// Bytes of a title as one file, up to the next stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileStretch {
    /// Where it begins.
    pub byte: u64,
    /// The media time at which it is shown.
    pub at_ns: u64,
}

/// A title to which subtitles were added.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AddedSubtitles {
    /// The title as it is now.
    pub title: Title,
    /// What was left out or guessed, each in a sentence.
    pub warnings: Vec<String>,
}

/// A file that a title was made from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SourceFile {
    /// Its name, without directories.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// A rendition of the picture.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VideoTrack {
    /// The track's number in addresses.
    pub track: u32,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// As RFC 6381 writes it.
    pub codec: String,
    /// Pictures in a second.
    pub frame_rate: f64,
    /// The average rate.
    pub bitrate_bps: u64,
}

/// A sound track.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AudioTrack {
    /// The track's number in addresses.
    pub track: u32,
    /// As BCP 47 writes it; empty if it is not known.
    pub language: String,
    /// For people; may be empty.
    pub name: String,
    /// As RFC 6381 writes it.
    pub codec: String,
    /// How many.
    pub channels: u16,
    /// Samples in a second.
    pub sample_rate: u32,
    /// Played when no other is chosen.
    pub default: bool,
}

/// A track of subtitles.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SubtitleTrack {
    /// The track's number in addresses.
    pub track: u32,
    /// As BCP 47 writes it; empty if it is not known.
    pub language: String,
    /// For people; may be empty.
    pub name: String,
    /// Shown even if no subtitles are chosen.
    pub forced: bool,
}

/// A named place in a title, up to the next one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Chapter {
    /// Where it begins, in seconds.
    pub start_s: f64,
    /// For people; may be empty.
    pub name: String,
}

/// How a title is stored.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StoredForm {
    /// `cmaf`, which players play; or `ts`, a transport stream as it is.
    pub form: String,
    /// The bytes that it takes of the volume.
    pub bytes: u64,
    /// Bits per second of everything in it, on average.
    pub average_bps: u64,
    /// The highest rate over a second; of a transport stream only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bps: Option<u64>,
}

/// Addresses that open a session and lead to it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchAddresses {
    /// To its HLS playlist.
    pub hls: String,
    /// To its DASH manifest.
    pub dash: String,
    /// To one MP4 file, for players without HLS or DASH.
    pub progressive: String,
}

impl Title {
    /// A title as a client below a path sees it.
    pub(crate) fn seen(title: &TitleSummary, below: &Below) -> Title {
        let id = &title.id;
        Title {
            id: id.clone(),
            name: title.name.clone(),
            source: SourceFile { name: title.file_name.clone(), bytes: title.file_bytes },
            duration_s: rounded(title.duration_s),
            added: rfc3339(title.added_unix_s),
            bytes: title.bytes,
            video: title.video.iter().map(VideoTrack::from).collect(),
            audio: title.audio.iter().map(AudioTrack::from).collect(),
            subtitles: title.subtitles.iter().map(SubtitleTrack::from).collect(),
            chapters: title.chapters.iter().map(Chapter::from).collect(),
            forms: title.forms.iter().map(StoredForm::from).collect(),
            poster: below.at(&format!("/img/{id}.{}", title.poster.extension())),
            watch: WatchAddresses {
                hls: below.at(&format!("/watch/{id}/master.m3u8")),
                dash: below.at(&format!("/watch/{id}/manifest.mpd")),
                progressive: below.at(&format!("/watch/{id}/{id}.mp4")),
            },
            download: below.at(&format!("/files/{id}.mp4?download")),
            warnings: title.warnings.clone(),
            problem: title.problem.clone(),
        }
    }
}

impl From<&reel_library::FormSummary> for StoredForm {
    fn from(form: &reel_library::FormSummary) -> StoredForm {
        StoredForm {
            form: form.form.name().to_owned(),
            bytes: form.bytes,
            average_bps: form.average_bps,
            peak_bps: form.peak_bps,
        }
    }
}

impl From<&reel_library::VideoSummary> for VideoTrack {
    fn from(track: &reel_library::VideoSummary) -> VideoTrack {
        VideoTrack {
            track: track.track,
            width: track.width,
            height: track.height,
            codec: track.codec.clone(),
            frame_rate: rounded(track.frame_rate),
            bitrate_bps: track.bitrate_bps,
        }
    }
}

impl From<&reel_library::AudioSummary> for AudioTrack {
    fn from(track: &reel_library::AudioSummary) -> AudioTrack {
        AudioTrack {
            track: track.track,
            language: track.language.clone().unwrap_or_default(),
            name: track.name.clone().unwrap_or_default(),
            codec: track.codec.clone(),
            channels: track.channels,
            sample_rate: track.sample_rate,
            default: track.default,
        }
    }
}

impl From<&reel_library::SubtitleSummary> for SubtitleTrack {
    fn from(track: &reel_library::SubtitleSummary) -> SubtitleTrack {
        SubtitleTrack {
            track: track.track,
            language: track.language.clone().unwrap_or_default(),
            name: track.name.clone().unwrap_or_default(),
            forced: track.forced,
        }
    }
}

impl From<&reel_media::Chapter> for Chapter {
    fn from(chapter: &reel_media::Chapter) -> Chapter {
        Chapter { start_s: rounded(chapter.start_ns as f64 / 1e9), name: chapter.name.clone() }
    }
}

/// Three digits behind the point: milliseconds, and 23.976 of 24000/1001.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
