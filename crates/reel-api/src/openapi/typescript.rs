//! The types of the web client, written from the schemas of the document: `web/src/api/types.ts`.
//!
//! `cargo xtask api-types` runs the test below so that it writes the file; otherwise the test holds
//! the file equal to the schemas.

use super::document;
use serde_json::Value;
use std::fmt::Write as _;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/api/types.ts");

const HEAD: &str = "\
// Written by `cargo xtask api-types` from the types of the server. Do not edit.

/* The JSON of the server's API (`/api/v1`). Units are in the names. */
";

/// The longest line of a comment.
const COLUMNS_MAX: usize = 100;

/// Set by `cargo xtask api-types`.
const WRITE: &str = "REEL_WRITE_API_TYPES";

#[test]
fn the_types_of_the_web_client_are_those_of_the_server() {
    let wanted = types(&document()["components"]["schemas"]);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(FILE, wanted).expect("web/src/api/types.ts can be written");
        return;
    }
    let found = std::fs::read_to_string(FILE).expect("web/src/api/types.ts can be read");
    assert!(
        found == wanted,
        "web/src/api/types.ts does not have the types of the server; run `cargo xtask api-types`"
    );
}

fn types(schemas: &Value) -> String {
    let mut out = HEAD.to_owned();
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        out.push('\n');
        comment(&mut out, "", schema);
        if schema["properties"].is_object() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "export interface {name} {{");
            fields(&mut out, schema);
            out.push_str("}\n");
        } else {
            let _ = writeln!(out, "export type {name} = {};", kind(schema));
        }
    }
    out
}

fn fields(out: &mut String, schema: &Value) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        comment(out, "  ", property);
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        let _ = writeln!(out, "  {name}{mark}: {};", kind(property));
    }
}

/// The type of a value with this schema.
fn kind(schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        return target.rsplit('/').next().unwrap_or(target).to_owned();
    }
    if let Some(constant) = schema.get("const") {
        return constant.to_string();
    }
    for choice in ["oneOf", "anyOf", "enum"] {
        if let Some(choices) = schema[choice].as_array() {
            let of = |choice: &Value| if choice.is_string() { choice.to_string() } else { kind(choice) };
            return choices.iter().map(of).collect::<Vec<_>>().join(" | ");
        }
    }
    let named = |name: &str| match name {
        "string" => "string".to_owned(),
        "integer" | "number" => "number".to_owned(),
        "boolean" => "boolean".to_owned(),
        "null" => "null".to_owned(),
        "array" => {
            let item = kind(&schema["items"]);
            if item.contains(' ') { format!("({item})[]") } else { format!("{item}[]") }
        }
        other => panic!("the web client has no type for {other} in {schema}"),
    };
    match &schema["type"] {
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(named).collect::<Vec<_>>().join(" | ")
        }
        name => named(name.as_str().unwrap_or("nothing")),
    }
}

/// The description, and those of the choices of an enumeration, each in a paragraph of its own.
fn comment(out: &mut String, indent: &str, schema: &Value) {
    let mut lines: Vec<String> = Vec::new();
    if let Some(text) = schema["description"].as_str() {
        wrap(&mut lines, indent, text);
    }
    for choice in schema["oneOf"].as_array().into_iter().flatten() {
        if let (Some(text), Some(constant)) = (choice["description"].as_str(), choice.get("const")) {
            wrap(&mut lines, indent, &format!("- {constant}: {text}"));
        }
    }
    let _ = match &lines[..] {
        [] => Ok(()),
        [line] if indent.len() + line.len() + 7 <= COLUMNS_MAX => writeln!(out, "{indent}/** {line} */"),
        lines => {
            let text: String = lines.iter().map(|line| format!("{indent} * {line}\n")).collect();
            writeln!(out, "{indent}/**\n{text}{indent} */")
        }
    };
}

/// Breaks a text into lines of a comment; where it is broken in the sources does not matter.
fn wrap(lines: &mut Vec<String>, indent: &str, text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent.len() + 3 + line.len() + 1 + word.len() > COLUMNS_MAX {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
}
