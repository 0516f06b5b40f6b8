//! What all play who play one choice of a title, so that one of them can read it for all: pure.

use crate::media_kind::MediaKind;
use reel_qos::Demand;
use reel_qos::limits::ROUND_NS;
use reel_volume::ObjectMap;
use std::sync::Arc;

/// What a session is offered of a title.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The demands of its choices (renditions), best first.
    pub demands: Arc<[Arc<Demand>]>,
    /// What those who play a choice may share, for each of them; nobody shares anything of a choice
    /// that is not here.
    pub shared: Arc<[Option<Arc<SharedTracks>>]>,
}

/// The tracks that are played by all who play a choice: its pictures; and its sound, where nothing
/// else can be played.
#[derive(Debug)]
pub struct SharedTracks {
    tracks: Vec<SharedTrack>,
}

/// One of its tracks.
#[derive(Debug)]
pub struct SharedTrack {
    /// Pictures or sound.
    pub strand: MediaKind,
    /// The object that it is.
    pub map: Arc<ObjectMap>,
    /// Where its segments begin: media time and byte, in ascending order.
    pub starts: Vec<(u64, u64)>,
    /// How long it is shown.
    pub track_ns: u64,
}

/// Where a viewer begins in one of the tracks.
#[derive(Debug)]
pub struct Start<'a> {
    /// The index of the track's kind of media.
    pub slot: usize,
    /// The track.
    pub track: &'a SharedTrack,
    /// The byte.
    pub offset: u64,
}

impl Choices {
    /// Of what nothing is promised of.
    pub fn none() -> Self {
        Self::from(Arc::from([]))
    }

    /// What those who play one of them may share.
    pub fn shared(&self, choice: usize) -> Option<&Arc<SharedTracks>> {
        self.shared.get(choice)?.as_ref()
    }
}

impl From<Arc<[Arc<Demand>]>> for Choices {
    fn from(demands: Arc<[Arc<Demand>]>) -> Self {
        Self { demands, shared: Arc::from([]) }
    }
}

impl SharedTracks {
    /// Of these tracks, one for each strand.
    pub fn new(tracks: Vec<SharedTrack>) -> Self {
        Self { tracks }
    }

    /// The tracks, and their slots.
    pub fn tracks(&self) -> impl Iterator<Item = (usize, &SharedTrack)> {
        self.tracks.iter().map(|track| (track.strand.index(), track))
    }

    /// Where somebody begins who goes to `media_ns`: with the segments that are shown then.
    pub fn starts(&self, media_ns: u64) -> Vec<Start<'_>> {
        let tracks = self.tracks.iter();
        tracks
            .map(|track| Start { slot: track.strand.index(), track, offset: track.offset(media_ns) })
            .collect()
    }
}

impl SharedTrack {
    /// Where the segment begins that is shown at `media_ns`.
    fn offset(&self, media_ns: u64) -> u64 {
        let after = self.starts.partition_point(|(start_ns, _)| *start_ns <= media_ns);
        self.starts.get(after.saturating_sub(1)).map_or(0, |(_, offset)| *offset)
    }

    /// How long a stripe is shown, on average.
    pub fn stripe_ns(&self) -> u64 {
        self.track_ns / self.map.bytes().div_ceil(self.stripe_bytes()).max(1)
    }

    /// The most stripes of it that are shown in so many rounds, wherever they begin and end.
    pub fn stripes_in(&self, rounds: u64) -> u64 {
        let width_ns = rounds.saturating_mul(ROUND_NS);
        let mut until = 0;
        let most_bytes = self.starts.iter().map(|(from_ns, from)| {
            while self.starts.get(until).is_some_and(|(at_ns, _)| *at_ns < from_ns.saturating_add(width_ns)) {
                until += 1;
            }
            self.starts.get(until).map_or(self.map.bytes(), |(_, offset)| *offset).saturating_sub(*from)
        });
        // Both ends lie within a stripe.
        most_bytes.max().unwrap_or(0).div_ceil(self.stripe_bytes()) + 1
    }

    fn stripe_bytes(&self) -> u64 {
        self.map.geometry().stripe_bytes() as u64
    }
}
