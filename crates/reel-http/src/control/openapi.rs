//! The description of the interface: OpenAPI 3.1. Checked against the routes by a test.

use serde_json::{Value, json};

/// The document served at `/api/v1/openapi.json`. Operations tagged `media` are answered by the data plane.
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Reel",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A media-on-demand server whose admitted viewers never stall. Sizes are in bytes, times in \
                            seconds unless the name says otherwise. Every error is a problem document (RFC 9457). \
                            Changes asked for by a browser on behalf of another site are refused with 403.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" }
        },
        "tags": [
            { "name": "titles", "description": "Films and songs" },
            { "name": "sessions", "description": "Viewers that have been admitted" },
            { "name": "server", "description": "Volume, jobs, health" },
            { "name": "pages", "description": "For people" },
            { "name": "media", "description": "Plain addresses for players" }
        ],
        "paths": paths(),
        "components": { "schemas": schemas() }
    })
}

fn paths() -> Value {
    let id = || json!([parameter("path", "id", "A title's id", true, json!({ "type": "string" }))]);
    json!({
        "/api/v1/titles": {
            "get": operation("titles", "listTitles", "All titles, by name", json!({
                "200": ok("The titles", list_of("titles", "Title")),
            })),
            "post": {
                "tags": ["titles"],
                "operationId": "uploadTitle",
                "summary": "Take a film: the body is the file itself",
                "description": "MP4, MOV, Matroska, WebM or MPEG-TS; codecs are kept as they are. The answer comes when the \
                                file has arrived; storing it goes on as a job unless wait is set.",
                "parameters": [
                    parameter("query", "filename", "The file's name", false, json!({ "type": "string" })),
                    parameter("query", "name", "The title's name; without it, made from filename", false, json!({ "type": "string" })),
                    parameter("query", "wait", "Answer only when the title can be played", false, json!({ "type": "boolean", "default": false })),
                ],
                "requestBody": { "required": true, "content": { "application/octet-stream": {} } },
                "responses": with_problem(json!({
                    "201": ok("With wait: the title", reference("Title")),
                    "202": ok("The job; Location is its address", reference("Job")),
                    "413": problem("Larger than upload.max_bytes"),
                    "415": problem("The body is a form, not a file"),
                    "422": problem("Not a film that can be taken; the detail says why"),
                    "503": problem("Too many uploads at once"),
                    "507": problem("The volume or the spool directory is full"),
                })),
            }
        },
        "/api/v1/titles/{id}": {
            "parameters": id(),
            "get": operation("titles", "getTitle", "One title", json!({ "200": ok("The title", reference("Title")), "404": problem("No such title") })),
            "delete": operation("titles", "removeTitle", "Remove a title", json!({ "204": { "description": "Removed; who plays it may finish" }, "404": problem("No such title") })),
        },
        "/api/v1/jobs": {
            "get": operation("server", "listJobs", "Jobs running and lately ended, newest first", json!({ "200": ok("The jobs", list_of("jobs", "Job")) })),
        },
        "/api/v1/jobs/{id}": {
            "parameters": [parameter("path", "id", "A job's id", true, json!({ "type": "string" }))],
            "get": operation("server", "getJob", "One job", json!({ "200": ok("The job", reference("Job")), "404": problem("No such job") })),
        },
        "/api/v1/sessions": {
            "get": operation("sessions", "listSessions", "All sessions", json!({ "200": ok("The sessions", list_of("sessions", "Session")) })),
            "post": {
                "tags": ["sessions"],
                "operationId": "openSession",
                "summary": "Ask for a title to be played without stalls",
                "requestBody": { "required": true, "content": { "application/json": { "schema": {
                    "type": "object", "required": ["title"], "additionalProperties": false,
                    "properties": { "title": { "type": "string", "description": "A title's id" } }
                } } } },
                "responses": with_problem(json!({
                    "201": ok("Granted; Location is the session's address", reference("Session")),
                    "404": problem("No such title"),
                    "415": problem("The body is not JSON"),
                    "503": problem("Refused: the detail says what is exhausted, Retry-After when to ask again"),
                })),
            }
        },
        "/api/v1/sessions/{key}": {
            "parameters": [parameter("path", "key", "A session's key", true, json!({ "type": "string" }))],
            "delete": operation("sessions", "closeSession", "End a session", json!({ "204": { "description": "Ended" }, "404": problem("No such session") })),
        },
        "/api/v1/volume": {
            "get": operation("server", "getVolume", "The volume and its members", json!({ "200": ok("Its state", reference("Volume")) })),
        },
        "/api/v1/openapi.json": {
            "get": operation("server", "getOpenApi", "This document", json!({ "200": ok("OpenAPI 3.1", json!({ "type": "object" })) })),
        },
        "/healthz": {
            "get": operation("server", "isAlive", "The process answers", json!({ "200": text("ok", "text/plain") })),
        },
        "/readyz": {
            "get": operation("server", "isReady", "Films can be played", json!({
                "200": ok("Yes", reference("Readiness")),
                "503": ok("No; the checks say why", reference("Readiness")),
            })),
        },
        "/metrics": {
            "get": operation("server", "getMetrics", "Counters for Prometheus", json!({ "200": text("Text exposition format 0.0.4", "text/plain") })),
        },
        "/img/{file}": {
            "parameters": [parameter("path", "file", "{id}.jpg or {id}.svg, as the title's poster field says", true, json!({ "type": "string" }))],
            "get": operation("titles", "getPoster", "A title's poster", json!({
                "200": { "description": "The picture", "content": { "image/jpeg": {}, "image/svg+xml": {} } },
                "304": { "description": "As the client has it" },
                "404": problem("No such poster"),
            })),
        },
        "/": { "get": operation("pages", "libraryPage", "The library", json!({ "200": text("The page", "text/html") })) },
        "/title/{id}": {
            "parameters": id(),
            "get": operation("pages", "playerPage", "The player", json!({ "200": text("The page", "text/html"), "404": text("The page, saying that there is no such title", "text/html") })),
        },
        "/assets/{file}": {
            "parameters": [parameter("path", "file", "A built file", true, json!({ "type": "string" }))],
            "get": operation("pages", "asset", "Scripts and styles of the pages", json!({ "200": { "description": "The file" }, "304": { "description": "As the client has it" }, "404": problem("No such file") })),
        },
        "/watch/{id}/master.m3u8": media(id(), "watchHls", "Opens a session and leads to its HLS playlist"),
        "/watch/{id}/manifest.mpd": media(id(), "watchDash", "Opens a session and leads to its DASH manifest"),
        "/watch/{id}/{name}.mp4": media(
            json!([
                parameter("path", "id", "A title's id", true, json!({ "type": "string" })),
                parameter("path", "name", "The same id again", true, json!({ "type": "string" })),
            ]),
            "watchProgressive",
            "Opens a session and leads to one MP4 file, for players without HLS or DASH",
        ),
        "/files/{id}.mp4": {
            "parameters": id(),
            "get": operation("media", "download", "The title as one MP4 file, without a promise of speed", json!({
                "200": { "description": "All of it", "content": { "video/mp4": {} } },
                "206": { "description": "The range asked for", "content": { "video/mp4": {} } },
                "404": problem("No such title"),
            })),
        },
    })
}

