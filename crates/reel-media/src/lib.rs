//! Containers in, index, CMAF out, playlists and manifests; pure.
#![forbid(unsafe_code)]

mod codec;
mod error;
pub mod input;
mod limits;
mod model;
mod source;

pub use error::MediaError;
pub use model::{Audio, Codec, Colour, Packet, Sample, Track, TrackKind, Video};
pub use source::{Demux, Source};
