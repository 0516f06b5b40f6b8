//! What the engine needs to know of a title.

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
}

/// The ways in which a title is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By segments, with changes between renditions.
    Ladder,
    /// As one file.
    File,
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

/// A title as one file.
pub struct PlainFile {
    /// Its bytes.
    pub body: Body,
    /// Where its stretches begin, and the media time at which they are shown. Both ascend.
    pub times: Arc<[(u64, u64)]>,
}

/// What a client requests in a session.
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
    /// A request that prepares for media: a playlist, an initialisation segment, or a request that
    /// is answered without bytes.
    Preparation,
}

impl MediaRequest {
    /// The form whose media it is; `None` for a preparation.
    pub(crate) fn form(&self) -> Option<Form> {
        match self {
            MediaRequest::Segment { .. } => Some(Form::Ladder),
            MediaRequest::File(_) => Some(Form::File),
            MediaRequest::Preparation => None,
        }
    }
}
