//! ffmpeg plays every film in three ways, and decodes the same as from the source.

use crate::foreign::films::{Film, by_day};
use crate::foreign::frames::{assert_same_pictures, assert_same_sound, pictures, sound};
use crate::foreign::rig::{Server, shared};

/// Longest decoder warm-up of any codec here.
const WARM_UP_MAX: usize = 4096;

/// How a player asks for a film.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Progressive,
    Hls,
    Dash,
}

impl Way {
    fn url(self, server: &Server, film: &Film) -> String {
        let (url, id) = (&server.url, film.id());
        match self {
            Way::Progressive => format!("{url}/watch/{id}/{id}.mp4"),
            Way::Hls => format!("{url}/watch/{id}/master.m3u8"),
            Way::Dash => format!("{url}/watch/{id}/manifest.mpd"),
        }
    }

    /// Samples of sound that may be missing at the start.
    fn warm_up_max(self) -> usize {
        if matches!(self, Way::Progressive) { 0 } else { WARM_UP_MAX }
    }
}

/// Fails unless ffmpeg decodes the same from the server as from the sources.
pub(crate) fn assert_plays_as_the_source(server: &Server, films: &[&Film], way: Way) {
    let mut wrong = Vec::new();
    for film in films {
        let url = way.url(server, film);
        let source = film.path().to_string_lossy().into_owned();
        let what = format!("{way:?} of {} ({})", film.file, film.special);
        let judged = std::panic::catch_unwind(|| {
            if film.video {
                assert_same_pictures(&pictures(&source), &pictures(&url), &what);
            }
            for track in 0..film.audio {
                assert_same_sound(
                    &sound(&source, track),
                    &sound(&url, track),
                    way.warm_up_max(),
                    &format!("{what}, sound {track}"),
                );
            }
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
    assert_plays_as_the_source(shared(), &by_day(), Way::Progressive);
}

#[test]
fn hls_is_the_source() {
    assert_plays_as_the_source(shared(), &by_day(), Way::Hls);
}

#[test]
fn dash_is_the_source() {
    assert_plays_as_the_source(shared(), &by_day(), Way::Dash);
}

#[test]
fn subtitles_are_served_as_webvtt() {
    assert_subtitles_are_webvtt(shared(), &by_day());
}
