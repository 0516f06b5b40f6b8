//! Sessions of a server that is asked by HTTP.

use crate::http::{Asking, HttpServer, escaped, of_http, parsed};
use crate::limits::REFUSAL_BYTES_MAX;
use crate::line::one_line;
use crate::media::{FileForm, Media, MediaSession, NotOpened, OpenAs, PouredStream, Refused};
use crate::reference::resolved;
use crate::server::AskError;
use crate::times::FileTimes;
use serde::Deserialize;
use std::ops::Range;
use std::time::Instant;
use ureq::Body;
use ureq::http::Response;

impl Media for HttpServer {
    fn file_times(&self, title: &str, form: FileForm, until: Instant) -> Result<FileTimes, NotOpened> {
        let query = if form == FileForm::Ts { "?form=ts" } else { "" };
        let path = format!("/api/v1/titles/{}/file-times{query}", escaped(title));
        let response = self.asked(Asking::get(&path), until)?;
        if response.status().as_u16() == 404 {
            return Err(refusal(&path, response));
        }
        let Times { bytes, duration_ns, stretches } = parsed(&path, response)?;
        let stretches = stretches.into_iter().map(|stretch| (stretch.byte, stretch.at_ns)).collect();
        let times = FileTimes::new(bytes, duration_ns, stretches);
        times.ok_or_else(|| AskError::Unusable(format!("{path}: no file has such times")).into())
    }

    fn open(
        &self,
        title: &str,
        form: FileForm,
        as_of: OpenAs<'_>,
        until: Instant,
    ) -> Result<MediaSession, NotOpened> {
        let (title, class) = (escaped(title), escaped(as_of.class));
        let extension = if form == FileForm::Ts { "ts" } else { "mp4" };
        let file = format!("/watch/{title}/{title}.{extension}");
        let path = format!("{file}?class={class}");
        let response = self.asked(Asking::get(&path).of(as_of.user), until)?;
        if response.status().as_u16() != 307 {
            return Err(refusal(&path, response));
        }
        let location = response.headers().get("location").and_then(|value| value.to_str().ok());
        let asked = format!("{}{file}", self.prefix());
        let led_to = location.and_then(|location| resolved(&asked, location));
        let session =
            led_to.as_deref().and_then(|path| session_at(path.strip_prefix(self.prefix())?, as_of.user));
        session.ok_or_else(|| AskError::Unusable(format!("{path}: {location:.200?} is no session")).into())
    }

    fn change_class(&self, session: &MediaSession, class: &str, until: Instant) -> Result<(), NotOpened> {
        let path = format!("/api/v1/sessions/{}", escaped(&session.key));
        let response =
            self.told(of(session, "PATCH", &path), &serde_json::json!({ "class": class }), until)?;
        match response.status().as_u16() {
            200 => Ok(()),
            _ => Err(refusal(&path, response)),
        }
    }

    fn piece(&self, session: &MediaSession, range: Range<u64>, until: Instant) -> Result<Vec<u8>, NotOpened> {
        let path = &session.path;
        let (first, last) = (range.start, range.end.saturating_sub(1));
        let mut response =
            self.asked_range(of(session, "GET", path), &format!("bytes={first}-{last}"), until)?;
        if response.status().as_u16() != 206 {
            return Err(refusal(path, response));
        }
        let told = response.headers().get("content-range").and_then(|value| value.to_str().ok());
        if !told.is_some_and(|told| told.starts_with(&format!("bytes {first}-{last}/"))) {
            return Err(AskError::Unusable(format!("{path}: {told:.80?} instead of {first}-{last}")).into());
        }
        let bytes = range.end - range.start;
        let body = response.body_mut().with_config().limit(bytes).read_to_vec().map_err(of_http)?;
        match body.len() as u64 == bytes {
            true => Ok(body),
            false => {
                Err(AskError::Unusable(format!("{path}: {} bytes instead of {bytes}", body.len())).into())
            }
        }
    }

