//! The files of a session: playlists and manifests, written from the index when they are first
//! requested, and ranges of stored bytes.

use crate::playable::Playable;
use crate::title::PlayableTitle;
use reel_cache::{Body, Part, SessionKey};
use reel_media::{TrackIndex, TrackKind, dash, hls};
use std::sync::Arc;

/// The files of a session; tracks are numbered as in the title's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFile {
    /// The master playlist of HLS.
    Master,
    /// The manifest of DASH.
    Manifest,
    /// The title as one MP4 file.
    Progressive,
    /// The stored transport stream as one file.
    Transport,
    /// Its playlist of HLS.
    TransportList,
    /// The media playlist of a track.
    Media(usize),
    /// The I-frame playlist of a track.
    IFrames(usize),
    /// A track and the number of one of its initialisation segments, from 1.
    Init(usize, usize),
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

/// A text of a long title that was not written yet: [`PlayableTitle::write_text`] takes longer than
/// a serving thread may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritten;

/// The media type of a transport stream (RFC 3555 section 4.2.9).
const TRANSPORT_TYPE: &str = "video/mp2t";
/// The media type of a playlist (RFC 8216 section 4).
pub const PLAYLIST_TYPE: &str = "application/vnd.apple.mpegurl";
/// The media type of a manifest (ISO/IEC 23009-1 annex C).
pub const MANIFEST_TYPE: &str = "application/dash+xml";

/// The name of the transport stream beside its playlist.
const TRANSPORT_NAME: &str = "stream.ts";

impl PlayableTitle {
    /// The whole title as one file; `None` if it cannot be played that way.
    pub fn whole_file(&self) -> Option<TitleFile> {
        let body = self.file()?.body.clone();
        let (content_type, name) =
            if self.is_stream() { (TRANSPORT_TYPE, "ts") } else { ("video/mp4", "mp4") };
        Some(TitleFile { content_type, name: name.to_owned(), body })
    }

    /// A file of the session `key`, which was offered `choice`. `None` if there is no such file.
    ///
    /// # Errors
    /// [`Unwritten`] if it is a text that [`PlayableTitle::write_text`] has to write first.
    pub fn session_file(
        &self,
        file: SessionFile,
        key: SessionKey,
        choice: usize,
    ) -> Result<Option<TitleFile>, Unwritten> {
        if let Some(slot) = self.texts.slot(file, choice) {
            let text = slot.read(|| self.compose(file, choice))?;
            return Ok(text.map(|text| text_file(file, text, key, choice)));
        }
        Ok(self.stored_file(file))
    }

    /// Writes a text, if it is one that was not written yet. A million fragments take a second. All
    /// sessions of the title share the text.
    pub fn write_text(&self, file: SessionFile, choice: usize) {
        if let Some(slot) = self.texts.slot(file, choice) {
            slot.write(|| self.compose(file, choice));
        }
    }

    /// The text of a playlist or manifest; `None` if the title has none.
    fn compose(&self, file: SessionFile, choice: usize) -> Option<String> {
        // What a program pours has no index.
        if self.is_poured() {
            return None;
        }
        let index = self.title().index();
        let shows = |track: usize| self.shows(choice, track);
        match file {
            SessionFile::TransportList => Some(self.transport()?.index.playlist(TRANSPORT_NAME)),
            _ if self.is_stream() => None,
            // Streams of several titles have none together.
            _ if index.tracks.is_empty() => None,
            SessionFile::Master => Some(hls::master_of(index, shows)),
            SessionFile::Manifest => Some(dash::manifest_of(index, shows)),
            SessionFile::Media(number) => hls::media(index, number),
            SessionFile::IFrames(number) => hls::iframes(index, number),
            SessionFile::TextPlaylist(number) => hls::text(index, number),
            _ => None,
        }
    }

    /// A file that consists of stored bytes.
    fn stored_file(&self, file: SessionFile) -> Option<TitleFile> {
        let (content_type, name, body) = match file {
            SessionFile::Progressive if !self.is_stream() => return self.whole_file(),
            SessionFile::Transport if self.is_stream() => return self.whole_file(),
            SessionFile::Init(number, init) => {
                let track = self.media_track(number)?;
                let body = self.slice(track, track.init_range(init)?)?;
                (media_type(track), format!("{number}-init-{init}"), body)
            }
            SessionFile::Segment(number, segment) => {
                let body = self.segment(number, segment)?.body;
                (media_type(self.media_track(number)?), format!("{number}-{segment}"), body)
            }
            SessionFile::Text(number) => {
                let tracks = &self.title().index().tracks;
                let track = tracks.get(number).filter(|track| track.track.kind == TrackKind::Subtitle)?;
                ("text/vtt; charset=utf-8", format!("{number}-vtt"), self.slice(track, 0..track.bytes)?)
            }
            _ => return None,
        };
        Some(TitleFile { content_type, name, body })
    }
}

fn text_file(file: SessionFile, text: &Arc<[u8]>, key: SessionKey, choice: usize) -> TitleFile {
    let name = match file {
        SessionFile::Manifest => {
            let (content_type, name) = (MANIFEST_TYPE, format!("mpd-{choice}"));
            return TitleFile { content_type, name, body: with_base_url(text, key) };
        }
        SessionFile::Media(number) => format!("{number}-media"),
        SessionFile::IFrames(number) => format!("{number}-iframes"),
        SessionFile::TextPlaylist(number) => format!("{number}-text"),
        SessionFile::TransportList => "ts-list".to_owned(),
        _ => format!("master-{choice}"),
    };
    TitleFile { content_type: PLAYLIST_TYPE, name, body: Body::text(Arc::clone(text)) }
}

/// A manifest that contains its own directory. Some players (ffmpeg 5.1 among them) resolve its
/// relative addresses against the address they requested, and not against the one they were
/// redirected to. Both are two directories below the same one.
fn with_base_url(manifest: &Arc<[u8]>, key: SessionKey) -> Body {
    // The element comes first inside MPD (ISO 23009-1, 5.3.1.2), after ProgramInformation, which
    // these manifests do not have.
    let inside = manifest.windows(4).position(|window| window == b"<MPD").and_then(|start| {
        manifest[start..].iter().position(|&byte| byte == b'>').map(|length| start + length + 1)
    });
    let Some(inside) = inside else { return Body::text(Arc::clone(manifest)) };
    let base: Arc<[u8]> = Arc::from(format!("<BaseURL>../../s/{key}/</BaseURL>").into_bytes());
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
