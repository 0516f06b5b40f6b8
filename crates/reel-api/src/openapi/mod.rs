//! The description of the interface: OpenAPI 3.1. The schemas are made from the types of
//! [`super::wire`]; a test holds the paths equal to the routes.

mod describe;
mod paths;
#[cfg(test)]
mod typescript;

use describe::Describe;
use serde_json::{Value, json};

/// The document served at `/api/v1/openapi.json`. Operations tagged `media` are answered by the
/// data plane.
pub fn document() -> Value {
    let mut describe = Describe::new();
    let paths = paths::all(&mut describe);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Reel",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A media-on-demand server whose admitted viewers never stall. Sizes are in bytes, times in \
                            seconds unless the name says otherwise. Every error is a problem document (RFC 9457). \
                            Location is relative to the address of the request. \
                            Changes that a browser requests on behalf of another site, or under a name that is not \
                            this server's, are refused with 403.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" }
        },
        "tags": [
            { "name": "titles", "description": "Films and songs" },
            { "name": "sessions", "description": "Viewers that have been admitted" },
            { "name": "casts", "description": "Titles that are sent to groups" },
            { "name": "admission", "description": "What is reserved, for which sessions, and whether it is kept" },
            { "name": "server", "description": "Volume, jobs, health" },
            { "name": "pages", "description": "For people" },
            { "name": "media", "description": "Plain addresses for players. Below /dav/ WebDAV (RFC 4918, class 1) \
                            lists the files of /dav/play/ and /dav/copy/ with PROPFIND, a method that this \
                            document cannot describe" }
        ],
        "paths": paths,
        "components": { "schemas": describe.into_schemas() }
    })
}
