//! The API reference as one page of Markdown, for agents: the operations and records of the OpenAPI document.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const INTRODUCTION: &str = "# Auspex API reference\n\n\
    Made from the OpenAPI document (`/openapi.json`). Bodies are JSON. Errors are `{\"error\": {\"code\", \"message\"}}`; codes are \
    stable, messages are for people. Times are RFC 3339 in UTC, money is in micro-dollars unless a name says cents. Lists have \
    `next_cursor` while more remain. 429 and 503 say in `Retry-After` how long to wait.\n";

/// Writes the reference of a document.
pub(super) fn markdown(document: &Value) -> String {
    let mut text = INTRODUCTION.to_owned();
    write_security(&mut text, document);
    for tag in document["tags"].as_array().into_iter().flatten() {
        let name = tag["name"].as_str().unwrap_or_default();
        let _ = writeln!(text, "\n## {name}\n\n{}", tag["description"].as_str().unwrap_or_default());
        for (path, method, operation) in operations(document) {
            if operation["tags"][0] == name {
                write_operation(&mut text, path, method, operation);
            }
        }
    }
    text.push_str("\n## Records\n");
    for (name, schema) in fields(&document["components"]["schemas"]) {
        let _ = writeln!(text, "\n### {name}\n");
        write_record(&mut text, schema);
    }
    text
}

fn write_security(text: &mut String, document: &Value) {
    text.push_str("\n## Authentication\n\n");
    for (name, scheme) in fields(&document["components"]["securitySchemes"]) {
        let _ = writeln!(text, "- `{name}`: {}", one_line(&scheme["description"]));
    }
}

/// Path, method and description of all operations.
fn operations(document: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
    let paths = fields(&document["paths"]);
    paths.flat_map(|(path, item)| fields(item).map(move |(method, operation)| (path, method, operation)))
}

fn write_operation(text: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = writeln!(
        text,
        "\n### {} {path}\n\n`{}`: {}",
        method.to_uppercase(),
        operation["operationId"].as_str().unwrap_or_default(),
        operation["summary"].as_str().unwrap_or_default()
    );
    if let Some(description) = operation["description"].as_str() {
        let _ = writeln!(text, "\n{description}");
    }
    let schemes = operation["security"].as_array().into_iter().flatten();
    let schemes: Vec<String> =
        schemes.flat_map(|scheme| fields(scheme).map(|(name, _)| format!("`{name}`"))).collect();
    let credential = if schemes.is_empty() { "none".to_owned() } else { schemes.join(" or ") };
    let _ = writeln!(text, "\n- Credential: {credential}");
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let _ = writeln!(
            text,
            "- `{}` ({}, {}{}): {}",
            parameter["name"].as_str().unwrap_or_default(),
            parameter["in"].as_str().unwrap_or_default(),
            type_of(&parameter["schema"]),
            if parameter["required"] == true { ", required" } else { "" },
            one_line(&parameter["description"])
        );
    }
    if let Some(body) = fields(&operation["requestBody"]["content"]).next() {
        let _ = writeln!(text, "- Body: {}", type_of(&body.1["schema"]));
    }
    for (status, response) in fields(&operation["responses"]) {
        let body = fields(&response["content"]).next().map(|(_, body)| type_of(&body["schema"]));
        let body = body.map_or_else(String::new, |body| format!(" {body}"));
        let _ = writeln!(text, "- {status}{body}: {}", one_line(&response["description"]));
    }
}

fn write_record(text: &mut String, schema: &Value) {
    if let Some(description) = schema["description"].as_str() {
        let _ = writeln!(text, "{description}\n");
    }
    let parts = schema["allOf"].as_array().into_iter().flatten().chain(std::iter::once(schema));
    let mut has_fields = false;
    for part in parts {
        if part.get("$ref").is_some() {
            let _ = writeln!(text, "- all fields of {}", type_of(part));
        }
        let required: Vec<&str> =
            part["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, field) in fields(&part["properties"]) {
            has_fields = true;
            let required = if required.contains(&name.as_str()) { ", required" } else { "" };
            let _ = writeln!(
                text,
                "- `{name}` ({}{required}): {}",
                type_of(field),
                one_line(&field["description"])
            );
        }
    }
    if !has_fields && schema.get("allOf").is_none() {
        let _ = writeln!(text, "{}", type_of(schema));
    }
}

/// A type in words: the name of a record, a list of values, a union.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .map(|value| format!("`{}`", value.as_str().unwrap_or("null")))
            .collect::<Vec<_>>()
            .join(" | ");
    }
    for union in ["oneOf", "anyOf"] {
        if let Some(of) = schema[union].as_array() {
            return of.iter().map(type_of).collect::<Vec<_>>().join(" | ");
        }
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any JSON"],
    };
    let named = |name: &&str| match *name {
        "array" => format!("array of {}", type_of(&schema["items"])),
        "object" if schema.get("additionalProperties").is_some_and(Value::is_object) => {
            format!("map to {}", type_of(&schema["additionalProperties"]))
        }
        name => {
            schema["format"].as_str().map_or_else(|| name.to_owned(), |format| format!("{name} {format}"))
        }
    };
    names.iter().map(named).collect::<Vec<_>>().join(" | ")
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn one_line(text: &Value) -> String {
    text.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
