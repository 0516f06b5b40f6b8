//! `/library.m3u`: all titles as a playlist that stock players open.
//!
//! Entries are relative to the playlist, without a slash in front: players resolve those alike, and
//! some take a path from the root for a local file.

use crate::playlist_lines::one_line;
use crate::{ControlPlane, Problem};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use reel_library::TitleSummary;
use std::fmt::Write as _;
use std::sync::Arc;

/// `GET /library.m3u`
pub(super) async fn show(State(control): State<ControlPlane>) -> Result<Response, Problem> {
    let playable = control.playable_titles().await?;
    let fields = [(header::CONTENT_TYPE, "audio/x-mpegurl"), (header::CACHE_CONTROL, "no-store")];
    Ok((fields, playlist(playable)).into_response())
}

/// The playlist of the titles that can be played, by name. A title is one MP4 file, which every
/// player plays and jumps in; one that no such file can hold is played by HLS.
fn playlist(mut titles: Vec<Arc<TitleSummary>>) -> String {
    titles.sort_by_cached_key(|title| (title.name.to_lowercase(), title.id.clone()));
    let mut text = String::from("#EXTM3U\n");
    for title in titles {
        let (id, name, seconds) = (&title.id, one_line(&title.name), title.duration_s.ceil());
        let file = if title.plain_file.is_some() { format!("{id}.mp4") } else { "master.m3u8".to_owned() };
        let line = writeln!(text, "#EXTINF:{seconds:.0},{name}\nwatch/{id}/{file}");
        line.expect("a string takes everything");
    }
    text
}
