//! Which paths are media, and what they name.

use reel_cache::SessionKey;
use reel_library::Form;
use reel_play::SessionFile;

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Opens a session and redirects to it.
    Watch { title: String, file: SessionFile },
    /// Media or a playlist of a session. The name of its whole file is that of its title.
    Session { key: SessionKey, file: SessionFile, title: Option<String> },
    /// A whole title as one file, without a session.
    Download { title: String },
    /// The same among the files that are played (`docs/design/webdav.md`).
    Play { title: String },
    /// A stream that a program pours.
    Live { name: String },
    /// Below a media path, but without a resource.
    NotFound,
    /// For the control plane.
    ControlPlane,
}

/// What is answered in any case: what watches the server asks for it.
pub(crate) fn is_health(path: &str) -> bool {
    ["/healthz", "/readyz", "/metrics"].contains(&path)
}

/// The stored form of a title that a file is made of.
pub(crate) fn stored_form(file: SessionFile) -> Form {
    match file {
        SessionFile::Transport | SessionFile::TransportList => Form::Ts,
        _ => Form::Cmaf,
    }
}

impl Route {
    /// The route of a request path with one of the methods of media.
    pub(crate) fn of(path: &str) -> Route {
        let mut names = path.split('/').skip(1);
        match names.next() {
            Some("watch") => watch(names).unwrap_or(Route::NotFound),
            Some("s") => session(names).unwrap_or(Route::NotFound),
            Some("files") => file(names).map_or(Route::NotFound, |title| Route::Download { title }),
            Some("live") => live(names).unwrap_or(Route::NotFound),
            Some("dav") => dav(names).unwrap_or(Route::ControlPlane),
            _ => Route::ControlPlane,
        }
    }
}

/// Whether the control plane answers requests with this method for a file.
pub(crate) fn is_of_dav(path: &str, method: &str) -> bool {
    path.starts_with("/dav/") && !matches!(method, "GET" | "HEAD")
}

fn watch<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Route> {
    let title = names.next()?;
    let file = match names.next()? {
        "master.m3u8" => SessionFile::Master,
        "manifest.mpd" => SessionFile::Manifest,
        "stream.m3u8" => SessionFile::TransportList,
        file if file.strip_suffix(".mp4") == Some(title) => SessionFile::Progressive,
        file if file.strip_suffix(".ts") == Some(title) => SessionFile::Transport,
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
        ("stream.m3u8", None) => SessionFile::TransportList,
        // An encoded slash is part of no name.
        (file, None) if file.ends_with(".mp4") && !file.contains('%') => SessionFile::Progressive,
        (file, None) if file.ends_with(".ts") && !file.contains('%') => SessionFile::Transport,
        (track, Some(file)) => {
            let track = number(track)?;
            match file {
                "media.m3u8" => SessionFile::Media(track),
                "iframes.m3u8" => SessionFile::IFrames(track),
                "init.mp4" => SessionFile::Init(track, 1),
                "text.m3u8" => SessionFile::TextPlaylist(track),
                "text.vtt" => SessionFile::Text(track),
                file if file.ends_with(".mp4") => SessionFile::Init(track, further_init(file)?),
                segment => SessionFile::Segment(track, number(segment.strip_suffix(".m4s")?)?),
            }
        }
        _ => return None,
    };
    let title = match file {
        SessionFile::Progressive => first.strip_suffix(".mp4"),
        // The playlist names it so.
        SessionFile::Transport => first.strip_suffix(".ts").filter(|name| *name != "stream"),
        _ => None,
    };
    let title = title.map(str::to_owned);
    names.next().is_none().then_some(Route::Session { key, file, title })
}

fn live<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Route> {
    let name = names.next()?.to_owned();
    names.next().is_none().then_some(Route::Live { name })
}

fn file<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<String> {
    let title = names.next()?.strip_suffix(".mp4")?.to_owned();
    names.next().is_none().then_some(title)
}

