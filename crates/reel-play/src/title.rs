//! An opened title as front ends see it: its segments, its plain file, and what can be reserved for
//! it.

use crate::limits::{POURED_HELD_BYTES, POURED_ROUNDS};
use crate::offers::{Offers, file_times, span_of, track_ns};
use crate::playable::{Form, PlainFile, Playable, Segment};
use crate::pushed::{PushedStream, SlotPiece};
use crate::texts::TextCache;
use crate::transport;
use reel_admit::Choices;
use reel_cache::{Body, Depth, Part};
use reel_library::{Stream, Title};
use reel_media::progressive::{self, ObjectRef, VirtualFile};
use reel_media::{TrackIndex, TrackKind};
use reel_qos::Demand;
use reel_qos::limits::ROUND_NS;
use reel_volume::ObjectMap;
use std::ops::Range;
use std::sync::Arc;

/// A title with what is computed from its index once. All of its sessions share it.
pub struct PlayableTitle {
    title: Arc<Title>,
    file: Option<PlainFile>,
    offers: Offers,
    /// The rate of a poured stream in bytes per second, and what a viewer of it is reserved.
    poured: Option<(u64, Choices)>,
    stream: Option<PushedStream>,
    transport: Option<Arc<Stream>>,
    /// How far its readers read ahead, if its tracks can be read apart.
    pub(crate) depth: Option<Depth>,
    pub(crate) texts: TextCache,
}

impl Playable for PlayableTitle {
    fn choices(&self, form: Form) -> Option<Choices> {
        match form {
            Form::Ladder | Form::File => self.offers.of(form).cloned(),
            Form::Stream => self
                .poured
                .as_ref()
                .map(|(_, choices)| choices.clone())
                .or_else(|| self.stream.as_ref()?.choices.clone()),
        }
    }

    fn segment(&self, number: usize, segment: usize) -> Option<Segment> {
        let track = self.media_track(number)?;
        Some(Segment {
            choice: self.offers.choice(number),
            span: span_of(track, segment)?,
            body: self.slice(track, track.segment_range(segment)?)?,
            track_ns: track_ns(track),
        })
    }

    fn file(&self) -> Option<&PlainFile> {
        self.file.as_ref()
    }

    fn pushed(&self) -> Option<&PushedStream> {
        self.stream.as_ref()
    }
}

impl PlayableTitle {
    /// Computes what can be promised to the viewers of a title, for members whose readers read
    /// ahead by `depth`. A long title takes some milliseconds.
    pub fn new(title: Arc<Title>, depth: Depth) -> Self {
        let index = title.index();
        let laid_out = progressive::layout(index, &progressive::default_selection(index)).ok();
        let offers = Offers::new(&title, laid_out.as_ref(), depth);
        let fragments = index.tracks.iter().map(|track| track.fragments.len()).sum();
        let texts = TextCache::new(offers.choices(), index.tracks.len(), fragments);
        let file = laid_out.and_then(|file| {
            Some(PlainFile { body: file_body(&title, &file)?, times: file_times(&title, &file) })
        });
        let depth = Some(depth);
        Self { title, file, offers, poured: None, stream: None, transport: None, depth, texts }
    }

    /// The form `ts` of a title as one file, for members whose readers read ahead by `depth`.
    /// Nothing else of the title can be played with it.
    pub fn of_transport(stream: Arc<Stream>, depth: Depth) -> Self {
        let (file, offers) = transport::of_stream(&stream, depth);
        Self {
            title: Arc::clone(&stream.title),
            file: Some(file),
            offers,
            poured: None,
            stream: None,
            depth: None,
            texts: TextCache::new(1, 0, stream.index.joins.len()),
            transport: Some(stream),
        }
    }

    /// The form `ts` of a title, to be sent `passes` times in a row by the clock, with or without
    /// its parity. Nothing else of the title can be played with it.
    pub fn of_stream(stream: Arc<Stream>, passes: u64, with_parity: bool, depth: Depth) -> Self {
        Self::of_pushed(PushedStream::new(stream, passes, with_parity, depth))
    }

    /// The same, of which channels send these pieces. Those are in the order of their times, and
    /// none begins before [`PUSH_LEAD_NS`](crate::limits::PUSH_LEAD_NS).
    pub fn of_slots(stream: Arc<Stream>, pieces: &[SlotPiece], with_parity: bool, depth: Depth) -> Self {
        Self::of_pushed(PushedStream::of_slots(stream, pieces, with_parity, depth))
    }

