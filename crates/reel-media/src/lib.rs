//! Reads containers, and makes the index, CMAF, playlists and manifests. Pure.
#![forbid(unsafe_code)]

pub mod cmaf;
mod codec;
mod codec_string;
pub mod dash;
mod error;
pub mod hls;
pub mod index;
pub mod input;
pub mod ladder;
mod language;
mod limits;
mod model;
pub mod progressive;
mod source;
pub mod subtitle;

pub use codec_string::codec_string;
pub use error::MediaError;
pub use index::{Fragment, FrameRate, TitleIndex, TrackIndex};
pub use input::open;
pub use model::{Audio, Codec, Colour, Packet, Sample, Track, TrackKind, Video};
pub use source::{Demux, Source};
pub use subtitle::webvtt;
