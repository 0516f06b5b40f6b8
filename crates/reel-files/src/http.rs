//! A server that is asked by its HTTP API.

use crate::http_media::refusal;
use crate::limits::{ANSWER_BYTES_MAX, NAMES_MAX};
use crate::media::NotOpened;
use crate::server::{AskError, ClassFacts, MemberFacts, Server, TitleFacts};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Instant;
use ureq::http::{Request, Response};
use ureq::{Agent, AsSendBody, Body};

/// A server at an address.
pub struct HttpServer {
    agent: Agent,
    /// Whether the server is on this machine, whose users it may know.
    is_local: bool,
    /// Without a slash at its end.
    pub(crate) url: String,
    rate_bps: u64,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// For which user of this machine.
    pub(crate) user: Option<u32>,
}

/// The field of a request that names a user of this machine. The server knows by the kernel whether
/// this program may name others than its own.
const USER_FIELD: &str = "reel-user";

impl<'a> Asking<'a> {
    /// What all users are told.
    pub(crate) fn get(path: &'a str) -> Asking<'a> {
        Asking { method: "GET", path, user: None }
    }

    /// The same for a user.
    pub(crate) fn of(self, user: u32) -> Asking<'a> {
        Asking { user: Some(user), ..self }
    }
}

impl HttpServer {
    /// The server at a URL (`http://HOST:PORT`). The viewers that are counted watch a stream of
    /// `rate_bps`.
    pub fn new(url: &str, rate_bps: u64) -> HttpServer {
        // What redirects is no Reel server.
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0);
        HttpServer {
            agent: Agent::new_with_config(config.build()),
            is_local: is_of_this_machine(url),
            url: url.trim_end_matches('/').to_owned(),
            rate_bps,
        }
    }

    /// The path of its address, below which all others are. Without a slash at its end.
    pub(crate) fn prefix(&self) -> &str {
        let authority = self.url.find("://").map_or(0, |scheme| scheme + 3);
        self.url[authority..].find('/').map_or("", |path| &self.url[authority + path..])
    }

    /// The response to a request without a body.
    pub(crate) fn asked(&self, asking: Asking<'_>, until: Instant) -> Result<Response<Body>, AskError> {
        self.sent(asking, None, (), until)
    }

    /// The response to a request of a range of what is at the path.
    pub(crate) fn asked_range(
        &self,
        asking: Asking<'_>,
        range: &str,
        until: Instant,
    ) -> Result<Response<Body>, AskError> {
        self.sent(asking, Some(("range", range)), (), until)
    }

    /// The response to a request with this body.
    pub(crate) fn told(
        &self,
        asking: Asking<'_>,
        body: &serde_json::Value,
        until: Instant,
    ) -> Result<Response<Body>, AskError> {
        self.sent(asking, Some(("content-type", "application/json")), body.to_string(), until)
    }

    /// The field that names a user, to a server that may know users of this machine.
    pub(crate) fn user_field(&self, user: Option<u32>) -> Option<(&'static str, String)> {
        user.filter(|_| self.is_local).map(|user| (USER_FIELD, user.to_string()))
    }

    fn sent(
        &self,
        Asking { method, path, user }: Asking<'_>,
        field: Option<(&str, &str)>,
        body: impl AsSendBody,
        until: Instant,
    ) -> Result<Response<Body>, AskError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(AskError::Late);
        }
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let user = self.user_field(user);
        let user = user.as_ref().map(|(name, user)| (*name, &**user));
        let fields = field.into_iter().chain(user);
        let request = fields.fold(request, |request, (name, value)| request.header(name, value));
        let request = request.body(body).map_err(|error| AskError::Unusable(error.to_string()))?;
        let request = self.agent.configure_request(request).timeout_global(Some(left)).build();
        self.agent.run(request).map_err(of_http)
    }

    /// What is at a path; `None` if there is nothing (404).
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str, until: Instant) -> Result<Option<T>, AskError> {
        let response = self.asked(Asking::get(path), until)?;
        match response.status().as_u16() {
            404 => Ok(None),
            _ => parsed(path, response).map(Some),
        }
    }

    /// The same for what every server has.
    fn get_all<T: DeserializeOwned>(&self, path: &str, until: Instant) -> Result<T, AskError> {
        self.get(path, until)?.ok_or_else(|| AskError::Unusable(format!("{path}: there is nothing")))
    }
}

impl Server for HttpServer {
    fn titles(&self, until: Instant) -> Result<Vec<TitleFacts>, AskError> {
        let list: TitleList = self.get_all("/api/v1/titles", until)?;
        Ok(list.titles.into_iter().take(NAMES_MAX).map(TitleFacts::from).collect())
    }

    fn title(&self, id: &str, until: Instant) -> Result<Option<TitleFacts>, AskError> {
        let title: Option<Title> = self.get(&format!("/api/v1/titles/{}", escaped(id)), until)?;
        // Another title would be shown under a wrong name.
        Ok(title.filter(|title| title.id == id).map(TitleFacts::from))
    }

    fn members(&self, until: Instant) -> Result<Vec<MemberFacts>, AskError> {
        let dashboard: Dashboard = self.get_all("/api/v1/dashboard", until)?;
        let member = |member: Member| MemberFacts {
            member: member.member,
            state: member.state,
            request_us: member.price.read_request_us,
            mib_us: member.price.read_mib_us,
        };
        Ok(dashboard.members.into_iter().take(NAMES_MAX).map(member).collect())
    }

