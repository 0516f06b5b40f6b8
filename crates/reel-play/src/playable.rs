//! What the engine needs to know of a title.

use crate::pushed::PushedStream;
use reel_admit::{Choices, TrackSpan};
use reel_cache::Body;
use std::ops::Range;
use std::sync::Arc;

/// A title as the engine sees it.
pub trait Playable {
    /// The demands of a form, best choice first. `None` if the form cannot be reserved: the title
    /// is too long, or has no such form.
    fn choices(&self, form: Form) -> Option<Choices>;

    /// Segment `number` (from 1) of a track; `None` if there is none.
    fn segment(&self, track: usize, number: usize) -> Option<Segment>;

    /// The title as one file; `None` if it cannot be played that way.
    fn file(&self) -> Option<&PlainFile>;

    /// What is sent by the clock; `None` if the title is not opened for that.
    fn pushed(&self) -> Option<&PushedStream> {
        None
    }
}

/// The ways in which a title is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By segments, with changes between renditions.
    Ladder,
    /// As one file.
    File,
    /// By the clock, whether or not anybody requests it.
    Stream,
}

/// One segment of a track.
pub struct Segment {
    /// The choice (rendition) that it belongs to; `None` if it belongs to all of them.
    pub choice: Option<usize>,
    /// The stretch of media time that it covers.
    pub span: TrackSpan,
    /// Its bytes.
    pub body: Body,
    /// How long the whole track is shown.
    pub track_ns: u64,
}

/// A title as one file, or as a stream that is sent by the clock.
pub struct PlainFile {
    /// Its bytes.
    pub body: Body,
    /// Where its stretches begin, and the media time at which they are shown, or the time after the
    /// start of the session at which they are sent. Both ascend.
    pub times: Arc<[(u64, u64)]>,
}

impl PlainFile {
    /// The media time of an offset, between those of the stretches around it. `end_ns` is that of
    /// the end.
    pub fn media_ns(&self, offset: u64, end_ns: u64) -> u64 {
        media_ns(&self.times, (self.body.bytes(), end_ns), offset)
    }

    /// The media time at which all bytes before `offset` have been needed: that of the first
    /// stretch from there on, or of the last one.
    pub(crate) fn shown_by_ns(&self, offset: u64) -> u64 {
        let next = self.times.partition_point(|(start, _)| *start < offset);
        self.times.get(next).or(self.times.last()).map_or(0, |(_, media_ns)| *media_ns)
    }
}

fn media_ns(times: &[(u64, u64)], end: (u64, u64), offset: u64) -> u64 {
    let after = times.partition_point(|(start, _)| *start <= offset);
    let (begin, begin_ns) = after.checked_sub(1).map_or((0, 0), |stretch| times[stretch]);
    let (next, next_ns) = times.get(after).copied().unwrap_or(end);
    let (into, bytes) = (offset.saturating_sub(begin), next.saturating_sub(begin).max(1));
    let into_ns =
        u128::from(next_ns.saturating_sub(begin_ns)) * u128::from(into.min(bytes)) / u128::from(bytes);
    // The cast fits: it is at most the time of the stretch.
    begin_ns + into_ns as u64
}

/// What a client requests in a session, or the server sends of its own accord.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaRequest {
    /// A segment, or a part of it.
    Segment {
        /// The track.
        track: usize,
        /// The segment, from 1.
        number: usize,
        /// The bytes of it that are requested.
        bytes: u64,
    },
    /// A range of the title as one file.
    File(Range<u64>),
    /// One of several ranges of the title as one file that a client reads at the same time, in any
    /// order.
    Read {
        /// The bytes.
        range: Range<u64>,
        /// Up to here the client has read without a gap: its schedule follows this.
        position: u64,
    },
    /// The stream from this byte on: its schedule is that of the clock from now on.
    Stream(u64),
    /// The parity of the stream from this byte on, beside the stream. It is requested after it.
    Parity(u64),
    /// The slots of a schedule: the times of the stream are those of the clock from now on.
    Slots,
    /// A request that prepares for media: a playlist, an initialisation segment, or a request that
    /// is answered without bytes.
    Preparation,
}

impl MediaRequest {
    /// The form whose media it is; `None` for a preparation.
    pub(crate) fn form(&self) -> Option<Form> {
        match self {
            MediaRequest::Segment { .. } => Some(Form::Ladder),
            MediaRequest::File(_) | MediaRequest::Read { .. } => Some(Form::File),
            MediaRequest::Stream(_) | MediaRequest::Parity(_) | MediaRequest::Slots => Some(Form::Stream),
            MediaRequest::Preparation => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_time_grows_within_stretches() {
        let times = [(0, 0), (100, 0), (200, 4_000), (600, 6_000)];
        let at = |offset| media_ns(&times, (1000, 10_000), offset);
        assert_eq!(
            [0, 99, 100, 150, 200, 400, 600, 800, 1000].map(at),
            [0, 0, 0, 2000, 4000, 5000, 6000, 8000, 10_000]
        );
        assert_eq!(media_ns(&[], (1000, 10_000), 500), 5000);
    }
}
