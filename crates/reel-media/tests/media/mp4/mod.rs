//! The MP4 and QuickTime demuxer with files made by ffmpeg, with boxes built by hand, and with
//! damage.

mod boxes;
mod compare;
mod crafted;
mod files;
mod hostile;
mod movie;
mod sources;
mod stored;
