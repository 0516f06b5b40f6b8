//! Containers in, index, CMAF out, playlists and manifests; pure.
#![forbid(unsafe_code)]

mod codec;
mod error;
mod input;
mod limits;
mod model;
mod source;
pub mod subtitle;

pub use error::MediaError;
pub use input::open;
pub use model::{Audio, Codec, Colour, Packet, Sample, Track, TrackKind, Video};
pub use source::{Demux, Source};
pub use subtitle::webvtt;
