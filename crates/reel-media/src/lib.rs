//! Reads containers, and makes the index, CMAF, playlists and manifests. Pure.
#![forbid(unsafe_code)]

pub mod cmaf;
mod codec;
mod codec_string;
mod cover;
pub mod dash;
mod error;
mod hdr;
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
mod times;
pub mod transport;
mod unseen;

pub use codec_string::codec_string;
pub use cover::{Cover, PictureFormat};
pub use error::MediaError;
pub use index::{Change, Fragment, FrameRate, TitleIndex, TrackIndex};
pub use input::{Ending, ending, open};
pub use limits::FILE_MEMORY_BYTES;
pub use model::{Audio, Chapter, Codec, Colour, Description, Hdr, Packet, Sample, Track, TrackKind, Video};
pub use source::{Demux, Source};
pub use subtitle::webvtt;