    /// A stream of this name and rate that a program pours: a viewer needs the network and the
    /// processors for [`POURED_ROUNDS`], and memory for what it holds beyond the stream's window.
    pub fn of_poured(name: &str, bytes_per_s: u64) -> Self {
        Self {
            title: Arc::new(Title::unstored(name)),
            file: None,
            offers: Offers::none(),
            poured: Some((bytes_per_s, poured_choices(bytes_per_s, POURED_HELD_BYTES))),
            stream: None,
            transport: None,
            depth: None,
            texts: TextCache::new(1, 0, 0),
        }
    }

    fn of_pushed(pushed: PushedStream) -> Self {
        Self {
            title: Arc::clone(&pushed.stream.title),
            file: None,
            offers: Offers::none(),
            poured: None,
            stream: Some(pushed),
            transport: None,
            depth: None,
            texts: TextCache::new(1, 0, 0),
        }
    }

    /// What can be promised to viewers of this, of which nothing is played by requests.
    pub(crate) fn of_file_demand(name: &str, file: Option<Choices>) -> Self {
        Self {
            title: Arc::new(Title::unstored(name)),
            file: None,
            offers: Offers::of_file(file),
            poured: None,
            stream: None,
            transport: None,
            depth: None,
            texts: TextCache::new(1, 0, 0),
        }
    }

    /// The title in the library.
    pub fn title(&self) -> &Arc<Title> {
        &self.title
    }

    /// How long it is shown.
    pub fn duration_ns(&self) -> u64 {
        self.transport.as_ref().map_or(self.title.index().duration_ns, |stream| stream.index.duration_ns())
    }

    /// Whether its stored transport stream is played, as one file.
    pub fn is_stream(&self) -> bool {
        self.transport.is_some()
    }

    /// Whether it is a stream that a program pours at this rate.
    pub fn is_poured_at(&self, bytes_per_s: u64) -> bool {
        self.poured.as_ref().is_some_and(|(rate, _)| *rate == bytes_per_s)
    }

    /// Whether it is a stream that a program pours.
    pub fn is_poured(&self) -> bool {
        self.poured.is_some()
    }

    /// What the program is reserved that pours this stream: as much as a viewer of it, but for
    /// memory. It has the stream's window, which is set aside for it.
    pub fn writer_choices(&self) -> Option<Choices> {
        self.poured.as_ref().map(|(bytes_per_s, _)| poured_choices(*bytes_per_s, 0))
    }

    /// The transport stream that is played as one file.
    pub fn transport(&self) -> Option<&Arc<Stream>> {
        self.transport.as_ref()
    }

    /// Whether a video track is shown to a session that was offered `choice`.
    pub(crate) fn shows(&self, choice: usize, track: usize) -> bool {
        self.offers.shows(choice, track)
    }

    /// A track that is not text.
    pub(crate) fn media_track(&self, number: usize) -> Option<&TrackIndex> {
        self.title.index().tracks.get(number).filter(|track| track.track.kind != TrackKind::Subtitle)
    }

    /// Bytes of a track's object.
    pub(crate) fn slice(&self, track: &TrackIndex, range: Range<u64>) -> Option<Body> {
        Some(Body::new([stored(self.title.track_map(track.object)?, range)?]))
    }
}

fn file_body(title: &Title, file: &VirtualFile) -> Option<Body> {
    let part = |part: &progressive::Part| match part {
        progressive::Part::Bytes(bytes, range) => Some(Part::Bytes(Arc::clone(bytes), range.clone())),
        progressive::Part::Object { object, range } => {
            let map = match object {
                ObjectRef::Tables(number) => title.tables_map(*number)?,
                ObjectRef::Track(number) => title.track_map(*number)?,
            };
            stored(map, range.clone())
        }
    };
    let parts: Option<Vec<Part>> = file.parts().iter().map(part).collect();
    Some(Body::new(parts?))
}

/// Bytes of a stored object. `None` if the range is not within it, because readers rely on that.
fn stored(map: &Arc<ObjectMap>, range: Range<u64>) -> Option<Part> {
    (range.start <= range.end && range.end <= map.bytes()).then(|| Part::Object(Arc::clone(map), range))
}

/// So many bytes in each second of [`POURED_ROUNDS`], and so much memory.
fn poured_choices(bytes_per_s: u64, held_bytes: u64) -> Choices {
    let bytes = u128::from(bytes_per_s) * u128::from(ROUND_NS) / 1_000_000_000;
    let sent = vec![u64::try_from(bytes).unwrap_or(u64::MAX); POURED_ROUNDS];
    let demand = Demand::new(Vec::new(), sent, held_bytes);
    Choices::from(Arc::from([Arc::new(demand)]))
}
