//! What can be promised to the viewers of a title: the demands of its renditions and of its plain
//! file.

use crate::playable::Form;
use reel_admit::limits::SEND_LEAD_NS;
use reel_admit::{Choices, Loss, Stretch, TrackSpan, demand, shared_demand};
use reel_cache::{Depth, MediaKind, SharedTrack, SharedTracks};
use reel_library::Title;
use reel_media::progressive::{self, ObjectRef, VirtualFile};
use reel_media::{Fragment, TitleIndex, TrackIndex, TrackKind};
use reel_qos::Demand;
use reel_volume::ObjectMap;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

/// The demands of a title, best choice first in each form.
pub(crate) struct Offers {
    /// Video tracks, best first. Choice `i` plays the track at index `i` or any after it.
    ranking: Vec<usize>,
    /// One for each choice, or a single one if there are no pictures. `None` if the title is too
    /// long to be promised.
    ladder: Option<Choices>,
    /// The title as one file.
    file: Option<Choices>,
}

/// The tracks that viewers of a title choose from, to find out what they can be promised.
pub struct Ladder<'a> {
    /// The renditions of the pictures, best first.
    pub pictures: Vec<LadderTrack<'a>>,
    /// The sound tracks.
    pub sound: Vec<LadderTrack<'a>>,
    /// How far readers read ahead.
    pub depth: Depth,
    /// What the network counts for each byte that is sent: 1, except in simulations whose objects
    /// are smaller than those that they stand for.
    pub sent_factor: u64,
}

/// A track of a [`Ladder`].
pub struct LadderTrack<'a> {
    /// Pictures or sound.
    pub kind: MediaKind,
    /// Its object.
    pub map: &'a Arc<ObjectMap>,
    /// Its segments in order: the bytes of the object, and the media time that they cover.
    pub segments: Vec<(Range<u64>, Range<u64>)>,
}

/// A part of a title as one file.
pub struct FilePart<'a> {
    /// Its object.
    pub map: &'a ObjectMap,
    /// The bytes of the object.
    pub range: Range<u64>,
    /// The media time of its first picture or sound.
    pub shown_ns: u64,
}

impl Offers {
    pub(crate) fn new(title: &Title, file: Option<&VirtualFile>, depth: Depth) -> Self {
        let ranking = ranking(title.index());
        let ladder = Ladder::of_title(title, &ranking, depth).and_then(|ladder| ladder.choices());
        let file = file.and_then(|file| of_file(title, file, depth));
        let file = file.map(|demand| Choices::from(Arc::from([Arc::new(demand)])));
        Self { ranking, ladder, file }
    }

    /// None: nothing of the title is played at the request of clients.
    pub(crate) fn none() -> Self {
        Self::of_file(None)
    }

    /// These for the title as one file, and no others.
    pub(crate) fn of_file(file: Option<Choices>) -> Self {
        Self { ranking: Vec::new(), ladder: None, file }
    }

    /// The demands of a form, best first; `None` if it cannot be promised.
    pub(crate) fn of(&self, form: Form) -> Option<&Choices> {
        match form {
            Form::Ladder => self.ladder.as_ref(),
            Form::File => self.file.as_ref(),
            Form::Stream => None,
        }
    }

    /// The choice that a video track belongs to.
    pub(crate) fn choice(&self, track: usize) -> Option<usize> {
        self.ranking.iter().position(|ranked| *ranked == track)
    }

    /// How many choices the playlists can be cut to.
    pub(crate) fn choices(&self) -> usize {
        self.ranking.len().max(1)
    }

    /// Whether a video track is shown to a session that was offered `choice`.
    pub(crate) fn shows(&self, choice: usize, track: usize) -> bool {
        self.choice(track).is_none_or(|place| place >= choice)
    }
}

/// The demand of a viewer that is offered all renditions of a title, on members with this depth of
/// reading ahead. `None` if the title is too long to be promised.
pub fn title_demand(title: &Title, depth: Depth, loss: Loss) -> Option<Arc<Demand>> {
    let ladder = Ladder::of_title(title, &ranking(title.index()), depth)?;
    Some(Arc::new(ladder.demands(loss)?.from(0)))
}

/// Video tracks, best first.
fn ranking(index: &TitleIndex) -> Vec<usize> {
    let mut ranking: Vec<usize> = index.of_kind(TrackKind::Video).map(|(number, _)| number).collect();
    ranking.sort_by_key(|number| {
        let track = &index.tracks[*number];
        let (width, height) = track.display_size().unwrap_or_default();
        Reverse((u64::from(width) * u64::from(height), track.average_bps))
    });
    ranking
}

