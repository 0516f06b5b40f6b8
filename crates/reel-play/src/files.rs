//! The files of a session: playlists and manifests, written from the index when they are first
//! requested, and ranges of stored bytes.

use crate::playable::Playable;
use crate::title::PlayableTitle;
use reel_cache::{Body, Part, SessionKey};
use reel_media::{TrackIndex, TrackKind, dash, hls};
use std::sync::{Arc, OnceLock};

/// The files of a session; tracks are numbered as in the title's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFile {
    /// The master playlist of HLS.
    Master,
    /// The manifest of DASH.
    Manifest,
    /// The title as one MP4 file.
    Progressive,
    /// The media playlist of a track.
    Media(usize),
    /// The I-frame playlist of a track.
    IFrames(usize),
    /// The initialisation segment of a track.
    Init(usize),
    /// A track and a segment number, from 1.
    Segment(usize, usize),
    /// The playlist of a subtitle track.
    TextPlaylist(usize),
    /// A whole subtitle track.
    Text(usize),
}

/// One file of a session.
pub struct TitleFile {
    /// Media type (RFC 6838).
    pub content_type: &'static str,
    /// A name that is unique within the title.
    pub name: String,
    /// Its bytes.
    pub body: Body,
}

/// The texts of a title, each of them written once.
pub(crate) struct TextCache {
    /// For each choice that a session may be offered.
    titles: Vec<TitleTexts>,
    tracks: Vec<TrackTexts>,
}

#[derive(Default)]
struct TitleTexts {
    master: OnceLock<Arc<[u8]>>,
    manifest: OnceLock<Arc<[u8]>>,
}

#[derive(Default)]
struct TrackTexts {
    media: OnceLock<Option<Arc<[u8]>>>,
    iframes: OnceLock<Option<Arc<[u8]>>>,
    text_playlist: OnceLock<Option<Arc<[u8]>>>,
}

/// The media type of a playlist (RFC 8216 section 4).
pub const PLAYLIST_TYPE: &str = "application/vnd.apple.mpegurl";
/// The media type of a manifest (ISO/IEC 23009-1 annex C).
pub const MANIFEST_TYPE: &str = "application/dash+xml";

impl TextCache {
    /// For a title with so many choices and tracks.
    pub(crate) fn new(choices: usize, tracks: usize) -> Self {
        Self {
            titles: (0..choices).map(|_| TitleTexts::default()).collect(),
            tracks: (0..tracks).map(|_| TrackTexts::default()).collect(),
        }
    }
}

impl PlayableTitle {
    /// The whole title as one file; `None` if it cannot be played that way.
    pub fn whole_file(&self) -> Option<TitleFile> {
        let body = self.file()?.body.clone();
        Some(TitleFile { content_type: "video/mp4", name: "mp4".to_owned(), body })
    }

    /// A file of the session `key`, which was offered `choice`. `None` if there is no such file.
    pub fn session_file(&self, file: SessionFile, key: SessionKey, choice: usize) -> Option<TitleFile> {
        let index = self.title().index();
        let shows = |track: usize| self.shows(choice, track);
        let text = |kept: &Arc<[u8]>| Body::text(Arc::clone(kept));
        let (content_type, name, body) = match file {
            SessionFile::Master => {
                let kept =
                    self.texts.titles.get(choice)?.master.get_or_init(|| bytes(hls::master_of(index, shows)));
                (PLAYLIST_TYPE, format!("master-{choice}"), text(kept))
            }
            SessionFile::Manifest => {
                let texts = self.texts.titles.get(choice)?;
                let kept = texts.manifest.get_or_init(|| bytes(dash::manifest_of(index, shows)));
                (MANIFEST_TYPE, format!("mpd-{choice}"), with_base_url(kept, key))
            }
            SessionFile::Progressive => return self.whole_file(),
            SessionFile::Media(number) => {
                let kept =
                    self.texts.tracks.get(number)?.media.get_or_init(|| hls::media(index, number).map(bytes));
                (PLAYLIST_TYPE, format!("{number}-media"), text(kept.as_ref()?))
            }
            SessionFile::IFrames(number) => {
                let kept = self
                    .texts
                    .tracks
                    .get(number)?
                    .iframes
                    .get_or_init(|| hls::iframes(index, number).map(bytes));
                (PLAYLIST_TYPE, format!("{number}-iframes"), text(kept.as_ref()?))
            }
            SessionFile::TextPlaylist(number) => {
                let texts = self.texts.tracks.get(number)?;
                let kept = texts.text_playlist.get_or_init(|| hls::text(index, number).map(bytes));
                (PLAYLIST_TYPE, format!("{number}-text"), text(kept.as_ref()?))
            }
            SessionFile::Init(number) => {
                let track = self.media_track(number)?;
                (media_type(track), format!("{number}-init"), self.slice(track, track.init_range())?)
            }
            SessionFile::Segment(number, segment) => {
                let body = self.segment(number, segment)?.body;
                (media_type(self.media_track(number)?), format!("{number}-{segment}"), body)
            }
            SessionFile::Text(number) => {
                let track =
                    index.tracks.get(number).filter(|track| track.track.kind == TrackKind::Subtitle)?;
                ("text/vtt; charset=utf-8", format!("{number}-vtt"), self.slice(track, 0..track.bytes)?)
            }
        };
        Some(TitleFile { content_type, name, body })
    }
}

/// A manifest that contains its own address. Some players (ffmpeg 5.1 among them) resolve its
/// relative addresses against the address they requested, and not against the one they were
/// redirected to.
fn with_base_url(manifest: &Arc<[u8]>, key: SessionKey) -> Body {
    // The element comes first inside MPD (ISO 23009-1, 5.3.1.2), after ProgramInformation, which
    // these manifests do not have.
    let inside = manifest.windows(4).position(|window| window == b"<MPD").and_then(|start| {
        manifest[start..].iter().position(|&byte| byte == b'>').map(|length| start + length + 1)
    });
    let Some(inside) = inside else { return Body::text(Arc::clone(manifest)) };
    let base: Arc<[u8]> = Arc::from(format!("<BaseURL>/s/{key}/</BaseURL>").into_bytes());
    let base_bytes = base.len();
    Body::new([
        Part::Bytes(Arc::clone(manifest), 0..inside),
        Part::Bytes(base, 0..base_bytes),
        Part::Bytes(Arc::clone(manifest), inside..manifest.len()),
    ])
}

fn media_type(track: &TrackIndex) -> &'static str {
    match track.track.kind {
        TrackKind::Audio => "audio/mp4",
        _ => "video/mp4",
    }
}

fn bytes(text: String) -> Arc<[u8]> {
    Arc::from(text.into_bytes())
}
