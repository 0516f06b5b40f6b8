//! ffmpeg plays every film in three ways, and decodes the same as from the source.

use crate::foreign::films::{FILMS, Film};
use crate::foreign::frames::{assert_same_pictures, assert_same_sound, pictures, sound};
use crate::foreign::rig::shared;

/// Longest decoder warm-up of any codec here.
const WARM_UP_MAX: usize = 4096;

fn check(way: &str, warm_up_max: usize, url: impl Fn(&Film) -> String + std::panic::RefUnwindSafe) {
    let mut wrong = Vec::new();
    for film in FILMS {
        let url = url(film);
        let source = film.path().to_string_lossy().into_owned();
        let what = format!("{way} of {} ({})", film.file, film.special);
        let judged = std::panic::catch_unwind(|| {
            if film.video {
                assert_same_pictures(&pictures(&source), &pictures(&url), &what);
            }
            for track in 0..film.audio {
                assert_same_sound(
                    &sound(&source, track),
                    &sound(&url, track),
                    warm_up_max,
                    &format!("{what}, sound {track}"),
                );
            }
        });
        if let Err(panic) = judged {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| what.clone());
            wrong.push(text);
        }
    }
    assert!(wrong.is_empty(), "{} of {} films are wrong:\n{}", wrong.len(), FILMS.len(), wrong.join("\n"));
}

#[test]
fn progressive_is_the_source() {
    let server = shared();
    check("progressive", 0, |film| format!("{}/watch/{1}/{1}.mp4", server.url, film.id()));
}

#[test]
fn hls_is_the_source() {
    let server = shared();
    check("HLS", WARM_UP_MAX, |film| format!("{}/watch/{}/master.m3u8", server.url, film.id()));
}

#[test]
fn dash_is_the_source() {
    let server = shared();
    check("DASH", WARM_UP_MAX, |film| format!("{}/watch/{}/manifest.mpd", server.url, film.id()));
}

#[test]
fn subtitles_are_served_as_webvtt() {
    let server = shared();
    for film in FILMS.iter().filter(|film| film.subtitles > 0) {
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
