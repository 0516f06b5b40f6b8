//! An opened title as HTTP sees it: every file of a session, from the same stored bytes.

use super::date::http_date;
use super::offers::{Form, Offers, ask, file_times, track_ns};
use super::range::Validators;
use super::request::Request;
use super::response::{Resource, Response};
use super::route::SessionFile;
use reel_admit::Ask;
use reel_cache::{Body, Choices, Depth, Part, SessionKey};
use reel_library::{Library, LibraryError, Title};
use reel_media::progressive::{self, ObjectRef, VirtualFile};
use reel_media::{TrackIndex, TrackKind, dash, hls};
use reel_volume::ObjectMap;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

/// A title with the texts made from its index; shared by all of its sessions.
pub(crate) struct Film {
    title: Arc<Title>,
    /// Changes with the title's bytes and with the way texts are made from them.
    stamp: String,
    last_modified: String,
    /// For each choice a session may be offered.
    texts: Vec<TitleTexts>,
    file: Option<File>,
    offers: Offers,
    tracks: Vec<TrackTexts>,
}

/// The title as one file.
struct File {
    body: Body,
    times: Arc<[(u64, u64)]>,
}

#[derive(Default)]
struct TitleTexts {
    master: OnceLock<Arc<[u8]>>,
    manifest: OnceLock<Arc<[u8]>>,
}

/// Opened titles, so that all sessions of one share its texts.
pub(crate) struct Films {
    library: Arc<Library>,
    depth: Depth,
    playing: Mutex<HashMap<String, Weak<Film>>>,
}

#[derive(Default)]
struct TrackTexts {
    media: OnceLock<Option<Arc<[u8]>>>,
    iframes: OnceLock<Option<Arc<[u8]>>>,
    text_playlist: OnceLock<Option<Arc<[u8]>>>,
}

/// Bumped when the texts or headers made from an index change, so that no cache mixes old and new.
const FORMAT: u32 = 1;

/// A session's files are its client's alone, and never change while it lives.
const SESSION_CACHE: &str = "private, max-age=3600, immutable";
/// A title may be removed and come back different under its name: caches must ask.
const DOWNLOAD_CACHE: &str = "public, no-cache";

impl Films {
    /// The films of a library, of which so much is read ahead.
    pub(crate) fn new(library: Arc<Library>, depth: Depth) -> Self {
        Self { library, depth, playing: Mutex::new(HashMap::new()) }
    }

    /// Opens a title; waits for its index if nobody plays it yet.
    pub(crate) fn open(&self, id: &str) -> Result<Arc<Film>, LibraryError> {
        let title = self.library.open(id)?;
        if let Some(film) = found(&self.playing(), &title) {
            return Ok(film);
        }
        // Computed here, not on the cores: a long film takes some milliseconds. Two may do it at once; the first that is done is
        // everybody's.
        let film = Arc::new(Film::new(title, self.depth));
        let mut playing = self.playing();
        if let Some(first) = found(&playing, &film.title) {
            return Ok(first);
        }
        playing.retain(|_, film| film.strong_count() > 0);
        playing.insert(id.to_owned(), Arc::downgrade(&film));
        Ok(film)
    }

    /// A panic elsewhere leaves the map whole: it changes by single inserts.
    fn playing(&self) -> MutexGuard<'_, HashMap<String, Weak<Film>>> {
        self.playing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The film of this very opening of a title.
fn found(playing: &HashMap<String, Weak<Film>>, title: &Arc<Title>) -> Option<Arc<Film>> {
    let film = playing.get(title.id())?.upgrade()?;
    Arc::ptr_eq(&film.title, title).then_some(film)
}

impl Film {
    fn new(title: Arc<Title>, depth: Depth) -> Self {
        let tracks = title.index().tracks.iter().map(|_| TrackTexts::default()).collect();
        let index = title.index();
        let laid_out = progressive::layout(index, &progressive::default_selection(index)).ok();
        let offers = Offers::new(&title, laid_out.as_ref(), depth);
        let file = laid_out.and_then(|file| {
            Some(File { body: file_body(&title, &file)?, times: file_times(&title, &file) })
        });
        Self {
            stamp: format!("{}-{FORMAT}", title.stamp()),
            last_modified: http_date(title.record().added_unix_s),
            title,
            texts: (0..offers.choices()).map(|_| TitleTexts::default()).collect(),
            file,
            offers,
            tracks,
        }
    }

