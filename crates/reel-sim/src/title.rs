//! Titles: what their tracks hold, where they lie, and what their viewers may be promised.

use crate::limits::{MOVING_SEGMENT_NS, SOUND_SEGMENTS_NS};
use crate::scale::{OBJECT_SCALE, ROW_BYTES};
use reel_admit::{Choices, TrackSpan};
use reel_cache::{Body, Depth, MediaKind, Part};
use reel_code::Code;
use reel_play::{
    FilePart, Form, Ladder, LadderTrack, PlainFile, Playable, PlayableTitle, PushedStream, Segment,
    file_demand,
};
use reel_qos::Demand;
use reel_testkit::Rng;
use reel_volume::{Extent, Geometry, ObjectLayout, ObjectMap, VolumeCounters};
use std::ops::Range;
use std::sync::Arc;

/// One film: pictures in some renditions, and sound.
pub struct Title {
    /// Which it is.
    pub number: usize,
    /// The same pictures, the best rendition first.
    pub pictures: Vec<Arc<Track>>,
    /// If it is no silent film.
    pub sound: Vec<Arc<Track>>,
    /// What a viewer asks for each choice of renditions, best first: to play that one or any after
    /// it.
    pub offers: Choices,
    /// The best pictures as one file.
    file: PlainFile,
    /// What a viewer of that asks for.
    file_offers: Choices,
    /// Its stream, if it is opened to be sent by the clock.
    stream: Option<PlayableTitle>,
}

/// One object of a title, in segments.
pub struct Track {
    /// Pictures or sound.
    pub kind: MediaKind,
    /// How long its segments are.
    pub segment_ns: u64,
    /// Where it lies.
    pub map: Arc<ObjectMap>,
    /// What makes its bytes.
    pub seed: u64,
    /// Where its segments begin, and its end.
    starts: Vec<u64>,
    extents: Vec<Extent>,
}

/// A track that is to be laid out.
pub(crate) struct TrackPlan {
    kind: MediaKind,
    segment_ns: u64,
    starts: Vec<u64>,
    seed: u64,
}

/// Where a track is to lie, and what reads of it are counted in.
pub(crate) struct Layout {
    pub(crate) id: u64,
    pub(crate) geometry: Geometry,
    pub(crate) extents: Vec<Extent>,
    pub(crate) sums: Arc<[u32]>,
    pub(crate) data_offset: u64,
    pub(crate) counters: Arc<VolumeCounters>,
}

/// What titles are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TitleSpec {
    /// How many there are.
    pub titles: usize,
    /// Segments of the pictures of each, at least and at most.
    pub segments: (u64, u64),
    /// Mean rates of their best renditions, at least and at most, in real bits per second.
    pub rate_bps: (u64, u64),
    /// Renditions of each, at most; each has half of the rate of the one before.
    pub renditions: u64,
    /// Of a thousand, so many have sound.
    pub sound_permille: u64,
    /// Languages of it, at most.
    pub languages: u64,
    /// Whether viewers of the same title that are close enough share the reads of one of them.
    /// Otherwise each is charged with the disks.
    pub shared: bool,
}

/// Rates of sound, at least and at most: from speech to five channels.
const SOUND_BPS: (u64, u64) = (96_000, 448_000);

/// The tracks of a title, pictures before sound.
pub(crate) fn plan(spec: &TitleSpec, rng: &mut Rng) -> Vec<TrackPlan> {
    let rate_bps = rng.range(spec.rate_bps.0, spec.rate_bps.1 + 1);
    let segments = rng.range(spec.segments.0, spec.segments.1 + 1);
    let renditions = rng.range(1, spec.renditions + 1);
    let scenes = rng.part(1);
    let picture = |rendition: u64| TrackPlan {
        kind: MediaKind::Video,
        segment_ns: MOVING_SEGMENT_NS,
        // Lively scenes are lively in all renditions.
        starts: segment_starts(rate_bps >> rendition, segments, &mut scenes.clone()),
        seed: rng.part(2 + rendition).bits(),
    };
    let mut tracks: Vec<TrackPlan> = (0..renditions).map(picture).collect();
    if rng.permille(spec.sound_permille) {
        let segment_ns = *rng.pick(&SOUND_SEGMENTS_NS);
        let rate_bps = rng.range(SOUND_BPS.0, SOUND_BPS.1);
        let segments = (segments * MOVING_SEGMENT_NS).div_ceil(segment_ns);
        let bytes = (rate_bps / 8 * segment_ns / 1_000_000_000 / OBJECT_SCALE).max(ROW_BYTES as u64);
        let starts: Vec<u64> = (0..=segments).map(|segment| segment * bytes).collect();
        let sound = |seed| TrackPlan { kind: MediaKind::Audio, segment_ns, starts: starts.clone(), seed };
        tracks.push(sound(rng.bits()));
        let languages = if spec.languages > 1 { rng.range(1, spec.languages + 1) } else { 1 };
        tracks.extend((1..languages).map(|_| sound(rng.bits())));
    }
    tracks
}

