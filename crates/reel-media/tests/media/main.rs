//! Files of every container: made by ffmpeg, put together by hand, and damaged.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod beginnings;
mod chain;
mod film;
mod film_dir;
mod hostile;
mod isobmff;
mod large;
mod laws;
mod lengths;
mod mkv;
mod mkv_made;
mod mp4;
mod oracle;
mod playlists;
mod stills;
mod through;
mod ts;
mod ts_odd;
