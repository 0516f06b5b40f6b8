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
                            Changes asked for by a browser on behalf of another site, or under a name that is not this server's, are refused with 403.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" }
        },
        "tags": [
            { "name": "titles", "description": "Films and songs" },
            { "name": "sessions", "description": "Viewers that have been admitted" },
            { "name": "promises", "description": "What is promised, to whom, and how it is kept" },
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
            "delete": operation("server", "cancelJob", "Ask a job to end", json!({
                "202": ok("The job as it is; it ends soon", reference("Job")),
                "404": problem("No such job"),
                "409": problem("The job is over already"),
            })),
        },
        "/api/v1/dashboard": {
            "get": operation("promises", "getDashboard", "How the promises stand: members, resources, classes, sessions, refusals, jobs", json!({ "200": ok("Everything", reference("Dashboard")) })),
        },
        "/api/v1/classes": {
            "get": operation("promises", "getClasses", "The classes of traffic and their shares", json!({ "200": ok("All of them", array(reference("Class"))) })),
            "put": {
                "tags": ["promises"],
                "operationId": "setClasses",
                "summary": "Change the classes and their shares",
                "description": "All of them at once: the shares of all classes make 1000 thousandths. Holds until the server ends; what was \
                                promised stays promised.",
                "requestBody": { "required": true, "content": { "application/json": { "schema": array(reference("Class")) } } },
                "responses": with_problem(json!({
                    "200": ok("All of them as they are now", array(reference("Class"))),
                    "415": problem("The body is not JSON"),
                    "422": problem("They do not add up, or a name or kind is not possible; the detail says which"),
                })),
            }
        },
        "/api/v1/capacity": {
            "get": {
                "tags": ["promises"],
                "operationId": "getCapacity",
                "summary": "How many viewers of a stream of this rate can be promised it",
                "parameters": [parameter("query", "rate_bps", "The rate of a stream, in bits per second", true, json!({ "type": "integer", "minimum": 1 }))],
                "responses": with_problem(json!({
                    "200": ok("The numbers", reference("Capacity")),
                    "400": problem("No rate, or not one that can be"),
                })),
            }
        },
        "/api/v1/volume/scrub": volume_job("scrubVolume", "Read all that is stored and mend what is damaged", None),
        "/api/v1/volume/rebuild": volume_job("rebuildVolume", "Compute what members lack from the others", None),
        "/api/v1/volume/replace": volume_job("replaceMember", "Put another file or device in the place of a member", Some(
            object(json!({
                "member": { "type": "integer", "minimum": 0 },
                "path": { "type": "string", "description": "An absolute path on the server" },
            }), &[]),
        )),
        "/api/v1/sessions": {
            "get": operation("sessions", "listSessions", "All sessions", json!({ "200": ok("The sessions", list_of("sessions", "ListedSession")) })),
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
                    "503": refusal("Refused: what is short and what could have been granted; Retry-After says when to ask again. \
                                    Of type urn:reel:problem:too-long, and without Retry-After, if the title is longer than what can ever be promised"),
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
        "/dashboard": { "get": operation("pages", "dashboardPage", "How the promises stand", json!({ "200": text("The page", "text/html") })) },
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
    let number = || json!({ "type": "number" });
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
            "kind": { "type": "string", "enum": ["ingest", "scrub", "rebuild", "replace"] },
            "file_name": { "type": "string", "description": "The file; of work on the volume, what is worked on" },
            "state": { "type": "string", "enum": ["receiving", "ingesting", "running", "done", "failed", "cancelled"] },
            "done_bytes": bytes(),
            "total_bytes": or_null("integer"),
            "rate_bytes_per_s": bytes(),
            "eta_s": or_null("integer"),
            "title_id": or_null("string"),
            "error": or_null("string"),
            "result": or_null("string"),
            "warnings": array(text()),
        }), &[]),
        "Class": object(json!({
            "name": text(),
            "kind": { "type": "string", "enum": ["periodic", "interactive", "aperiodic"] },
            "share_permille": { "type": "integer", "minimum": 1, "maximum": 1000 },
        }), &[]),
        "Capacity": object(json!({
            "rate_bps": count(),
            "viewers": { "type": "integer", "minimum": 0, "description": "With nobody else there" },
            "stopped_by": or_null("string"),
            "more_now": { "type": ["integer", "null"], "description": "Beside those who are there; null if nothing is promised" },
        }), &[]),
        "Dashboard": object(json!({
            "now_s": count(),
            "round_ns": count(),
            "volume": object(json!({
                "state": { "type": "string", "enum": ["ok", "degraded", "failed"] },
                "writable": { "type": "boolean" },
            }), &[]),
            "members": array(object(json!({
                "member": count(), "path": text(), "state": text(), "in_use": { "type": "boolean" }, "text": text(), "policy": text(),
                "rounds": count(),
                "slack_ms": { "type": "number", "description": "Below 0, some of what is promised will be late" },
                "least_slack_ms": number(),
                "late": count(), "queued": count(), "in_device": count(), "errors": count(),
                "price": object(json!({
                    "read_request_us": number(), "read_mib_us": number(),
                    "independent_limits": { "type": "boolean", "description": "Requests and bytes have independent limits: the longer of both decides, not the sum" },
                }), &[]),
                "classes": array(object(json!({
                    "class": text(), "queued": count(), "quota_ms": number(), "used_ms": number(), "total_ms": number(), "bytes": bytes(),
                }), &[])),
            }), &[])),
            "resources": array(object(json!({
                "resource": text(),
                "unit": { "type": "string", "enum": ["ns", "bytes"], "description": "Of time or bytes in a round; of media memory, bytes held" },
                "used": count(),
                "capacity": { "type": ["integer", "null"], "description": "null: not known, and nothing is refused for its sake" },
                "peak_used": count(),
            }), &[])),
            "classes": array(object(json!({
                "name": text(), "kind": text(), "share_permille": count(), "sent_bytes": bytes(), "deadline_misses": count(),
            }), &[])),
            "sessions_total": count(),
            "sessions_reserved": { "type": "integer", "minimum": 0, "description": "Those that hold a reservation" },
            "sessions": array(object(json!({
                "key_hint": text(), "title": text(), "client": text(), "class": text(), "rate_bps": count(),
                "state": { "type": "string", "enum": ["playing", "paused", "unpromised"] },
                "reserved": { "type": "boolean" }, "position_s": count(), "sent_bytes": bytes(), "age_s": count(),
            }), &[])),
            "sharing": object(json!({
                "groups": { "type": "integer", "description": "Groups of sessions that play the same closely enough that one reads for all" },
                "followers": { "type": "integer", "description": "Sessions in them that find in memory what others have read" },
                "kept_bytes": { "type": "integer", "description": "Media memory that is promised to them" },
            }), &[]),
            "refusals": array(object(json!({ "resource": text(), "count": count() }), &[])),
            "jobs": array(reference("Job")),
        }), &[]),
        "Refusal": object(json!({
            "type": {
                "type": "string",
                "format": "uri-reference",
                "description": "urn:reel:problem:not-admitted; urn:reel:problem:too-long if asking again is of no use",
            },
            "title": text(),
            "status": count(),
            "detail": text(),
            "resource": { "type": "string", "description": "What is short" },
            "asked": { "type": "integer", "description": "Of it in one round, in its own unit: nanoseconds or bytes" },
            "available": { "type": "integer", "description": "What is left in that round" },
            "grantable_rate_bps": { "type": "integer", "description": "The rate at which the same stream could have been granted; 0: none" },
            "retry_after_s": { "type": "integer", "minimum": 0, "description": "Absent if asking again is of no use" },
        }), &["resource", "asked", "available", "grantable_rate_bps", "retry_after_s"]),
        "ListedSession": object(json!({ "key_hint": text(), "title": text(), "expires_in_s": count() }), &[]),
        "Session": object(json!({
            "key": text(), "title": text(), "hls": text(), "dash": text(),
            "progressive": { "type": "string", "description": "Instead of hls or dash: a session is promised what is asked for first" },
            "expires_in_s": count(),
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
                "state": { "type": "string", "enum": ["present", "swapped", "repaired", "missing", "denied", "truncated", "damaged", "foreign", "stale", "failed", "rebuilding"] },
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
            "job": { "type": "string", "description": "The job that is in the way" },
        }), &["job"]),
    })
}

fn operation(tag: &str, id: &str, summary: &str, responses: Value) -> Value {
    json!({ "tags": [tag], "operationId": id, "summary": summary, "responses": with_problem(responses) })
}

fn media(parameters: Value, id: &str, summary: &str) -> Value {
    json!({
        "parameters": parameters,
        "get": operation("media", id, summary, json!({
            "307": { "description": "To the session's own address" },
            "404": problem("No such title"),
            "503": refusal("Refused: one more viewer cannot be promised a smooth film, or nobody can, because it is too long"),
        })),
    })
}

/// Long work on the volume; `body` is the schema of what it takes, if anything.
fn volume_job(id: &str, summary: &str, body: Option<Value>) -> Value {
    let mut post = operation(
        "server",
        id,
        summary,
        json!({
            "202": ok("The job; Location is its address", reference("Job")),
            "409": problem("The volume is being worked on already"),
            "503": problem("The volume is open for reading only"),
        }),
    );
    if let Some(schema) = body {
        post["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        post["responses"]["422"] = problem("There is no such member, or the path is not absolute");
    }
    json!({ "post": post })
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

fn refusal(description: &str) -> Value {
    json!({ "description": description, "content": { "application/problem+json": { "schema": reference("Refusal") } } })
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
