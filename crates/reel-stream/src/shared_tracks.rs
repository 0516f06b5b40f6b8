//! What all play who play one choice of a title, so that one of them can read it for all: pure.

use crate::schedule::{Strand, slot};
use reel_qos::Demand;
use reel_qos::limits::ROUND_NS;
use reel_volume::ObjectMap;
use std::sync::Arc;

/// What a session is offered of a title.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The demands of its choices (renditions), best first.
    pub demands: Arc<[Arc<Demand>]>,
    /// What those who play a choice may share, for each of them; nobody shares anything of a choice that is not here.
    pub shared: Arc<[Option<Arc<SharedTracks>>]>,
}

/// The tracks that are played by all who play a choice: its pictures; and its sound, where nothing else can be played.
#[derive(Debug)]
pub struct SharedTracks {
    tracks: Vec<SharedTrack>,
}

/// One of its tracks.
#[derive(Debug)]
pub struct SharedTrack {
    /// Pictures or sound.
    pub strand: Strand,
    /// The object that it is.
    pub map: Arc<ObjectMap>,
    /// Where its segments begin: media time and byte, in ascending order.
    pub starts: Vec<(u64, u64)>,
    /// How long it is shown.
    pub track_ns: u64,
}

/// Where a viewer begins in one of the tracks.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) slot: usize,
    pub(crate) track: &'a SharedTrack,
    /// The byte.
    pub(crate) offset: u64,
}

impl Choices {
    /// Of what nothing is promised of.
    pub fn none() -> Self {
        Self::from(Arc::from([]))
    }

    /// What those who play one of them may share.
    pub(crate) fn shared(&self, choice: usize) -> Option<&Arc<SharedTracks>> {
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
    pub(crate) fn tracks(&self) -> impl Iterator<Item = (usize, &SharedTrack)> {
        self.tracks.iter().map(|track| (slot(track.strand), track))
    }

    /// Where somebody begins who goes to `media_ns`: with the segments that are shown then.
    pub(crate) fn starts(&self, media_ns: u64) -> Vec<Start<'_>> {
        let tracks = self.tracks.iter();
        tracks
            .map(|track| Start { slot: slot(track.strand), track, offset: track.offset(media_ns) })
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
    pub(crate) fn stripe_ns(&self) -> u64 {
        self.track_ns / self.map.bytes().div_ceil(self.stripe_bytes()).max(1)
    }

    /// The most stripes of it that are shown in so many rounds, wherever they begin and end.
    pub(crate) fn stripes_in(&self, rounds: u64) -> u64 {
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