/// The stretch of media time of a track that a segment (from 1) covers.
pub(crate) fn span_of(track: &TrackIndex, segment: usize) -> Option<TrackSpan> {
    let fragment = track.fragments.get(segment.checked_sub(1)?)?;
    let Range { start: from_ns, end: until_ns } = shown(track, fragment);
    Some(TrackSpan { kind: media_kind(track), from_ns, until_ns })
}

fn media_kind(track: &TrackIndex) -> MediaKind {
    match track.track.kind {
        TrackKind::Video => MediaKind::Video,
        TrackKind::Audio => MediaKind::Audio,
        TrackKind::Subtitle => MediaKind::Text,
    }
}

/// The media time that a fragment covers.
fn shown(track: &TrackIndex, fragment: &Fragment) -> Range<u64> {
    let until = fragment.time.saturating_add(fragment.duration);
    track.nanoseconds(fragment.time)..track.nanoseconds(until)
}

/// What the tracks of a ladder demand.
struct LadderDemands {
    /// Renditions, best first.
    pictures: Vec<Demand>,
    /// The most that any sound track demands.
    sound: Demand,
}

impl LadderDemands {
    /// In each round the most that the renditions from an index on demand.
    fn pictures_from(&self, first: usize) -> Demand {
        Demand::peak_of(&self.pictures.iter().skip(first).collect::<Vec<_>>())
    }

    /// The same with sound: the demand of a choice.
    fn from(&self, first: usize) -> Demand {
        Demand::sum_of(&[&self.pictures_from(first), &self.sound])
    }
}

impl<'a> Ladder<'a> {
    /// What a ladder offers, and what viewers may share of each choice: its pictures. Each viewer
    /// reads sound in its own language for itself, and so the lower renditions that it would play.
    /// Where there is nothing to choose, viewers share the sound, too. `None` if the title is too
    /// long to be promised.
    pub fn choices(&self) -> Option<Choices> {
        let demands = self.demands(Loss::AnyOne)?;
        let is_one_way = self.pictures.len() <= 1 && self.sound.len() <= 1;
        let nothing = Demand::peak_of(&[]);
        let of_choice = |choice: usize| {
            let sound = self.sound.iter().filter(|_| is_one_way);
            let tracks: Vec<_> = self.pictures.get(choice).into_iter().chain(sound).collect();
            let demand = demands.from(choice).sent_as(self.sent_factor);
            let Some(part) = self.shared_demand(&tracks) else { return (Arc::new(demand), None) };
            let demand = match is_one_way {
                true => demand.with_shared(&part, &nothing, &nothing),
                false => demand.with_shared(&part, &demands.pictures_from(choice + 1), &demands.sound),
            };
            let tracks = SharedTracks::new(tracks.into_iter().map(LadderTrack::shared).collect());
            (Arc::new(demand), Some(Arc::new(tracks)))
        };
        let choices = (0..self.pictures.len().max(1)).map(of_choice);
        let (demands, shared): (Vec<_>, Vec<_>) = choices.unzip();
        Some(Choices { demands: demands.into(), shared: shared.into() })
    }

    fn demands(&self, loss: Loss) -> Option<LadderDemands> {
        let of = |tracks: &[LadderTrack<'_>]| -> Option<Vec<Demand>> {
            tracks.iter().map(|track| demand(track.members(), self.depth, track.stretches(), loss)).collect()
        };
        let sound = of(&self.sound)?;
        let sound = Demand::peak_of(&sound.iter().collect::<Vec<_>>());
        Some(LadderDemands { pictures: of(&self.pictures)?, sound })
    }

    /// The demand of the viewer that reads these tracks for others, too. `None` without tracks.
    fn shared_demand(&self, tracks: &[&LadderTrack<'_>]) -> Option<Demand> {
        let of = |track: &&LadderTrack<'_>| shared_demand(track.members(), self.depth, track.stretches());
        let demands: Vec<Demand> = tracks.iter().map(of).collect::<Option<_>>()?;
        (!demands.is_empty()).then(|| Demand::sum_of(&demands.iter().collect::<Vec<_>>()))
    }

    fn of_title(title: &'a Title, ranking: &[usize], depth: Depth) -> Option<Self> {
        let index = title.index();
        let of = |tracks: &mut dyn Iterator<Item = &TrackIndex>| -> Option<Vec<LadderTrack<'a>>> {
            tracks.map(|track| LadderTrack::of_title(title, track)).collect()
        };
        let pictures = of(&mut ranking.iter().map(|number| &index.tracks[*number]))?;
        let sound = of(&mut index.of_kind(TrackKind::Audio).map(|(_, track)| track))?;
        Some(Self { pictures, sound, depth, sent_factor: 1 })
    }
}