    /// The demands of a form, for a session; `None` if it cannot be promised.
    pub(crate) fn choices(&self, form: Form) -> Option<Choices> {
        self.offers.of(form).cloned()
    }

    /// Where the stretches of the plain file begin and when they are shown.
    pub(crate) fn file_times(&self) -> Option<&Arc<[(u64, u64)]>> {
        self.file.as_ref().map(|file| &file.times)
    }

    /// The title as one file.
    pub(crate) fn file_body(&self) -> Option<&Body> {
        self.file.as_ref().map(|file| &file.body)
    }

    /// The choice that a segment belongs to, the stretch of time that it is, and its length in bytes.
    pub(crate) fn segment(&self, number: usize, segment: usize) -> Option<(Option<usize>, Ask, u64)> {
        let track = self.media_track(number)?;
        let range = track.segment_range(segment)?;
        Some((self.offers.choice(number), ask(track, segment)?, range.end - range.start))
    }

    /// How long a track is shown.
    pub(crate) fn track_ns(&self, number: usize) -> u64 {
        self.media_track(number).map_or(0, track_ns)
    }

    /// The bytes of a segment.
    pub(crate) fn segment_body(&self, number: usize, segment: usize) -> Option<Body> {
        let track = self.media_track(number)?;
        self.slice(track, track.segment_range(segment)?)
    }

    /// Answers a request for a file of the session `key`, which was offered `choice`.
    pub(crate) fn respond(
        &self,
        request: &Request,
        file: SessionFile,
        key: SessionKey,
        choice: Option<usize>,
    ) -> Response {
        match self.file(file, key, choice.unwrap_or(0)) {
            Some((content_type, name, body)) => {
                self.resource(content_type, SESSION_CACHE, &name, body).respond(request)
            }
            None => Response::problem(request, 404, "this title has no such track, segment or file", ""),
        }
    }

    /// Answers a request for the whole title as one file.
    pub(crate) fn download(&self, request: &Request) -> Response {
        let Some(body) = self.progressive() else {
            return Response::problem(
                request,
                404,
                "this title has nothing that a plain MP4 file can hold",
                "",
            );
        };
        let mut resource = self.resource("video/mp4", DOWNLOAD_CACHE, "mp4", body);
        resource.download_name = Some(format!("{}.mp4", self.title.record().id));
        resource.respond(request)
    }

    fn resource(
        &self,
        content_type: &'static str,
        cache_control: &'static str,
        name: &str,
        body: Body,
    ) -> Resource {
        let etag = format!("\"{}-{name}\"", self.stamp);
        let validators = Validators { etag, last_modified: self.last_modified.clone() };
        Resource { content_type, cache_control, validators, body, download_name: None }
    }

