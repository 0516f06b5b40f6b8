//! The summary of a title for lists and pages.

use crate::poster::PosterKind;
use crate::title::{Title, file_stamp, stamp};
use reel_media::transport::{StreamIndex, TICKS_PER_S};
use reel_media::{Chapter, TitleIndex, TrackKind, codec_string, progressive};
use reel_volume::{Role, STREAM_INDEX_NUMBER, STREAM_NUMBER, STREAM_SUMS_NUMBER, TitleRecord};

/// By how much the ends of pictures and sound of a merged title may differ without a word about it:
/// what ingest leaves of tracks of one film (`docs/design/unequal-tracks.md`).
const UNEQUAL_NS: u64 = 1_000_000_000;

/// The summary of a title.
#[derive(Clone, Debug, PartialEq)]
pub struct TitleSummary {
    /// Its id in URLs.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The name of the first file that it was made from.
    pub file_name: String,
    /// The bytes of that file.
    pub file_bytes: u64,
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
    /// Its chapters, by start.
    pub chapters: Vec<Chapter>,
    /// The forms that it is stored in.
    pub forms: Vec<FormSummary>,
    /// The title as one MP4 file; `None` if it cannot be played that way.
    pub plain_file: Option<PlainFileSummary>,
    /// A text for entity tags ([`Title::stamp`](crate::Title::stamp)).
    pub stamp: String,
    /// The kind of its poster.
    pub poster: PosterKind,
    /// What was left out of it or changed when it was ingested, each in a sentence; as many as are
    /// kept.
    pub warnings: Vec<String>,
    /// Why the title cannot be played; `None` if it can. The fields above that come from its index
    /// are empty then.
    pub problem: Option<String>,
}

/// A title as one MP4 file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainFileSummary {
    /// Its length.
    pub bytes: u64,
    /// A text that changes with its bytes ([`Title::file_stamp`](crate::Title::file_stamp)).
    pub stamp: String,
}

/// How a title is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Fragments of tracks, for players.
    Cmaf,
    /// A transport stream as it is.
    Ts,
}

impl Form {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Form::Cmaf => "cmaf",
            Form::Ts => "ts",
        }
    }
}

/// The summary of a form of a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormSummary {
    /// The form.
    pub form: Form,
    /// Bytes of its objects, without parity.
    pub bytes: u64,
    /// Bits per second of everything in it, on average; without the zeros and null packets that
    /// fill symbols and stripes.
    pub average_bps: u64,
    /// The highest rate over a second, where it is known.
    pub peak_bps: Option<u64>,
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
    summary.chapters = index.chapters.clone();
    let file = progressive::layout(index, &progressive::default_selection(index));
    summary.plain_file = file.ok().map(|file| {
        let bytes = file.bytes();
        PlainFileSummary { bytes, stamp: file_stamp(record, bytes) }
    });
    summary.forms.push(cmaf(index, record.bytes() - stream_bytes(record)));
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

/// The summary of a merged title. It takes no space: its bytes are those of its tracks, which are
/// its parts' own.
pub(crate) fn summarise_merged(title: &Title, poster: PosterKind) -> TitleSummary {
    let index = title.index();
    let mut summary = summarise(title.record(), index, poster);
    summary.stamp = title.stamp();
    if let Some(file) = &mut summary.plain_file {
        file.stamp = title.file_stamp(file.bytes);
    }
    summary.bytes = index.tracks.iter().map(|track| track.bytes).sum();
    summary.forms = vec![cmaf(index, summary.bytes)];
    summary.warnings.extend(unequal(index));
    summary
}

/// What a viewer of a merged title whose parts last differently should know.
fn unequal(index: &TitleIndex) -> Option<String> {
    let end_ns = |kind| index.of_kind(kind).map(|(_, track)| track.nanoseconds(track.end)).max();
    let (pictures_ns, sound_ns) = (end_ns(TrackKind::Video)?, end_ns(TrackKind::Audio)?);
    let second = |ns: u64| ns as f64 / 1e9;
    (pictures_ns.abs_diff(sound_ns) >= UNEQUAL_NS).then(|| {
        format!(
            "the pictures end at {:.1} s and the sound at {:.1} s: players in browsers may stop at the earlier end",
            second(pictures_ns),
            second(sound_ns)
        )
    })
}

impl TitleSummary {
    /// Adds the form `ts`.
    pub(crate) fn add_stream(&mut self, index: &StreamIndex, record: &TitleRecord) {
        if self.duration_s == 0.0 {
            self.duration_s = index.duration_ticks() as f64 / TICKS_PER_S as f64;
        }
        let (average_bps, peak_bps) = (index.mean_bps(), Some(index.peak_bps()));
        self.forms.push(FormSummary { form: Form::Ts, bytes: stream_bytes(record), average_bps, peak_bps });
    }
}

/// The form `cmaf` of this size.
pub(crate) fn cmaf(index: &TitleIndex, bytes: u64) -> FormSummary {
    let bits = index.tracks.iter().map(|track| track.bytes as f64 * 8.0).sum::<f64>();
    let average_bps = (bits * 1e9 / index.duration_ns.max(1) as f64) as u64;
    FormSummary { form: Form::Cmaf, bytes, average_bps, peak_bps: None }
}

/// Bytes of the form `ts`.
fn stream_bytes(record: &TitleRecord) -> u64 {
    let parts =
        [(Role::Track, STREAM_NUMBER), (Role::Index, STREAM_INDEX_NUMBER), (Role::Index, STREAM_SUMS_NUMBER)];
    parts.iter().filter_map(|(role, number)| record.object(*role, *number)).map(|object| object.bytes).sum()
}

/// The summary of a title of which only the catalogue's record is available.
pub(crate) fn unreadable(record: &TitleRecord, poster: PosterKind, problem: String) -> TitleSummary {
    TitleSummary {
        id: record.id.clone(),
        name: record.name.clone(),
        file_name: record.source.file_name.clone(),
        file_bytes: record.source.bytes,
        added_unix_s: record.added_unix_s,
        bytes: record.bytes(),
        duration_s: 0.0,
        video: Vec::new(),
        audio: Vec::new(),
        subtitles: Vec::new(),
        chapters: Vec::new(),
        forms: Vec::new(),
        plain_file: None,
        stamp: stamp(record, Role::Index),
        poster,
        warnings: Vec::new(),
        problem: Some(problem),
    }
}
