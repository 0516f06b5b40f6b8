//! GStreamer's adaptive demuxers play HLS and DASH to the end and show every frame.

use crate::foreign::films::{Film, by_day};
use crate::foreign::rig::{outcome, shared};
use reel_compare::{Server, pictures};
use std::process::Command;

/// Attempts for one film. GStreamer 1.22 drops a fragment once in some hundred starts ("Couldn't
/// download fragments", after 12 ms) without a reason. A further attempt counts only if the server
/// neither failed, cut nor dropped anything meanwhile.
const TRIES_MAX: usize = 3;

fn pictures_shown(server: &Server, url: &str) -> usize {
    for attempt in 1.. {
        let faults = server_faults(server);
        match play(url) {
            Ok(pictures) => return pictures,
            Err(said) => {
                assert_eq!(server_faults(server), faults, "{url}: the server is at fault:\n{said}");
                assert!(attempt < TRIES_MAX, "{url}: GStreamer failed {attempt} times:\n{said}");
                println!("{url}: GStreamer failed, and the server did not; trying again\n{said}");
            }
        }
    }
    unreachable!("the last attempt returns or panics")
}

/// Frames that reached the end of the pipeline, or GStreamer's last output.
fn play(url: &str) -> Result<usize, String> {
    let mut command = Command::new("timeout");
    command.args(["120", "gst-launch-1.0", "-v", "playbin3", &format!("uri={url}"), "flags=video+audio"]);
    command.args([
        "video-sink=fakesink name=pictures silent=false sync=false",
        "audio-sink=fakesink name=sound sync=false",
    ]);
    command.env("GST_PLUGIN_FEATURE_RANK", "hlsdemux2:MAX,dashdemux2:MAX,hlsdemux:NONE,dashdemux:NONE");
    command
        .env("GST_DEBUG", "souphttpsrc:3,adaptivedemux2:3,hlsdemux2:3,downloadhelper:3")
        .env("GST_DEBUG_NO_COLOR", "1");
    let output = outcome(&mut command);
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(said.lines().filter(|line| line.contains("pictures") && line.contains("chain  ")).count());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(errors.lines().rev().take(20).collect::<Vec<_>>().join("\n"))
}

/// The server's counters of failed and cut responses, and of connections that it closed.
fn server_faults(server: &Server) -> Vec<String> {
    const FAULTS: [&str; 4] = [
        "reel_http_media_responses_total{status=\"5xx\"}",
        "reel_http_responses_cut_total ",
        "reel_http_connections_timed_out_total ",
        "reel_http_connections_turned_away_total ",
    ];
    let metrics = crate::foreign::curl::get(&format!("{}/metrics", server.url));
    let faults: Vec<_> = metrics
        .lines()
        .filter(|line| FAULTS.iter().any(|of| line.starts_with(of)))
        .map(str::to_owned)
        .collect();
    assert_eq!(faults.len(), FAULTS.len(), "{metrics}");
    faults
}

/// Fails unless every frame of the films is shown from this playlist or manifest.
pub(crate) fn assert_every_frame_is_shown(server: &Server, films: &[&Film], file: &str) {
    for film in films.iter().filter(|film| film.video && !film.not_for.contains(&"gstreamer")) {
        let expected = pictures(&film.path().to_string_lossy()).unwrap().len();
        let shown = pictures_shown(server, &format!("{}/watch/{}/{file}", server.url, film.id()));
        assert_eq!(shown, expected, "{} ({})", film.file, film.special);
    }
}

#[test]
fn hlsdemux2_shows_every_frame() {
    assert_every_frame_is_shown(shared(), &by_day(), "master.m3u8");
}

#[test]
fn dashdemux2_shows_every_frame() {
    assert_every_frame_is_shown(shared(), &by_day(), "manifest.mpd");
}