    fn classes(&self, until: Instant) -> Result<Vec<ClassFacts>, AskError> {
        let classes: Vec<Class> = self.get_all("/api/v1/classes", until)?;
        let class = |class: Class| ClassFacts {
            name: class.name.into(),
            kind: class.kind,
            share_permille: class.share_permille,
            network_permille: class.network_permille,
        };
        Ok(classes.into_iter().take(NAMES_MAX).map(class).collect())
    }

    fn set_classes(&self, classes: &[ClassFacts], until: Instant) -> Result<(), NotOpened> {
        let path = "/api/v1/classes";
        let class = |class: &ClassFacts| Class {
            name: class.name.to_string(),
            kind: class.kind.clone(),
            share_permille: class.share_permille,
            network_permille: class.network_permille,
        };
        let wanted = serde_json::json!(classes.iter().map(class).collect::<Vec<_>>());
        let response = self.told(Asking { method: "PUT", ..Asking::get(path) }, &wanted, until)?;
        match response.status().as_u16() {
            200 => Ok(()),
            _ => Err(refusal(path, response)),
        }
    }

    fn more_viewers(&self, until: Instant) -> Result<u64, AskError> {
        let path = format!("/api/v1/capacity?rate_bps={}", self.rate_bps);
        let capacity: Capacity = self.get_all(&path, until)?;
        // Without admission there are as many as an idle server carries.
        Ok(capacity.more_now.unwrap_or(capacity.viewers))
    }
}

#[derive(Deserialize)]
struct TitleList {
    titles: Vec<Title>,
}

#[derive(Deserialize)]
struct Title {
    id: String,
    name: String,
    duration_s: f64,
    forms: Vec<Form>,
}

#[derive(Deserialize)]
struct Form {
    form: String,
    average_bps: u64,
}

#[derive(Deserialize)]
struct Dashboard {
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    member: u64,
    state: String,
    price: Price,
}

#[derive(Deserialize)]
struct Price {
    read_request_us: f64,
    read_mib_us: f64,
}

#[derive(Deserialize, Serialize)]
struct Class {
    name: String,
    kind: String,
    share_permille: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_permille: Option<u32>,
}

#[derive(Deserialize)]
struct Capacity {
    viewers: u64,
    more_now: Option<u64>,
}

impl From<Title> for TitleFacts {
    fn from(title: Title) -> TitleFacts {
        // What players play, if there is both.
        let played = title.forms.iter().find(|form| form.form == "cmaf").or(title.forms.first());
        TitleFacts {
            rate_bps: played.map(|form| form.average_bps),
            id: title.id.into(),
            name: title.name,
            seconds: title.duration_s,
        }
    }
}

/// What an answer says.
pub(crate) fn parsed<T: DeserializeOwned>(path: &str, mut response: Response<Body>) -> Result<T, AskError> {
    let status = response.status();
    if !status.is_success() {
        return Err(AskError::Unusable(format!("{path}: status {status}")));
    }
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
    let parsed = serde_json::from_slice(&body.map_err(of_http)?);
    parsed.map_err(|error| AskError::Unusable(format!("{path}: {error}")))
}

pub(crate) fn of_http(error: ureq::Error) -> AskError {
    match error {
        ureq::Error::Timeout(_) => AskError::Late,
        ureq::Error::BodyExceedsLimit(bytes) => AskError::Unusable(format!("more than {bytes} bytes")),
        other => AskError::Unreachable(other.to_string()),
    }
}

/// Whether a URL names this machine.
fn is_of_this_machine(url: &str) -> bool {
    let uri = url.parse::<ureq::http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.to_canonical().is_loopback())
}

/// A name as a segment of a path of a URL (RFC 3986, section 2.3).
pub(crate) fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_path() {
        for (url, prefix) in [
            ("http://h:1", ""),
            ("http://h:1/", ""),
            ("http://h:1/reel", "/reel"),
            ("http://h/a/b/", "/a/b"),
            ("h:1/reel", "/reel"),
        ] {
            assert_eq!(HttpServer::new(url, 1).prefix(), prefix, "{url}");
        }
    }

    #[test]
    fn no_name_leads_to_another_path() {
        assert_eq!(escaped("a-film_2~"), "a-film_2~");
        assert_eq!(escaped("../a?b#c%\u{e9}"), "%2E%2E%2Fa%3Fb%23c%25%C3%A9");
    }

    #[test]
    fn only_a_server_on_this_machine_is_told_of_its_users() {
        for (url, is_local) in [
            ("http://127.0.0.1:8080", true),
            ("http://127.1.2.3", true),
            ("http://[::1]:8080", true),
            ("https://localhost/reel", true),
            ("http://192.0.2.1:8080", false),
            ("http://localhost.example.org", false),
            ("nonsense", false),
        ] {
            let field = HttpServer::new(url, 1).user_field(Some(1000));
            assert_eq!(field, is_local.then(|| ("reel-user", "1000".to_owned())), "{url}");
            assert_eq!(HttpServer::new(url, 1).user_field(None), None);
        }
    }

    #[test]
    fn a_title_has_the_rate_of_what_players_play() {
        let title = |forms: &str| {
            let json = format!(r#"{{"id":"a","name":"A","duration_s":1.5,"forms":[{forms}],"more":1}}"#);
            TitleFacts::from(serde_json::from_str::<Title>(&json).expect("a title"))
        };
        let (ts, cmaf) = (r#"{"form":"ts","average_bps":2}"#, r#"{"form":"cmaf","average_bps":1}"#);
        assert_eq!(title(&format!("{ts},{cmaf}")).rate_bps, Some(1));
        assert_eq!(title(ts).rate_bps, Some(2));
        assert_eq!(title("").rate_bps, None);
    }
}