impl<'a> LadderTrack<'a> {
    fn of_title(title: &'a Title, track: &TrackIndex) -> Option<Self> {
        let segment = |fragment: &Fragment| {
            let bytes = fragment.offset..fragment.offset + u64::from(fragment.bytes);
            (bytes, shown(track, fragment))
        };
        let segments = track.fragments.iter().map(segment).collect();
        Some(Self { kind: media_kind(track), map: title.track_map(track.object)?, segments })
    }

    fn members(&self) -> usize {
        self.map.geometry().members()
    }

    /// Its segments, each of which may be read while the one before it is shown.
    fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        let mut before_ns = 0;
        self.segments.iter().map(move |(range, shown)| Stretch {
            map: self.map,
            range: range.clone(),
            from_ns: std::mem::replace(&mut before_ns, shown.start),
            due_ns: shown.start.saturating_sub(SEND_LEAD_NS),
            duration_ns: shown.end - shown.start,
            with_parity: false,
        })
    }

    /// The track as several viewers share it.
    fn shared(&self) -> SharedTrack {
        SharedTrack {
            kind: self.kind,
            map: Arc::clone(self.map),
            starts: self.segments.iter().map(|(range, shown)| (shown.start, range.start)).collect(),
            track_ns: self.segments.last().map_or(0, |(_, shown)| shown.end),
            with_parity: false,
        }
    }
}

/// How long a track is shown.
pub(crate) fn track_ns(track: &TrackIndex) -> u64 {
    track.fragments.last().map_or(0, |last| shown(track, last).end)
}

/// A file is read in its own order. Every part is due when its first picture or sound is shown.
fn of_file(title: &Title, file: &VirtualFile, depth: Depth) -> Option<Demand> {
    let index = title.index();
    let members = index.tracks.first().and_then(|track| title.track_map(track.object))?.geometry().members();
    let parts = file.parts().iter().filter_map(|part| match part {
        progressive::Part::Bytes(..) => None,
        progressive::Part::Object { object: ObjectRef::Tables(number), range } => {
            Some(FilePart { map: title.tables_map(*number)?, range: range.clone(), shown_ns: 0 })
        }
        progressive::Part::Object { object: ObjectRef::Track(number), range } => {
            let shown_ns = shown_ns(index, *number, range.start);
            Some(FilePart { map: title.track_map(*number)?, range: range.clone(), shown_ns })
        }
    });
    file_demand(members, depth, parts)
}

/// The demand of a viewer that is sent these parts as one file, in their order. Any one member may
/// be lost. `None` if the file is too long to be promised.
pub fn file_demand<'a>(
    members: usize,
    depth: Depth,
    parts: impl IntoIterator<Item = FilePart<'a>>,
) -> Option<Demand> {
    let mut before_ns = 0;
    let stretches = parts.into_iter().map(|part| {
        let shown_ns = part.shown_ns.max(before_ns);
        Stretch {
            map: part.map,
            range: part.range,
            from_ns: std::mem::replace(&mut before_ns, shown_ns),
            due_ns: shown_ns.saturating_sub(SEND_LEAD_NS),
            duration_ns: 0,
            with_parity: false,
        }
    });
    demand(members, depth, stretches, Loss::AnyOne)
}

/// Where the stretches of a file begin and when they are shown, for pacing it.
pub(crate) fn file_times(title: &Title, file: &VirtualFile) -> Arc<[(u64, u64)]> {
    let (mut times, mut offset, mut last_ns) = (vec![(0, 0)], 0, 0);
    for part in file.parts() {
        if let progressive::Part::Object { object: ObjectRef::Track(number), range } = part {
            let media_ns = shown_ns(title.index(), *number, range.start);
            if media_ns > last_ns {
                last_ns = media_ns;
                times.push((offset, media_ns));
            }
        }
        offset += part.bytes();
    }
    Arc::from(times)
}

/// The media time at which the byte at `offset` of a track's object is shown, to the fragment.
fn shown_ns(index: &TitleIndex, object: u32, offset: u64) -> u64 {
    let Some(track) = index.tracks.iter().find(|track| track.object == object) else { return 0 };
    let after = track.fragments.partition_point(|fragment| fragment.offset <= offset);
    after.checked_sub(1).map_or(0, |number| track.nanoseconds(track.fragments[number].time))
}
