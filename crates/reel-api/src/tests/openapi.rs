//! The document describes the routes and their answers.

use super::fake::Server;
use crate::{openapi_document, routes};
use serde_json::Value;
use std::collections::BTreeSet;

#[tokio::test]
async fn the_document_lists_every_route_and_no_other() {
    let server = Server::new();
    let document = openapi_document();
    let paths = document["paths"].as_object().expect("paths");
    for (path, _) in routes() {
        let documented = &paths[&path.replace("{*", "{")];
        assert!(documented.is_object(), "{path} is not in the document");
        // A method that no route has: the answer names those of the route.
        let answer = server.call("LINK", &filled(path)).await;
        answer.problem(405);
        let allowed: BTreeSet<String> =
            answer.header("allow").split(',').filter(|m| *m != "HEAD").map(str::to_lowercase).collect();
        let said: BTreeSet<String> = documented
            .as_object()
            .expect("checked")
            .keys()
            .filter(|key| *key != "parameters")
            .cloned()
            .collect();
        assert_eq!(said, allowed, "{path}");
    }
    let routed: BTreeSet<String> = routes().iter().map(|(path, _)| path.replace("{*", "{")).collect();
    for (path, operations) in paths {
        let media = operations["get"]["tags"][0] == "media";
        assert_eq!(media, !routed.contains(path), "{path}");
        if media {
            server.get(&filled(path)).await.problem(404);
        }
    }
}

#[test]
fn the_document_is_whole() {
    let document = openapi_document();
    let mut ids = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let declared: BTreeSet<&str> = operations["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|p| p["name"].as_str())
            .collect();
        let wanted: BTreeSet<&str> =
            path.split('{').skip(1).filter_map(|part| part.split('}').next()).collect();
        assert_eq!(declared, wanted, "parameters of {path}");
        for (method, operation) in
            operations.as_object().expect("an object").iter().filter(|(key, _)| *key != "parameters")
        {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(ids.insert(id.to_owned()), "{id} is used twice");
            assert!(operation["responses"].as_object().is_some_and(|r| r.len() >= 2), "{method} {path}");
        }
    }
    check_references(&document, &document);
}

/// What the API answers has the fields the document says.
#[tokio::test]
async fn answers_have_the_fields_of_their_schemas() {
    let server = Server::new();
    let title = server.post("/api/v1/titles?filename=a.mp4&wait=true", "FILM").await.json();
    let jobs = server.get("/api/v1/jobs").await.json();
    for (schema, value) in [
        ("Title", title),
        ("Job", jobs["jobs"][0].clone()),
        ("Volume", server.get("/api/v1/volume").await.json()),
        ("Readiness", server.get("/readyz").await.json()),
        ("Problem", server.get("/none").await.json()),
        ("Dashboard", server.get("/api/v1/dashboard").await.json()),
        ("TrafficClass", server.get("/api/v1/classes").await.json()[0].clone()),
        ("Capacity", server.get("/api/v1/capacity?rate_bps=9").await.json()),
    ] {
        let schema = &openapi_document()["components"]["schemas"][schema];
        conforms(schema, &value, "");
    }
}

fn filled(path: &str) -> String {
    let mut out = String::new();
    for (index, part) in path.split('{').enumerate() {
        if index == 0 {
            out.push_str(part);
        } else {
            out.push('x');
            out.push_str(part.split_once('}').expect("closed").1);
        }
    }
    out
}

fn check_references(document: &Value, value: &Value) {
    match value {
        Value::Object(map) => {
            if let Some(target) = map.get("$ref").and_then(Value::as_str) {
                let pointer = target.strip_prefix('#').expect("a local reference");
                assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
            }
            map.values().for_each(|value| check_references(document, value));
        }
        Value::Array(list) => list.iter().for_each(|value| check_references(document, value)),
        _ => {}
    }
}

fn conforms(schema: &Value, value: &Value, place: &str) {
    if let Some(target) = schema["$ref"].as_str() {
        let document = openapi_document();
        let target = document.pointer(&target[1..]).expect("checked by another test");
        return conforms(target, value, place);
    }
    // An enumeration, or something that may be null.
    if let Some(choices) = schema["oneOf"].as_array().filter(|choices| choices[0].get("const").is_some()) {
        assert!(choices.iter().any(|choice| choice["const"] == *value), "{place} is {value}");
        return;
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let is_null = |choice: &&Value| choice["type"] == "null";
        let choice = choices.iter().find(|choice| value.is_null() == is_null(choice));
        return conforms(choice.expect("a choice"), value, place);
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_u64() && !kinds.contains(&"number") => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(kinds.contains(&kind), "{place} is {kind}, not {kinds:?}");
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{place} is {value}");
    }
    match value {
        Value::Object(map) => {
            let properties =
                schema["properties"].as_object().unwrap_or_else(|| panic!("{place} has no properties"));
            for (key, value) in map {
                conforms(&properties[key], value, &format!("{place}/{key}"));
            }
            for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                assert!(map.contains_key(key), "{place} lacks {key}");
            }
        }
        Value::Array(list) => {
            list.iter().for_each(|value| conforms(&schema["items"], value, &format!("{place}/[]")))
        }
        _ => {}
    }
}