impl TrackPlan {
    /// What makes its bytes.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> u64 {
        self.starts.last().copied().unwrap_or_default()
    }

    /// The track when it lies somewhere.
    pub(crate) fn laid_out(self, name: String, layout: Layout) -> Arc<Track> {
        let Layout { id, geometry, extents, sums, data_offset, counters } = layout;
        let bytes = self.bytes();
        let map = ObjectMap::simulated(ObjectLayout {
            id,
            name,
            geometry,
            code: Code::Xor,
            bytes,
            extents: extents.clone(),
            sums,
            data_offset,
            counters,
        });
        let TrackPlan { kind, segment_ns, starts, seed } = self;
        Arc::new(Track { kind, segment_ns, map: Arc::new(map), seed, starts, extents })
    }
}

impl Title {
    /// A title of these tracks, pictures before sound; `None` if it is too long to reserve. Its
    /// viewers share their reads only if it `is_shared`.
    pub(crate) fn new(
        number: usize,
        ahead: Depth,
        is_shared: bool,
        mut tracks: Vec<Arc<Track>>,
    ) -> Option<Title> {
        let pictures = tracks.iter().take_while(|track| track.kind == MediaKind::Video).count();
        let sound = tracks.split_off(pictures);
        let ladder = Ladder {
            pictures: tracks.iter().map(|track| track.in_ladder()).collect(),
            sound: sound.iter().map(|track| track.in_ladder()).collect(),
            depth: ahead,
            sent_factor: OBJECT_SCALE,
        };
        let mut offers = ladder.choices()?;
        if !is_shared {
            offers.shared = Arc::from([]);
        }
        let best = tracks.first()?;
        let file_demand = best.file_demand(ahead)?.sent_as(OBJECT_SCALE);
        let (file, file_offers) = (best.file(), Choices::from(Arc::from([Arc::new(file_demand)])));
        Some(Title { number, pictures: tracks, sound, offers, file, file_offers, stream: None })
    }

    /// The title, opened to be sent by the clock.
    pub(crate) fn to_be_cast(&self, stream: PlayableTitle) -> Title {
        Title {
            number: self.number,
            pictures: self.pictures.clone(),
            sound: self.sound.clone(),
            offers: self.offers.clone(),
            file: self.best().file(),
            file_offers: self.file_offers.clone(),
            stream: Some(stream),
        }
    }

    /// What the program is reserved that pours it, if it is a poured stream.
    pub(crate) fn writer_choices(&self) -> Option<Choices> {
        self.stream.as_ref()?.writer_choices()
    }

    /// What is shown or heard: the pictures in one of its renditions, or the sound in one of its
    /// languages, if it has any.
    pub fn track(&self, kind: MediaKind, choice: usize) -> Option<&Arc<Track>> {
        match kind {
            MediaKind::Video => self.pictures.get(choice),
            _ => self.sound.get(choice),
        }
    }

    /// The number of such a track among all of them.
    pub fn track_number(&self, kind: MediaKind, choice: usize) -> usize {
        if kind == MediaKind::Video { choice } else { self.pictures.len() + choice }
    }

    /// All tracks, pictures before sound.
    pub fn tracks(&self) -> impl Iterator<Item = &Arc<Track>> {
        self.pictures.iter().chain(&self.sound)
    }

    /// The best pictures.
    pub fn best(&self) -> &Arc<Track> {
        &self.pictures[0]
    }
}

impl Playable for Title {
    fn choices(&self, form: Form) -> Option<Choices> {
        match form {
            Form::Ladder => Some(self.offers.clone()),
            Form::File => Some(self.file_offers.clone()),
            Form::Stream => self.stream.as_ref()?.choices(Form::Stream),
        }
    }

