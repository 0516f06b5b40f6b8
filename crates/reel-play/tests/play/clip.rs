//! A title without a catalogue: one track, one object.

use reel_admit::{Choices, TrackSpan};
use reel_cache::MediaKind;
use reel_fixture::VolumeFixture;
use reel_play::{Form, PlainFile, Playable, Segment};
use std::sync::Arc;

pub(crate) const SEGMENT_NS: u64 = 4_000_000_000;

/// A request for this segment panics.
pub(crate) const PANICS_AT: usize = 1 << 20;

/// A title of one track, cut into segments of equal length.
pub(crate) struct Clip {
    pub(crate) file: PlainFile,
    pub(crate) segment_bytes: u64,
    pub(crate) segment_ns: u64,
    pub(crate) choices: Option<Choices>,
}

impl Playable for Clip {
    fn choices(&self, _: Form) -> Option<Choices> {
        self.choices.clone()
    }

    fn segment(&self, track: usize, number: usize) -> Option<Segment> {
        assert!(number != PANICS_AT, "on purpose");
        let from = (number.checked_sub(1)? as u64) * self.segment_bytes;
        let (total, until) = (self.file.body.bytes(), from + self.segment_bytes);
        let from_ns = from / self.segment_bytes * self.segment_ns;
        (track == 0 && from < total).then(|| Segment {
            choice: Some(0),
            span: TrackSpan { kind: MediaKind::Video, from_ns, until_ns: from_ns + self.segment_ns },
            body: self.file.body.slice(from..until.min(total)),
            track_ns: total.div_ceil(self.segment_bytes) * self.segment_ns,
        })
    }

    fn file(&self) -> Option<&PlainFile> {
        Some(&self.file)
    }
}

impl Clip {
    pub(crate) fn of(fixture: &VolumeFixture, object: usize, segment_bytes: u64) -> Arc<Clip> {
        Self::offering(fixture, object, segment_bytes, Choices::none())
    }

    /// A title whose sessions are promised what these choices need.
    pub(crate) fn offering(
        fixture: &VolumeFixture,
        object: usize,
        segment_bytes: u64,
        choices: Choices,
    ) -> Arc<Clip> {
        Arc::new(Self::in_segments(fixture, object, (segment_bytes, SEGMENT_NS), choices))
    }

    /// The same in segments of another length.
    pub(crate) fn in_segments(
        fixture: &VolumeFixture,
        object: usize,
        (segment_bytes, segment_ns): (u64, u64),
        choices: Choices,
    ) -> Clip {
        let times = Arc::from([(0, 0), (segment_bytes, segment_ns)]);
        let file = PlainFile { body: fixture.whole(object), times };
        Clip { file, segment_bytes, segment_ns, choices: Some(choices) }
    }
}