fn schemas() -> Value {
    let text = || json!({ "type": "string" });
    let bytes = || json!({ "type": "integer", "format": "int64", "minimum": 0 });
    let count = || json!({ "type": "integer", "minimum": 0 });
    let or_null = |kind: &str| json!({ "type": [kind, "null"] });
    json!({
        "Title": object(json!({
            "id": text(),
            "name": text(),
            "duration_s": { "type": "number" },
            "added": { "type": "string", "format": "date-time" },
            "bytes": bytes(),
            "video": array(object(json!({
                "track": count(), "width": count(), "height": count(), "codec": text(),
                "frame_rate": { "type": "number" }, "bitrate_bps": bytes(),
            }), &[])),
            "audio": array(object(json!({
                "track": count(), "language": text(), "name": text(), "codec": text(), "channels": count(),
                "sample_rate": count(), "default": { "type": "boolean" },
            }), &[])),
            "subtitles": array(object(json!({
                "track": count(), "language": text(), "name": text(), "forced": { "type": "boolean" },
            }), &[])),
            "poster": text(),
            "watch": object(json!({ "hls": text(), "dash": text(), "progressive": text() }), &[]),
            "download": text(),
            "problem": { "type": "string", "description": "Present when the title cannot be played: why" },
        }), &["problem"]),
        "Job": object(json!({
            "id": text(),
            "file_name": text(),
            "state": { "type": "string", "enum": ["receiving", "ingesting", "done", "failed"] },
            "done_bytes": bytes(),
            "total_bytes": or_null("integer"),
            "rate_bytes_per_s": bytes(),
            "eta_s": or_null("integer"),
            "title_id": or_null("string"),
            "error": or_null("string"),
            "warnings": array(text()),
        }), &[]),
        "Session": object(json!({
            "key": text(), "title": text(), "hls": text(), "dash": text(), "progressive": text(), "expires_in_s": count(),
        }), &[]),
        "Volume": object(json!({
            "id": text(),
            "writable": { "type": "boolean" },
            "state": { "type": "string", "enum": ["ok", "degraded", "failed"] },
            "bytes": bytes(),
            "free_bytes": bytes(),
            "titles": count(),
            "geometry": object(json!({
                "data_rows": count(), "parity_rows": count(), "symbol_bytes": count(), "row_symbols": count(),
                "unit_rows": count(), "unit_bytes": bytes(), "stripe_bytes": bytes(),
            }), &[]),
            "members": array(object(json!({
                "member": count(),
                "path": text(),
                "in_use": { "type": "boolean" },
                "state": { "type": "string", "enum": ["present", "swapped", "repaired", "missing", "truncated", "damaged", "foreign", "stale", "failed"] },
                "text": text(),
            }), &[])),
        }), &[]),
        "Readiness": object(json!({
            "ready": { "type": "boolean" },
            "checks": array(object(json!({ "name": text(), "ok": { "type": "boolean" }, "detail": text() }), &[])),
        }), &[]),
        "Problem": object(json!({
            "type": { "type": "string", "format": "uri-reference" },
            "title": text(),
            "status": count(),
            "detail": text(),
        }), &[]),
    })
}