    /// Content type, a name unique within the title, and bytes of a file; `None` if there is no such file.
    fn file(
        &self,
        file: SessionFile,
        key: SessionKey,
        choice: usize,
    ) -> Option<(&'static str, String, Body)> {
        let index = self.title.index();
        let shows = |track: usize| self.offers.shows(choice, track);
        let text = |kept: &Arc<[u8]>| Body::text(Arc::clone(kept));
        let (content_type, name, body) = match file {
            SessionFile::Master => {
                let kept = self.texts.get(choice)?.master.get_or_init(|| bytes(hls::master_of(index, shows)));
                (PLAYLIST, format!("master-{choice}"), text(kept))
            }
            SessionFile::Manifest => {
                let texts = self.texts.get(choice)?;
                let kept = texts.manifest.get_or_init(|| bytes(dash::manifest_of(index, shows)));
                ("application/dash+xml", format!("mpd-{choice}"), with_base_url(kept, key))
            }
            SessionFile::Progressive => ("video/mp4", "mp4".into(), self.progressive()?),
            SessionFile::Media(number) => {
                let kept =
                    self.tracks.get(number)?.media.get_or_init(|| hls::media(index, number).map(bytes));
                (PLAYLIST, format!("{number}-media"), text(kept.as_ref()?))
            }
            SessionFile::IFrames(number) => {
                let kept =
                    self.tracks.get(number)?.iframes.get_or_init(|| hls::iframes(index, number).map(bytes));
                (PLAYLIST, format!("{number}-iframes"), text(kept.as_ref()?))
            }
            SessionFile::TextPlaylist(number) => {
                let texts = self.tracks.get(number)?;
                let kept = texts.text_playlist.get_or_init(|| hls::text(index, number).map(bytes));
                (PLAYLIST, format!("{number}-text"), text(kept.as_ref()?))
            }
            SessionFile::Init(number) => {
                let track = self.media_track(number)?;
                (media_type(track), format!("{number}-init"), self.slice(track, track.init_range())?)
            }
            SessionFile::Segment(number, segment) => {
                let body = self.segment_body(number, segment)?;
                (media_type(self.media_track(number)?), format!("{number}-{segment}"), body)
            }
            SessionFile::Text(number) => {
                let track =
                    index.tracks.get(number).filter(|track| track.track.kind == TrackKind::Subtitle)?;
                ("text/vtt; charset=utf-8", format!("{number}-vtt"), self.slice(track, 0..track.bytes)?)
            }
        };
        Some((content_type, name, body))
    }

    fn media_track(&self, number: usize) -> Option<&TrackIndex> {
        self.title.index().tracks.get(number).filter(|track| track.track.kind != TrackKind::Subtitle)
    }

    fn slice(&self, track: &TrackIndex, range: Range<u64>) -> Option<Body> {
        Some(Body::new([stored(self.title.track_map(track.object)?, range)?]))
    }

    /// The whole title as a classic MP4: a header made from the index, media and tables as they are stored.
    fn progressive(&self) -> Option<Body> {
        Some(self.file.as_ref()?.body.clone())
    }
}

fn file_body(title: &Title, file: &VirtualFile) -> Option<Body> {
    let part = |part: &progressive::Part| match part {
        progressive::Part::Bytes(bytes, range) => Some(Part::Bytes(Arc::clone(bytes), range.clone())),
        progressive::Part::Object { object, range } => {
            let map = match object {
                ObjectRef::Tables => title.tables_map()?,
                ObjectRef::Track(number) => title.track_map(*number)?,
            };
            stored(map, range.clone())
        }
    };
    let parts: Option<Vec<Part>> = file.parts().iter().map(part).collect();
    Some(Body::new(parts?))
}

/// Bytes of a stored object, if it has them: a reader takes it for granted.
fn stored(map: &Arc<ObjectMap>, range: Range<u64>) -> Option<Part> {
    (range.start <= range.end && range.end <= map.bytes()).then(|| Part::Object(Arc::clone(map), range))
}

/// A manifest that says where it is: some players (ffmpeg 5.1 among them) resolve its relative addresses against the address
/// they asked for and not against the one they were redirected to.
fn with_base_url(manifest: &Arc<[u8]>, key: SessionKey) -> Body {
    // The element comes first inside of MPD (ISO 23009-1, 5.3.1.2), after ProgramInformation, which these manifests do not have.
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

const PLAYLIST: &str = "application/vnd.apple.mpegurl";

fn media_type(track: &TrackIndex) -> &'static str {
    match track.track.kind {
        TrackKind::Audio => "audio/mp4",
        _ => "video/mp4",
    }
}

fn bytes(text: String) -> Arc<[u8]> {
    Arc::from(text.into_bytes())
}
