//! The data plane behind real sockets: a server over a small volume with a film.

mod announcements;
pub(crate) mod casts;
mod dashboard;
mod dav;
mod endings;
mod files;
mod joins;
mod keys;
mod limits;
mod many_titles;
mod memory;
mod misuse;
mod nfs;
mod panics;
mod play_it_with;
mod playlists;
mod programs;
mod promise;
mod proxied;
mod reclass;
mod requests;
mod restarts;
pub(crate) mod rig;
mod secured;
mod sending;
mod transport;
mod vlc;