fn operation(tag: &str, id: &str, summary: &str, responses: Value) -> Value {
    json!({ "tags": [tag], "operationId": id, "summary": summary, "responses": with_problem(responses) })
}

fn media(parameters: Value, id: &str, summary: &str) -> Value {
    json!({
        "parameters": parameters,
        "get": operation("media", id, summary, json!({
            "302": { "description": "To the session's own address" },
            "404": problem("No such title"),
            "503": problem("Refused: one more viewer cannot be promised a smooth film"),
        })),
    })
}

fn with_problem(mut responses: Value) -> Value {
    if let Some(map) = responses.as_object_mut() {
        map.insert("default".to_owned(), problem("Anything else that went wrong"));
    }
    responses
}

fn parameter(place: &str, name: &str, description: &str, required: bool, schema: Value) -> Value {
    json!({ "in": place, "name": name, "description": description, "required": required, "schema": schema })
}

fn ok(description: &str, schema: Value) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn text(description: &str, media_type: &str) -> Value {
    json!({ "description": description, "content": { media_type: { "schema": { "type": "string" } } } })
}

fn problem(description: &str) -> Value {
    json!({ "description": description, "content": { "application/problem+json": { "schema": reference("Problem") } } })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn list_of(field: &str, schema: &str) -> Value {
    object(json!({ field: array(reference(schema)) }), &[])
}

fn array(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// An object all of whose properties are present but the `optional` ones.
fn object(properties: Value, optional: &[&str]) -> Value {
    let required: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flat_map(|map| map.keys())
        .filter(|key| !optional.contains(&key.as_str()))
        .collect();
    json!({ "type": "object", "required": required, "properties": properties })
}
