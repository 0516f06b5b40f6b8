//! Files of every container: made by ffmpeg, put together by hand, and damaged.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

mod beginnings;
mod chain;
mod changes;
mod damaged;
mod endings;
mod film;
mod film_dir;
mod hdr;
mod hostile;
mod in_band;
mod isobmff;
mod joined;
mod large;
mod laws;
mod lengths;
mod merged;
mod mkv;
mod mkv_chapters;
mod mkv_made;
mod mp4;
mod mux;
mod oracle;
mod playlists;
mod silence;
mod sound_frames;
mod stills;
mod through;
mod timeline;
mod transport;
mod ts;
mod ts_odd;
mod unequal;