    fn segment(&self, track: usize, number: usize) -> Option<Segment> {
        let found = self.tracks().nth(track)?;
        let segment = number.checked_sub(1).filter(|segment| *segment < found.segments())?;
        Some(Segment {
            choice: (track < self.pictures.len()).then_some(track),
            span: found.span(segment),
            body: found.body(segment),
            track_ns: found.segment_ns * found.segments() as u64,
        })
    }

    fn file(&self) -> Option<&PlainFile> {
        Some(&self.file)
    }

    fn pushed(&self) -> Option<&PushedStream> {
        self.stream.as_ref()?.pushed()
    }
}

impl Track {
    /// Segments.
    pub fn segments(&self) -> usize {
        self.starts.len() - 1
    }

    /// The bytes of a segment.
    pub fn segment(&self, number: usize) -> Range<u64> {
        self.starts[number]..self.starts[number + 1]
    }

    /// When a segment is shown, and until when.
    pub fn span(&self, segment: usize) -> TrackSpan {
        let from_ns = segment as u64 * self.segment_ns;
        TrackSpan { kind: self.kind, from_ns, until_ns: from_ns + self.segment_ns }
    }

    /// A segment as it is sent.
    pub fn body(&self, segment: usize) -> Body {
        Body::new([Part::Object(Arc::clone(&self.map), self.segment(segment))])
    }

    /// How long it is shown.
    pub fn duration_ns(&self) -> u64 {
        self.segments() as u64 * self.segment_ns
    }

    /// The media time of a byte, between those of the segments around it.
    pub fn media_ns(&self, offset: u64) -> u64 {
        let after = self.starts.partition_point(|start| *start <= offset);
        let Some(segment) = after.checked_sub(1).filter(|segment| *segment < self.segments()) else {
            return self.duration_ns();
        };
        let Range { start, end } = self.segment(segment);
        segment as u64 * self.segment_ns + self.segment_ns * (offset - start) / (end - start).max(1)
    }

    /// The last byte that is needed to show the track up to a media time, or its end.
    pub fn offset_at(&self, media_ns: u64) -> u64 {
        // Fits: the segments of a title.
        let segment = (media_ns / self.segment_ns) as usize;
        if segment >= self.segments() {
            return self.map.bytes();
        }
        let Range { start, end } = self.segment(segment);
        start + (end - start) * (media_ns % self.segment_ns) / self.segment_ns
    }

    /// Its slots, in the order of its stripes.
    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The track as one file, with the times of the server's files: a stretch for each segment.
    fn file(&self) -> PlainFile {
        let times = (0..self.segments()).map(|number| (self.starts[number], number as u64 * self.segment_ns));
        let body = Body::new([Part::Object(Arc::clone(&self.map), 0..self.map.bytes())]);
        PlainFile { body, times: times.collect() }
    }

    /// What a viewer of that file asks for.
    fn file_demand(&self, ahead: Depth) -> Option<Demand> {
        let part = |number: usize| FilePart {
            map: &self.map,
            range: self.segment(number),
            shown_ns: number as u64 * self.segment_ns,
        };
        file_demand(self.map.geometry().members(), ahead, (0..self.segments()).map(part))
    }

    /// The track among those that viewers choose from.
    fn in_ladder(&self) -> LadderTrack<'_> {
        let segment = |number| {
            let span = self.span(number);
            (self.segment(number), span.from_ns..span.until_ns)
        };
        let segments = (0..self.segments()).map(segment).collect();
        LadderTrack { kind: self.kind, map: &self.map, segments }
    }
}

/// Segments of a variable rate: scenes of some segments each, lively ones up to twice the mean,
/// quiet ones down to a third; within a scene a segment varies by a fifth. Real streams: peak to
/// mean of 2 to 3 over seconds.
fn segment_starts(rate_bps: u64, segments: u64, rng: &mut Rng) -> Vec<u64> {
    let mean_bytes = rate_bps / 8 * (MOVING_SEGMENT_NS / 1_000_000_000) / OBJECT_SCALE;
    let mut starts = vec![0];
    let (mut at, mut scene_permille, mut left) = (0, 1000, 0);
    for _ in 0..segments {
        if left == 0 {
            scene_permille = rng.range(330, 1670) * if rng.permille(150) { 2 } else { 1 } * 870 / 1000;
            left = rng.range(2, 20);
        }
        left -= 1;
        let bytes = mean_bytes * scene_permille / 1000 * rng.range(800, 1200) / 1000;
        at += bytes.max(ROW_BYTES as u64);
        starts.push(at);
    }
    starts
}
