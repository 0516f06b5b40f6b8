//! The MP4 and QuickTime demuxer with files made by ffmpeg, with boxes built by hand, and with
//! damage.

pub(crate) mod boxes;
mod chapters;
mod compare;
mod costs;
mod crafted;
mod edits;
mod files;
mod fragments;
mod hostile;
pub(crate) mod movie;
pub(crate) mod sources;
mod stored;