/// A file of WebDAV. Directories and all that is not there belong to the control plane.
fn dav<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Route> {
    match names.next()? {
        "play" => file(names).map(|title| Route::Play { title }),
        "copy" => file(names).map(|title| Route::Download { title }),
        _ => None,
    }
}

/// The number of a further init segment: the first one has none in its name.
fn further_init(file: &str) -> Option<usize> {
    let digits = file.strip_prefix("init-")?.strip_suffix(".mp4")?;
    number(digits).filter(|number| *number > 1)
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
    fn the_whole_file_of_a_session_has_the_name_of_its_title() {
        let named = |rest: &str| match Route::of(&format!("/s/{KEY}/{rest}")) {
            Route::Session { title, .. } => title,
            other => panic!("{other:?}"),
        };
        assert_eq!(named("a-film.mp4").as_deref(), Some("a-film"));
        assert_eq!(named("a-film.ts").as_deref(), Some("a-film"));
        for unnamed in ["stream.ts", "stream.m3u8", "master.m3u8", "0/init.mp4", "1/12.m4s"] {
            assert_eq!(named(unnamed), None, "{unnamed}");
        }
    }

    #[test]
    fn files_of_a_session() {
        assert_eq!(file("master.m3u8"), Some(SessionFile::Master));
        assert_eq!(file("manifest.mpd"), Some(SessionFile::Manifest));
        assert_eq!(file("a-film.mp4"), Some(SessionFile::Progressive));
        assert_eq!(file("0/media.m3u8"), Some(SessionFile::Media(0)));
        assert_eq!(file("3/init.mp4"), Some(SessionFile::Init(3, 1)));
        assert_eq!(file("3/init-2.mp4"), Some(SessionFile::Init(3, 2)));
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
            "0/init-1.mp4",
            "0/init-02.mp4",
            "0/init-.mp4",
            "0/other.mp4",
        ] {
            assert_eq!(file(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn paths_outside_of_sessions() {
        let watch = |file| Route::Watch { title: "a-film".into(), file };
        assert_eq!(Route::of("/watch/a-film/master.m3u8"), watch(SessionFile::Master));
        assert_eq!(Route::of("/watch/a-film/a-film.mp4"), watch(SessionFile::Progressive));
        assert_eq!(Route::of("/watch/a-film/a-film.ts"), watch(SessionFile::Transport));
        assert_eq!(Route::of("/watch/a-film/stream.m3u8"), watch(SessionFile::TransportList));
        assert_eq!(Route::of("/watch/a-film/stream.ts"), Route::NotFound);
        assert_eq!(Route::of("/watch/a-film/b-film.mp4"), Route::NotFound);
        assert_eq!(Route::of("/files/a-film.mp4"), Route::Download { title: "a-film".into() });
        assert_eq!(Route::of("/files/../x.mp4"), Route::NotFound);
        assert_eq!(Route::of("/dav/copy/a-film.mp4"), Route::Download { title: "a-film".into() });
        assert_eq!(Route::of("/dav/play/a-film.mp4"), Route::Play { title: "a-film".into() });
        assert!(is_of_dav("/dav/play/a-film.mp4", "PROPFIND") && !is_of_dav("/dav/play/a-film.mp4", "HEAD"));
        assert!(!is_of_dav("/files/a-film.mp4", "PROPFIND"));
        assert_eq!(Route::of("/s/short/master.m3u8"), Route::NotFound);
        assert_eq!(Route::of("/live/studio"), Route::Live { name: "studio".into() });
        assert_eq!(Route::of("/live/studio/x"), Route::NotFound);
        for elsewhere in [
            "/",
            "/api/v1/titles",
            "*",
            "",
            "/watching",
            "/files.html",
            "/dav",
            "/dav/",
            "/dav/play/",
            "/dav/x.mp4",
        ] {
            assert_eq!(Route::of(elsewhere), Route::ControlPlane, "{elsewhere}");
        }
    }
}
