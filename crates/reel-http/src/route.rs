//! Which paths are media, and what they name.

use reel_cache::SessionKey;
use reel_play::SessionFile;

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Opens a session and redirects to it.
    Watch { title: String, file: SessionFile },
    /// Media or a playlist of a session.
    Session { key: SessionKey, file: SessionFile },
    /// A whole title as one file, without a session.
    Download { title: String },
    /// Below a media path, but without a resource.
    NotFound,
    /// For the control plane.
    ControlPlane,
}

impl Route {
    /// The route of a request path.
    pub(crate) fn of(path: &str) -> Route {
        let mut names = path.split('/').skip(1);
        match names.next() {
            Some("watch") => watch(names).unwrap_or(Route::NotFound),
            Some("s") => session(names).unwrap_or(Route::NotFound),
            Some("files") => download(names).unwrap_or(Route::NotFound),
            _ => Route::ControlPlane,
        }
    }
}

fn watch<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Route> {
    let title = names.next()?;
    let file = match names.next()? {
        "master.m3u8" => SessionFile::Master,
        "manifest.mpd" => SessionFile::Manifest,
        file if file.strip_suffix(".mp4")? == title => SessionFile::Progressive,
        _ => return None,
    };
    names.next().is_none().then(|| Route::Watch { title: title.to_owned(), file })
}

fn session<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Route> {
    let key = names.next()?.parse().ok()?;
    let first = names.next()?;
    let file = match (first, names.next()) {
        ("master.m3u8", None) => SessionFile::Master,
        ("manifest.mpd", None) => SessionFile::Manifest,
        // An encoded slash is part of no name.
        (file, None) if file.ends_with(".mp4") && !file.contains('%') => SessionFile::Progressive,
        (track, Some(file)) => {
            let track = number(track)?;
            match file {
                "media.m3u8" => SessionFile::Media(track),
                "iframes.m3u8" => SessionFile::IFrames(track),
                "init.mp4" => SessionFile::Init(track),
                "text.m3u8" => SessionFile::TextPlaylist(track),
                "text.vtt" => SessionFile::Text(track),
                segment => SessionFile::Segment(track, number(segment.strip_suffix(".m4s")?)?),
            }
        }
        _ => return None,
    };
    names.next().is_none().then_some(Route::Session { key, file })
}

fn download<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Route> {
    let title = names.next()?.strip_suffix(".mp4")?.to_owned();
    names.next().is_none().then_some(Route::Download { title })
}

/// A number as playlists write it: digits without sign or leading zero, so that every resource has
/// exactly one name.
fn number(text: &str) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "00112233445566778899aabbccddeeff";

    fn file(rest: &str) -> Option<SessionFile> {
        match Route::of(&format!("/s/{KEY}/{rest}")) {
            Route::Session { file, .. } => Some(file),
            Route::NotFound => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_of_a_session() {
        assert_eq!(file("master.m3u8"), Some(SessionFile::Master));
        assert_eq!(file("manifest.mpd"), Some(SessionFile::Manifest));
        assert_eq!(file("a-film.mp4"), Some(SessionFile::Progressive));
        assert_eq!(file("0/media.m3u8"), Some(SessionFile::Media(0)));
        assert_eq!(file("3/init.mp4"), Some(SessionFile::Init(3)));
        assert_eq!(file("1/iframes.m3u8"), Some(SessionFile::IFrames(1)));
        assert_eq!(file("1/12.m4s"), Some(SessionFile::Segment(1, 12)));
        assert_eq!(file("2/text.vtt"), Some(SessionFile::Text(2)));
        for nothing in [
            "",
            "x",
            "1/012.m4s",
            "+1/1.m4s",
            "-1/1.m4s",
            "1/2/3.m4s",
            "master.m3u8/",
            "1/",
            "1/.m4s",
            "0%2finit.mp4",
        ] {
            assert_eq!(file(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn paths_outside_of_sessions() {
        let watch = |file| Route::Watch { title: "a-film".into(), file };
        assert_eq!(Route::of("/watch/a-film/master.m3u8"), watch(SessionFile::Master));
        assert_eq!(Route::of("/watch/a-film/a-film.mp4"), watch(SessionFile::Progressive));
        assert_eq!(Route::of("/watch/a-film/b-film.mp4"), Route::NotFound);
        assert_eq!(Route::of("/files/a-film.mp4"), Route::Download { title: "a-film".into() });
        assert_eq!(Route::of("/files/../x.mp4"), Route::NotFound);
        assert_eq!(Route::of("/s/short/master.m3u8"), Route::NotFound);
        for elsewhere in ["/", "/api/v1/titles", "*", "", "/watching", "/files.html"] {
            assert_eq!(Route::of(elsewhere), Route::ControlPlane, "{elsewhere}");
        }
    }
}
