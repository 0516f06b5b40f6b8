//! A title without a catalogue: one track, one object.

use reel_admit::{Choices, TrackSpan};
use reel_cache::MediaKind;
use reel_fixture::VolumeFixture;
use reel_play::{Form, PlainFile, Playable, Segment};
use std::sync::Arc;

pub(crate) const SEGMENT_NS: u64 = 4_000_000_000;

/// A title of one track, cut into segments of equal length.
pub(crate) struct Clip {
    pub(crate) file: PlainFile,
    pub(crate) segment_bytes: u64,
    pub(crate) choices: Option<Choices>,
}

impl Playable for Clip {
    fn choices(&self, _: Form) -> Option<Choices> {
        self.choices.clone()
    }

    fn segment(&self, track: usize, number: usize) -> Option<Segment> {
        let from = (number.checked_sub(1)? as u64) * self.segment_bytes;
        let (total, until) = (self.file.body.bytes(), from + self.segment_bytes);
        let from_ns = from / self.segment_bytes * SEGMENT_NS;
        (track == 0 && from < total).then(|| Segment {
            choice: Some(0),
            span: TrackSpan { kind: MediaKind::Video, from_ns, until_ns: from_ns + SEGMENT_NS },
            body: self.file.body.slice(from..until.min(total)),
            track_ns: total.div_ceil(self.segment_bytes) * SEGMENT_NS,
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
        let times = Arc::from([(0, 0), (segment_bytes, SEGMENT_NS)]);
        let file = PlainFile { body: fixture.whole(object), times };
        Arc::new(Clip { file, segment_bytes, choices: Some(choices) })
    }
}
