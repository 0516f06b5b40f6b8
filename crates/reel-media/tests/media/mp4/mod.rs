//! The MP4 and QuickTime demuxer against files made by ffmpeg, against boxes put together by hand, and against damage.

mod boxes;
mod compare;
mod crafted;
mod files;
mod hostile;
mod movie;
mod sources;
mod stored;
