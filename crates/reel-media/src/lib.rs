//! Containers in, index, CMAF out, playlists and manifests; pure.
#![forbid(unsafe_code)]

pub mod cmaf;
mod error;
pub mod index;
mod language;
mod model;
mod source;

pub use error::MediaError;
pub use index::{Fragment, FrameRate, TitleIndex, TrackIndex};
pub use model::{Audio, Codec, Colour, Packet, Sample, Track, TrackKind, Video};
pub use source::{Demux, Source};
