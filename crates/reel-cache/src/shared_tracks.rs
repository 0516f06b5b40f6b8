//! The tracks that all sessions with the same choice of a title play, so that one session can read
//! them for all. Pure.

use crate::media_kind::MediaKind;
use reel_qos::limits::ROUND_NS;
use reel_volume::ObjectMap;
use std::sync::Arc;

/// The tracks that every session with a choice plays: its pictures, and its sound where there is
/// only one.
#[derive(Debug)]
pub struct SharedTracks {
    tracks: Vec<SharedTrack>,
}

/// One of its tracks.
#[derive(Debug)]
pub struct SharedTrack {
    /// Pictures or sound.
    pub kind: MediaKind,
    /// The object that holds it.
    pub map: Arc<ObjectMap>,
    /// Where its segments begin: media time and byte, in ascending order.
    pub starts: Vec<(u64, u64)>,
    /// How long it is shown.
    pub track_ns: u64,
    /// Whether its parity rows are sent, too.
    pub with_parity: bool,
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

impl SharedTracks {
    /// These tracks, one for each media kind.
    pub fn new(tracks: Vec<SharedTrack>) -> Self {
        Self { tracks }
    }

    /// The tracks, and their slots.
    pub fn tracks(&self) -> impl Iterator<Item = (usize, &SharedTrack)> {
        self.tracks.iter().map(|track| (track.kind.index(), track))
    }

    /// Where a session begins that goes to `media_ns`: with the segments that are shown then.
    pub fn starts(&self, media_ns: u64) -> Vec<Start<'_>> {
        let tracks = self.tracks.iter();
        tracks
            .map(|track| Start { slot: track.kind.index(), track, offset: track.offset(media_ns) })
            .collect()
    }
}

impl SharedTrack {
    /// The byte at which the segment that is shown at `media_ns` begins.
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
        // Both ends may lie within a stripe.
        most_bytes.max().unwrap_or(0).div_ceil(self.stripe_bytes()) + 1
    }

    fn stripe_bytes(&self) -> u64 {
        self.map.geometry().stripe_bytes() as u64
    }
}
