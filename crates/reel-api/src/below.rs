//! The path of a host below which the client of a request sees this server.

use crate::ControlConfig;
use axum::extract::FromRequestParts;
use hyper::http::request::Parts;
use reel_serve::{BasePath, normal_path};
use std::convert::Infallible;
use std::net::IpAddr;

/// The path, set on every request by the connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Below(BasePath);

impl Below {
    /// A path of this server as the client sees it. For what is no answer to a path that could be
    /// relative to it: addresses in JSON, and the names of resources of WebDAV.
    pub(super) fn at(&self, path: &str) -> String {
        self.0.at(path)
    }
}

/// Only a router without a server around it, in tests, knows no path.
impl<S: Send + Sync> FromRequestParts<S> for Below {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Tells what answers a request below which path its client sees this server. The path of the
/// request is put into its normal form, so that equal paths get equal answers, and without the path
/// of the configuration: a proxy may have left it there, or taken it off.
pub(super) fn place<B>(request: &mut hyper::Request<B>, peer: IpAddr, config: &ControlConfig) {
    let values = request.headers().get_all("x-forwarded-prefix").iter();
    let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    let said = (!values.is_empty()).then(|| values.join(","));
    let told = config.proxies.base_path(peer, said.as_deref());
    request.extensions_mut().insert(Below(told.unwrap_or_else(|| config.base_path.clone())));
    let normal = normal_path(request.uri().path());
    let path = config.base_path.below(&normal).unwrap_or(&normal);
    if path == request.uri().path() {
        return;
    }
    let target = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = request.uri().clone().into_parts();
    // What was a path is one with an encoded character decoded, and without its beginning.
    parts.path_and_query = target.parse().ok();
    if let Ok(uri) = hyper::Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}