    fn end(&self, session: &MediaSession, until: Instant) -> Result<(), AskError> {
        let path = format!("/api/v1/sessions/{}", escaped(&session.key));
        let response = self.asked(of(session, "DELETE", &path), until)?;
        match response.status().as_u16() {
            // Of one that has ended meanwhile.
            204 | 404 => Ok(()),
            status => Err(AskError::Unusable(format!("{path}: status {status}"))),
        }
    }

    fn poured_bps(&self, name: &str, until: Instant) -> Result<Option<u64>, AskError> {
        self.rate_of_poured(name, until)
    }

    fn open_to_join(&self, name: &str, as_of: OpenAs<'_>, until: Instant) -> Result<MediaSession, NotOpened> {
        self.poured_session(name, as_of, until)
    }

    fn open_poured(&self, name: &str, as_of: OpenAs<'_>, until: Instant) -> Result<PouredStream, NotOpened> {
        self.poured_stream(name, as_of, until)
    }
}

#[derive(Deserialize)]
struct Times {
    bytes: u64,
    duration_ns: u64,
    stretches: Vec<Stretch>,
}

#[derive(Deserialize)]
struct Stretch {
    byte: u64,
    at_ns: u64,
}

/// A request of the user whose session it is.
pub(crate) fn of<'a>(session: &MediaSession, method: &'a str, path: &'a str) -> Asking<'a> {
    Asking { method, path, user: Some(session.user) }
}

/// The session of a path; `None` for what is none. It becomes a part of requests.
fn session_at(path: &str, user: u32) -> Option<MediaSession> {
    let (key, file) = path.strip_prefix("/s/")?.split_once('/')?;
    let is_plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_~.+".contains(&b))
    };
    let is_file = is_plain(file)
        && (file.ends_with(".mp4") || file.ends_with(".ts"))
        && key.bytes().all(|b| b.is_ascii_alphanumeric());
    (is_plain(key) && is_file).then(|| MediaSession { user, key: key.to_owned(), path: path.to_owned() })
}

/// What a server says that does not do what it was asked for.
pub(crate) fn refusal(path: &str, mut response: Response<Body>) -> NotOpened {
    let status = response.status().as_u16();
    if !(400..600).contains(&status) {
        return AskError::Unusable(format!("{path}: status {status}")).into();
    }
    match response.body_mut().with_config().limit(REFUSAL_BYTES_MAX).read_to_vec() {
        Ok(text) => refused(status, &text),
        Err(error) => of_http(error).into(),
    }
}

/// An answer of this status that refuses.
pub(crate) fn refused(status: u16, text: &[u8]) -> NotOpened {
    let problem: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
    let word = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
    let detail = match word("detail") {
        detail if detail.is_empty() => format!("the server answers {status}"),
        detail => detail,
    };
    // Parsed and written again, it has one line.
    let json = one_line(&problem.to_string()).trim_end().to_owned();
    NotOpened::Refused(Refused {
        status,
        kind: word("type"),
        is_never: problem["never"] == true,
        detail,
        json,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_sessions_are_asked_for() {
        let session = session_at("/s/00ff/a-film.mp4", 7).expect("a session");
        assert_eq!((session.user, &*session.key, &*session.path), (7, "00ff", "/s/00ff/a-film.mp4"));
        assert!(session_at("/s/00ff/a-film+a-song.mp4", 7).is_some(), "of a merged title");
        for location in [
            "",
            "/s/",
            "/s/00ff",
            "/s//a.mp4",
            "/s/00ff/",
            "/s/00ff/a.mpd",
            "/s/00ff/b/a.mp4",
            "/s/../a.mp4",
            "/s/00ff/a.mp4?x",
            "/s/00ff/a b.mp4",
            "/s/00ff/a\r\nb.mp4",
            "http://evil/s/00ff/a.mp4",
            "//evil/s/00ff/a.mp4",
        ] {
            assert_eq!(session_at(location, 7), None, "{location}");
        }
    }
}
