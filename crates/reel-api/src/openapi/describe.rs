//! Pieces of the document, with schemas made from types.

use crate::problem::PROBLEM_MEDIA_TYPE;
use crate::wire::ProblemBody;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Collects the schemas of all types that the paths refer to.
pub(super) struct Describe {
    schemas: SchemaGenerator,
}

/// The address and the name of an operation.
pub(super) struct Operation {
    /// The group that it is shown in.
    pub(super) tag: &'static str,
    /// Its unique name.
    pub(super) id: &'static str,
    /// What it is for.
    pub(super) summary: &'static str,
}

impl Describe {
    pub(super) fn new() -> Describe {
        let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Describe { schemas: settings.into_generator() }
    }

    /// The schemas of all types that were referred to, by name.
    pub(super) fn into_schemas(mut self) -> Map<String, Value> {
        let mut schemas = self.schemas.take_definitions(true);
        schemas.values_mut().for_each(drop_null_of_optional);
        schemas
    }

    /// A reference to the schema of a type; of a list, the list of references.
    pub(super) fn schema<T: JsonSchema>(&mut self) -> Value {
        self.schemas.subschema_for::<T>().to_value()
    }

    /// A JSON response.
    pub(super) fn json<T: JsonSchema>(&mut self, description: &str) -> Value {
        content(description, "application/json", &self.schema::<T>())
    }

    /// A problem document.
    pub(super) fn problem(&mut self, description: &str) -> Value {
        content(description, PROBLEM_MEDIA_TYPE, &self.schema::<ProblemBody>())
    }

    /// A required JSON body.
    pub(super) fn body<T: JsonSchema>(&mut self) -> Value {
        json!({ "required": true, "content": { "application/json": { "schema": self.schema::<T>() } } })
    }

    /// An operation with these responses, and the problem that any operation can answer with.
    pub(super) fn operation<const N: usize>(
        &mut self,
        Operation { tag, id, summary }: Operation,
        responses: [(&str, Value); N],
    ) -> Value {
        let mut responses: Map<String, Value> =
            responses.into_iter().map(|(status, response)| (status.to_owned(), response)).collect();
        responses.insert("default".to_owned(), self.problem("Anything else that went wrong"));
        json!({ "tags": [tag], "operationId": id, "summary": summary, "responses": responses })
    }
}

/// The parameters of a query, from the type that it is read into.
pub(super) fn query<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let parameters = schema["properties"].as_object().into_iter().flatten().map(|(name, property)| {
        let mut property = property.clone();
        let description = property.as_object_mut().and_then(|property| property.remove("description"));
        drop_null(&mut property);
        json!({
            "in": "query",
            "name": name,
            "description": description,
            "required": required.contains(&json!(name)),
            "schema": property,
        })
    });
    parameters.collect()
}

/// A part of the path.
pub(super) fn path(name: &str, description: &str) -> Value {
    json!({
        "in": "path", "name": name, "description": description, "required": true, "schema": { "type": "string" },
    })
}

/// A response that is a text of this media type.
pub(super) fn text(description: &str, media_type: &str) -> Value {
    content(description, media_type, &json!({ "type": "string" }))
}

/// A response whose content, if any, has no schema.
pub(super) fn plain<const N: usize>(description: &str, media_types: [&str; N]) -> Value {
    if N == 0 {
        return json!({ "description": description });
    }
    let content: Map<String, Value> =
        media_types.into_iter().map(|media_type| (media_type.to_owned(), json!({}))).collect();
    json!({ "description": description, "content": content })
}

fn content(description: &str, media_type: &str, schema: &Value) -> Value {
    json!({ "description": description, "content": { media_type: { "schema": schema } } })
}

/// A field that may be left out is left out in place of being null.
fn drop_null_of_optional(schema: &mut Value) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in schema["properties"].as_object_mut().into_iter().flatten() {
        if !required.contains(&json!(name)) {
            drop_null(property);
        }
    }
}

fn drop_null(schema: &mut Value) {
    let is_null = |schema: &Value| *schema == json!("null") || *schema == json!({ "type": "null" });
    if let Some(kinds) = schema["type"].as_array_mut() {
        kinds.retain(|kind| !is_null(kind));
        if let [kind] = &kinds[..] {
            schema["type"] = kind.clone();
        }
    }
    if let Some(mut choices) = schema["anyOf"].as_array().cloned() {
        choices.retain(|choice| !is_null(choice));
        if let ([choice], Some(schema)) = (&choices[..], schema.as_object_mut()) {
            schema.remove("anyOf");
            schema.extend(choice.as_object().cloned().unwrap_or_default());
        }
    }
}
