//! GStreamer's adaptive demuxers play HLS and DASH to the end and see every picture.

use crate::films::FILMS;
use crate::frames::pictures;
use crate::rig::{outcome, shared};
use std::process::Command;

fn pictures_shown(url: &str) -> usize {
    let mut command = Command::new("gst-launch-1.0");
    command.env("GST_PLUGIN_FEATURE_RANK", "hlsdemux2:MAX,dashdemux2:MAX,hlsdemux:NONE,dashdemux:NONE");
    command.args(["-v", "playbin3", &format!("uri={url}"), "flags=video+audio"]);
    command.args([
        "video-sink=fakesink name=pictures silent=false sync=false",
        "audio-sink=fakesink name=sound sync=false",
    ]);
    let output = outcome(
        Command::new("timeout")
            .arg("120")
            .args(std::iter::once(command.get_program()).chain(command.get_args()))
            .env("GST_PLUGIN_FEATURE_RANK", "hlsdemux2:MAX,dashdemux2:MAX,hlsdemux:NONE,dashdemux:NONE"),
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{url}: {}\n{}",
        String::from_utf8_lossy(&output.stderr),
        said.lines().rev().take(5).collect::<Vec<_>>().join("\n")
    );
    said.lines().filter(|line| line.contains("pictures") && line.contains("chain  ")).count()
}

fn check(file: &str) {
    let server = shared();
    let films = FILMS.iter().filter(|film| film.video && !film.not_for.contains(&"gstreamer"));
    for film in films {
        let expected = pictures(&film.path().to_string_lossy()).len();
        let shown = pictures_shown(&format!("{}/watch/{}/{file}", server.url, film.id()));
        assert_eq!(shown, expected, "{} ({})", film.file, film.special);
    }
}

#[test]
fn hlsdemux2_shows_every_picture() {
    check("master.m3u8");
}

#[test]
fn dashdemux2_shows_every_picture() {
    check("manifest.mpd");
}
