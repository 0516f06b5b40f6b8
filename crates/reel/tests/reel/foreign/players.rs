//! ffmpeg plays every film in three ways, and decodes the same as from the source.

use crate::foreign::films::{Film, by_day};
use crate::foreign::frames::assert_same;
use crate::foreign::rig::shared;
use reel_compare::{Bounds, Form, Server};

/// Fails unless ffmpeg decodes the same from the server as from the sources.
pub(crate) fn assert_plays_as_the_source(server: &Server, films: &[&Film], form: Form) {
    let mut wrong = Vec::new();
    for film in films {
        let source = film.path().to_string_lossy().into_owned();
        let what = format!("{form} of {} ({})", film.file, film.special);
        let bounds = Bounds::of(&film.path(), form).unwrap();
        let judged = std::panic::catch_unwind(|| {
            assert_same(&source, &form.url(&server.url, film.id()), bounds, &what);
        });
        if let Err(panic) = judged {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| what.clone());
            wrong.push(text);
        }
    }
    assert!(wrong.is_empty(), "{} of {} films are wrong:\n{}", wrong.len(), films.len(), wrong.join("\n"));
}

/// Fails unless the subtitles of the films come as WebVTT with their times.
pub(crate) fn assert_subtitles_are_webvtt(server: &Server, films: &[&Film]) {
    for film in films.iter().filter(|film| film.subtitles > 0) {
        let master = crate::foreign::curl::get(&format!("{}/watch/{}/master.m3u8", server.url, film.id()));
        let line = master.lines().find(|line| line.contains("TYPE=SUBTITLES")).expect("a subtitle group");
        let playlist = line.split("URI=\"").nth(1).unwrap().split('"').next().unwrap();
        let base =
            crate::foreign::curl::effective_url(&format!("{}/watch/{}/master.m3u8", server.url, film.id()));
        let playlist_url = format!("{}/{playlist}", base.rsplit_once('/').unwrap().0);
        let segments = crate::foreign::curl::get(&playlist_url);
        let segment = segments.lines().find(|line| !line.starts_with('#') && !line.is_empty()).unwrap();
        let text =
            crate::foreign::curl::get(&format!("{}/{segment}", playlist_url.rsplit_once('/').unwrap().0));
        assert!(text.starts_with("WEBVTT"), "{text}");
        assert!(text.contains("A first line"), "{text}");
        // Containers shift the start of a film by the decoder's warm-up, up to 25 ms here.
        assert!(text.contains("00:00:01.0") && text.contains("--> 00:00:02.5"), "{text}");
        assert!(text.contains("&amp; more"), "{text}");
    }
}

#[test]
fn progressive_is_the_source() {
    assert_plays_as_the_source(shared(), &by_day(), Form::Progressive);
}

#[test]
fn hls_is_the_source() {
    assert_plays_as_the_source(shared(), &by_day(), Form::Hls);
}

#[test]
fn dash_is_the_source() {
    assert_plays_as_the_source(shared(), &by_day(), Form::Dash);
}

#[test]
fn subtitles_are_served_as_webvtt() {
    assert_subtitles_are_webvtt(shared(), &by_day());
}
