//! A running server, asked over HTTP.

use crate::failure::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use ureq::{Agent, Body, http};

/// A running server.
pub(crate) struct Remote {
    agent: Agent,
    /// Without a slash at its end.
    url: String,
}

/// Longer than any answer takes, a start that waits for disks included.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

impl Remote {
    /// The server of a URL, for example `http://127.0.0.1:8080`.
    pub(crate) fn new(url: &str) -> Result<Remote, Failure> {
        let config = Agent::config_builder().timeout_global(Some(ANSWER_TIME)).http_status_as_error(false);
        Ok(Remote { agent: Agent::new_with_config(config.build()), url: plain_url(url)? })
    }

    /// The whole address of a path that the server gave. It is complete if the server knows below
    /// which path it is, and this is an address there.
    pub(crate) fn address_of(&self, path: &str) -> String {
        let authority = self.url.find("://").map_or(0, |scheme| scheme + 3);
        let (host, below) =
            self.url.split_at(self.url[authority..].find('/').map_or(self.url.len(), |at| authority + at));
        match path.strip_prefix(below) {
            Some(rest) if rest.starts_with('/') => format!("{host}{path}"),
            _ => self.address(path),
        }
    }

    /// The whole address of a path.
    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// What is at a path, as JSON.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.json(&self.text(path)?)
    }

    /// What is at a path for a query, as JSON.
    pub(crate) fn get_with<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, Failure> {
        let query = query.iter().map(|(name, value)| (*name, value));
        self.json(&self.answer(self.agent.get(self.address(path)).query_pairs(query).call())?)
    }

    /// What is at a path.
    pub(crate) fn text(&self, path: &str) -> Result<String, Failure> {
        self.answer(self.agent.get(self.address(path)).call())
    }

    /// Sends JSON to a path, and returns the answer.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        let body = serde_json::to_string(body).map_err(Failure::failed)?;
        let request = self.agent.post(self.address(path)).header("content-type", "application/json");
        self.json(&self.answer(request.send(body))?)
    }

    /// Removes what is at a path.
    pub(crate) fn delete(&self, path: &str) -> Result<(), Failure> {
        self.answer(self.agent.delete(self.address(path)).call()).map(drop)
    }

    fn json<T: DeserializeOwned>(&self, text: &str) -> Result<T, Failure> {
        serde_json::from_str(text).map_err(|error| {
            Failure::failed(format!("{} does not answer as a Reel server of this version: {error}", self.url))
        })
    }

    /// The body of a response. A problem document becomes a failure with its words.
    fn answer(&self, response: Result<http::Response<Body>, ureq::Error>) -> Result<String, Failure> {
        let mut response = response.map_err(|error| {
            Failure::failed(format!("no server answers at {}: {error}", self.url))
                .help("start one (reel serve), or name its address with --server")
        })?;
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| Failure::failed(format!("{} breaks off: {error}", self.url)))?;
        if response.status().is_success() {
            return Ok(text);
        }
        let problem: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let part = |name: &str| problem[name].as_str().map(str::to_owned);
        let detail = part("detail").unwrap_or_else(|| format!("{} answers {}", self.url, response.status()));
        let failure = Failure::failed(detail);
        Err(match part("help") {
            Some(help) => failure.help(help),
            None => failure,
        })
    }
}

/// A URL as commands ask it: of HTTP without TLS, and without a slash at its end.
pub(crate) fn plain_url(url: &str) -> Result<String, Failure> {
    if url.starts_with("https:") {
        let what = format!("cannot ask {url}: this command speaks HTTP without TLS");
        return Err(
            Failure::usage(what).help("name the plain address of the server, such as http://127.0.0.1:8080")
        );
    }
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    Ok(url.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_gives_is_below_its_address_once() {
        for (server, path, address) in [
            ("http://h:1", "/casts/a.sdp", "http://h:1/casts/a.sdp"),
            ("h:1/", "/casts/a.sdp", "http://h:1/casts/a.sdp"),
            ("http://h:1/reel/", "/casts/a.sdp", "http://h:1/reel/casts/a.sdp"),
            ("http://h:1/reel", "/reel/casts/a.sdp", "http://h:1/reel/casts/a.sdp"),
            ("http://h:1/reel", "/reels/a", "http://h:1/reel/reels/a"),
        ] {
            let remote = Remote::new(server).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(remote.address_of(path), address, "{server} {path}");
        }
    }
}
