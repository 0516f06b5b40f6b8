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

impl Offers {
    pub(crate) fn new(title: &Title, file: Option<&VirtualFile>, depth: Depth) -> Self {
        let ranking = ranking(title.index());
        let ladder = Ladder::new(title, &ranking, depth, Loss::AnyOne);
        let ladder = ladder.map(|ladder| choices(title, &ranking, &ladder, depth));
        let file = file.and_then(|file| of_file(title, file, depth));
        let file = file.map(|demand| Choices::from(Arc::from([Arc::new(demand)])));
        Self { ranking, ladder, file }
    }

    /// The demands of a form, best first; `None` if it cannot be promised.
    pub(crate) fn of(&self, form: Form) -> Option<&Choices> {
        match form {
            Form::Ladder => self.ladder.as_ref(),
            Form::File => self.file.as_ref(),
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
    Some(Arc::new(Ladder::new(title, &ranking(title.index()), depth, loss)?.from(0)))
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
    let kind = match track.track.kind {
        TrackKind::Video => MediaKind::Video,
        TrackKind::Audio => MediaKind::Audio,
        TrackKind::Subtitle => MediaKind::Text,
    };
    let until = fragment.time.saturating_add(fragment.duration);
    Some(TrackSpan { kind, from_ns: track.nanoseconds(fragment.time), until_ns: track.nanoseconds(until) })
}

/// What the tracks of a title demand.
struct Ladder {
    /// Video tracks, best first.
    pictures: Vec<Demand>,
    /// The most that any sound track demands.
    sound: Demand,
}

impl Ladder {
    fn new(title: &Title, ranking: &[usize], depth: Depth, loss: Loss) -> Option<Self> {
        let index = title.index();
        let of = |numbers: &mut dyn Iterator<Item = usize>| -> Option<Vec<Demand>> {
            numbers.map(|number| of_track(title, &index.tracks[number], depth, loss)).collect()
        };
        let sound = of(&mut index.of_kind(TrackKind::Audio).map(|(number, _)| number))?;
        let sound = Demand::peak_of(&sound.iter().collect::<Vec<_>>());
        Some(Self { pictures: of(&mut ranking.iter().copied())?, sound })
    }

    /// In each round the most that the video tracks from an index on demand.
    fn pictures_from(&self, first: usize) -> Demand {
        Demand::peak_of(&self.pictures.iter().skip(first).collect::<Vec<_>>())
    }

    /// The same with sound: the demand of a choice.
    fn from(&self, first: usize) -> Demand {
        Demand::sum_of(&[&self.pictures_from(first), &self.sound])
    }
}

/// What a ladder offers, and what viewers may share of each choice: its pictures. Each viewer reads
/// sound in its own language for itself, and so the lower renditions that it would play. Where
/// there is nothing to choose, viewers share the sound, too.
fn choices(title: &Title, ranking: &[usize], ladder: &Ladder, depth: Depth) -> Choices {
    let index = title.index();
    let sound: Vec<&TrackIndex> = index.of_kind(TrackKind::Audio).map(|(_, track)| track).collect();
    let is_one_way = ranking.len() <= 1 && sound.len() <= 1;
    let nothing = Demand::peak_of(&[]);
    let of_choice = |choice: usize| {
        let pictures = ranking.get(choice).map(|number| (MediaKind::Video, &index.tracks[*number]));
        let sound = sound.iter().filter(|_| is_one_way).map(|track| (MediaKind::Audio, *track));
        let demand = ladder.from(choice);
        let Some((tracks, part)) = shared(title, pictures.into_iter().chain(sound), depth) else {
            return (Arc::new(demand), None);
        };
        let demand = match is_one_way {
            true => demand.with_shared(&part, &nothing, &nothing),
            false => demand.with_shared(&part, &ladder.pictures_from(choice + 1), &ladder.sound),
        };
        (Arc::new(demand), Some(Arc::new(tracks)))
    };
    let (demands, shared): (Vec<_>, Vec<_>) = (0..ranking.len().max(1)).map(of_choice).unzip();
    Choices { demands: demands.into(), shared: shared.into() }
}

/// Tracks that several viewers may share, and the demand of the one that reads them for the others,
/// too. `None` without tracks.
fn shared<'a>(
    title: &Title,
    tracks: impl Iterator<Item = (MediaKind, &'a TrackIndex)>,
    depth: Depth,
) -> Option<(SharedTracks, Demand)> {
    let (mut shared, mut demands) = (Vec::new(), Vec::new());
    for (kind, track) in tracks {
        let map = title.track_map(track.object)?;
        let start = |fragment: &Fragment| (track.nanoseconds(fragment.time), fragment.offset);
        demands.push(shared_demand(map.geometry().members(), depth, stretches(map, track))?);
        shared.push(SharedTrack {
            kind,
            map: Arc::clone(map),
            starts: track.fragments.iter().map(start).collect(),
            track_ns: track_ns(track),
        });
    }
    let part = Demand::sum_of(&demands.iter().collect::<Vec<_>>());
    (!shared.is_empty()).then(|| (SharedTracks::new(shared), part))
}

/// How long a track is shown.
pub(crate) fn track_ns(track: &TrackIndex) -> u64 {
    let last = track.fragments.last();
    last.map_or(0, |last| track.nanoseconds(last.time.saturating_add(last.duration)))
}

fn of_track(title: &Title, track: &TrackIndex, depth: Depth, loss: Loss) -> Option<Demand> {
    let map = title.track_map(track.object)?;
    demand(map.geometry().members(), depth, stretches(map, track), loss)
}

/// The segments of a track.
fn stretches<'a>(map: &'a ObjectMap, track: &'a TrackIndex) -> impl Iterator<Item = Stretch<'a>> {
    track.fragments.iter().enumerate().map(move |(number, fragment)| {
        let range = fragment.offset..fragment.offset + u64::from(fragment.bytes);
        let before = number.checked_sub(1).map_or(0, |before| track.fragments[before].time);
        Stretch {
            map,
            range,
            from_ns: track.nanoseconds(before),
            due_ns: track.nanoseconds(fragment.time).saturating_sub(SEND_LEAD_NS),
            duration_ns: track.nanoseconds(fragment.duration),
        }
    })
}

/// A file is read in its own order. Every part is due when its first picture or sound is shown.
fn of_file(title: &Title, file: &VirtualFile, depth: Depth) -> Option<Demand> {
    let index = title.index();
    let members = index.tracks.first().and_then(|track| title.track_map(track.object))?.geometry().members();
    let mut before_ns = 0;
    let stretches = file.parts().iter().filter_map(|part| match part {
        progressive::Part::Bytes(..) => None,
        progressive::Part::Object { object: ObjectRef::Tables, range } => Some(Stretch {
            map: title.tables_map()?,
            range: range.clone(),
            from_ns: 0,
            due_ns: 0,
            duration_ns: 0,
        }),
        progressive::Part::Object { object: ObjectRef::Track(number), range } => {
            let shown_ns = shown_ns(index, *number, range.start).max(before_ns);
            let from_ns = std::mem::replace(&mut before_ns, shown_ns);
            let (map, range) = (title.track_map(*number)?, range.clone());
            let due_ns = shown_ns.saturating_sub(SEND_LEAD_NS);
            Some(Stretch { map, range, from_ns, due_ns, duration_ns: 0 })
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
