//! CMAF output: every track becomes one object, an init segment followed by fragments (ISO/IEC
//! 23000-19).
//!
//! A fragment is also one HLS/DASH segment. [`Packager`] takes samples and returns the bytes of the
//! objects piece by piece, then the [`crate::TrackIndex`]es and the sample tables of the classic
//! MP4 form.

mod apart;
mod beginning;
mod boxes;
mod error;
mod fragment;
mod heads;
mod init;
mod lane;
mod moov;
mod packager;
mod pauses;
mod sample_entry;
mod silence;
mod silent;
mod steps;
mod stored;
mod tables;
mod text;

pub use error::PackError;
pub use heads::{HeadSample, samples_of_head};
pub use packager::{CutPolicy, Packaged, Packager, Piece};
pub use tables::TableRange;

pub(crate) use boxes::Boxes;
pub(crate) use moov::{
    MovieHeader, TrackHeader, media_header, media_information, movie_header, track_header,
};
pub(crate) use sample_entry::{in_band_parameter_sets, mp3_object_type, sample_description};
pub(crate) use stored::{StoredSample, samples as stored_samples};
