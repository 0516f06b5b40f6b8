//! Codecs, as far as storing and describing their samples requires: headers and decoder
//! configurations, no decoding.

pub(crate) mod ac3;
pub(crate) mod adts;
pub(crate) mod av1;
pub(crate) mod avc_config;
pub(crate) mod bits;
pub(crate) mod config;
pub(crate) mod flac;
pub(crate) mod h264;
pub(crate) mod hevc;
pub(crate) mod mp3;
pub(crate) mod nal;
pub(crate) mod opus;
pub(crate) mod sei;
pub(crate) mod vp9;
pub(crate) mod vui;
pub(crate) mod warm_up;
