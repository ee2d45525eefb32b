//! The description of the interface: valid by others' value, complete, and the one that is checked in.

use serde_json::Value;
use testkit::{Backend, Stage as _};

use crate::app::App;

fn document() -> Value {
    serde_json::to_value(auspex_server::openapi_document()).unwrap()
}

#[test]
fn the_checked_in_document_is_this_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    let made = auspex_server::openapi_document().to_pretty_json().unwrap();
    assert!(
        checked_in.trim_end() == made,
        "docs/openapi.json is not what the code describes; look at the difference after: \
         cargo run --package auspex-server -- openapi > docs/openapi.json"
    );
}

#[test]
fn the_document_is_valid() {
    let complaints = testkit::openapi_complaints(&document());
    assert!(complaints.is_empty(), "{complaints}");
    assert_eq!(document()["openapi"], "3.1.0");
    assert_eq!(document()["info"]["version"], "1.0.0");
}

#[test]
fn nothing_is_left_undescribed() {
    let document = document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = format!("{method} {path}");
            let told = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
            assert!(told(&operation["summary"]), "{name} has no summary");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(told(&parameter["description"]), "{name}: {} is not described", parameter["name"]);
            }
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{name} never succeeds");
            for (status, answer) in answers {
                assert!(told(&answer["description"]), "{name}: {status} is not described");
                let has_body = answer["content"].is_object();
                assert_eq!(has_body, status != "204", "{name}: {status} has a body, unless it is 204");
            }
        }
    }
    for (name, schema) in schemas {
        assert!(schema["description"].is_string(), "{name} is not described");
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            // Of something that may be null, the alternatives tell.
            let told = |value: &Value| value["description"].is_string() || value["$ref"].is_string();
            let alternatives = property["oneOf"].as_array().into_iter().flatten();
            assert!(told(property) || alternatives.into_iter().any(told), "{name}.{field} is not described");
        }
    }
}

#[test]
fn operations_have_verbs_for_ids_and_declare_their_headers() {
    let document = document();
    let mut ids = std::collections::BTreeSet::new();
    for section in ["paths", "webhooks"] {
        for (path, item) in document[section].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id =
                    operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no id"));
                assert!(id.starts_with(|letter: char| letter.is_ascii_lowercase()), "{id}");
                assert!(id.contains(|letter: char| letter.is_ascii_uppercase()), "{id}: a verb and a noun");
                assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
                assert!(ids.insert(id.to_owned()), "{id} stands for two operations");
            }
        }
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let declares = |name: &str| response["headers"][name]["$ref"].is_string();
                assert!(declares("X-Request-Id"), "{method} {path} {status}");
                assert_eq!(
                    declares("Retry-After"),
                    status == "429" || status == "503",
                    "{method} {path} {status}"
                );
            }
        }
    }
    let ingest = &document["paths"]["/v1/objects/{object_id}/events"]["post"]["responses"];
    assert!(ingest["202"]["headers"]["Idempotent-Replayed"].is_object());
    assert!(ingest["502"]["headers"]["Events-Recorded"].is_object());
    assert!(ingest["202"]["headers"]["RateLimit-Remaining"].is_object());
    let parameters = document["paths"]["/v1/objects"]["get"]["parameters"].as_array().unwrap();
    let sort = parameters.iter().find(|parameter| parameter["name"] == "sort").unwrap();
    assert_eq!(sort["schema"]["enum"], serde_json::json!(["recent", "flagged", "trust"]));
    assert_eq!(document["servers"][0]["url"], "/");
    let payload =
        &document["webhooks"]["rule.triggered"]["post"]["requestBody"]["content"]["application/json"];
    assert_eq!(payload["schema"]["$ref"], "#/components/schemas/RuleTriggered");
}

#[test]
fn every_body_has_an_example() {
    let document = document();
    let mut seen = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap().values();
            let bodies = answers.chain([&operation["requestBody"]]);
            for schema in
                bodies.filter_map(|body| body["content"]["application/json"]["schema"]["$ref"].as_str())
            {
                let schema = document.pointer(schema.trim_start_matches('#')).unwrap();
                assert!(schema["examples"][0].is_object(), "{method} {path}: {schema}");
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_served_as_json_and_as_yaml() {
    let app = App::start(Backend::Sqlite, &[]).await;
    let json = app.get("/openapi.json").await;
    assert_eq!(json.header("content-type"), "application/json");
    assert_eq!(json.json(), document());
    let yaml = app.get("/openapi.yaml").await;
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert!(yaml.text.starts_with("openapi: 3.1.0"), "{}", &yaml.text[..100]);
    app.tear_down().await;
}
