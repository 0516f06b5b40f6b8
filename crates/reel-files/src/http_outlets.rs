//! Outlets of a server that is asked by HTTP.

use crate::http::{HttpServer, escaped, of_http};
use crate::http_media::{of, refusal};
use crate::limits::{ANSWER_BYTES_MAX, BRANCHES_MAX, LEASE};
use crate::line::one_line;
use crate::media::{MediaSession, NotOpened};
use crate::outlets::{OutletFacts, Outlets};
use crate::server::AskError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::time::Instant;
use ureq::Body;
use ureq::http::Response;

impl Outlets for HttpServer {
    fn join(
        &self,
        session: &MediaSession,
        to: &str,
        from_byte: Option<u64>,
        until: Instant,
    ) -> Result<OutletFacts, NotOpened> {
        let path = path_of(session);
        let mut wanted = json!({ "to": to, "lease_s": LEASE.as_secs() });
        if let Some(from_byte) = from_byte {
            wanted["from_byte"] = from_byte.into();
        }
        let response = self.told(of(session, "POST", &path), &wanted, until)?;
        read::<Outlet>(&path, 201, response).map(OutletFacts::from)
    }

    fn replace(
        &self,
        session: &MediaSession,
        outlet: u64,
        to: &str,
        until: Instant,
    ) -> Result<OutletFacts, NotOpened> {
        let path = format!("{}/{outlet}", path_of(session));
        let response = self.told(of(session, "PUT", &path), &json!({ "to": to }), until)?;
        read::<Outlet>(&path, 200, response).map(OutletFacts::from)
    }

    fn outlets(&self, session: &MediaSession, until: Instant) -> Result<Vec<OutletFacts>, NotOpened> {
        let path = path_of(session);
        let list: OutletList = read(&path, 200, self.asked(of(session, "GET", &path), until)?)?;
        Ok(list.outlets.into_iter().take(BRANCHES_MAX).map(OutletFacts::from).collect())
    }
}

#[derive(Deserialize)]
struct OutletList {
    outlets: Vec<Outlet>,
}

#[derive(Deserialize)]
struct Outlet {
    number: u64,
    state: String,
    #[serde(default)]
    reason: Option<String>,
    from_byte: u64,
    bytes: u64,
    late_bytes: u64,
    /// Of servers that say so.
    #[serde(default)]
    run_bytes: u64,
    #[serde(default)]
    pause_ms: f64,
}

impl From<Outlet> for OutletFacts {
    fn from(outlet: Outlet) -> OutletFacts {
        let Outlet { number, state, reason, from_byte, bytes, late_bytes, run_bytes, pause_ms } = outlet;
        let plain = |text: String| one_line(&text).trim_end().to_owned();
        let (state, reason) = (plain(state), reason.map(plain));
        OutletFacts { number, state, reason, from_byte, bytes, late_bytes, run_bytes, pause_ms }
    }
}

fn path_of(session: &MediaSession) -> String {
    format!("/api/v1/sessions/{}/outlets", escaped(&session.key))
}

/// The answer of this status.
fn read<T: DeserializeOwned>(path: &str, status: u16, mut response: Response<Body>) -> Result<T, NotOpened> {
    if response.status().as_u16() != status {
        return Err(refusal(path, response));
    }
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
    let parsed = serde_json::from_slice(&body.map_err(of_http)?);
    Ok(parsed.map_err(|error| AskError::Unusable(format!("{path}: {error}")))?)
}
