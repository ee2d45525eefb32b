//! One table says who may do what: it lists every operation, the router goes by it, and the documentation shows it.

use std::collections::BTreeSet;
use std::time::Duration;

use model::{MemberRole, Scope};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::App;
use crate::login::sign_in;
use crate::members::join;
use crate::refusals::filled_in;
use crate::signer::Signer;

const KEYS: &str = "/v1/api_keys";

testkit::on_both!(
    every_role_may_do_what_the_table_says,
    every_scope_opens_what_the_table_says,
    a_bearer_key_opens_only_what_is_for_it,
    a_key_without_scopes_may_do_all_that_keys_may,
    scopes_go_with_the_kind_of_key,
    a_key_manages_only_keys_within_its_scopes,
    a_bearer_key_is_rotated_and_revoked,
);

fn document() -> Value {
    serde_json::to_value(auspex_server::openapi_document()).unwrap()
}

#[test]
fn the_table_lists_every_operation_and_no_other() {
    let document = document();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let listed = auspex_server::operations();
    let unique: BTreeSet<(String, String)> =
        listed.iter().map(|(method, path, ..)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(unique.len(), listed.len(), "an operation is listed twice");
    // It describes itself.
    let described: BTreeSet<_> =
        described.into_iter().chain([("POST".to_owned(), "/mcp".to_owned())]).collect();
    assert_eq!(unique, described);
}

#[test]
fn the_table_agrees_with_the_description() {
    let document = document();
    for (method, path, role, scope) in auspex_server::operations() {
        if path == "/mcp" {
            continue;
        }
        let security = &document["paths"][path][method.to_lowercase()]["security"];
        let schemes: BTreeSet<&str> = security
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|scheme| scheme.as_object().unwrap().keys().map(String::as_str))
            .collect();
        assert_eq!(schemes.contains("console_token"), role.is_some(), "{method} {path}");
        let is_for_bearer_keys = role.is_none() && scope.is_some();
        let takes_bearer_keys = schemes.iter().any(|scheme| scheme.starts_with("bearer_key"));
        assert_eq!(takes_bearer_keys, is_for_bearer_keys, "{method} {path}");
        assert_eq!(
            schemes.contains("signed_request"),
            scope.is_some() && !is_for_bearer_keys,
            "{method} {path}"
        );
        let is_read = method == "GET";
        assert!(scope.is_none_or(|scope| (scope == Scope::Read) == is_read), "{method} {path}: {scope:?}");
    }
}

#[test]
fn the_documentation_shows_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let page = std::fs::read_to_string(path).unwrap();
    let table = auspex_server::access_table();
    assert!(page.contains(&table), "put this into docs/security.md:\n{table}");
}

/// An operation that needs a credential, with a path that can be asked for.
struct Guarded {
    method: Method,
    path: String,
    least: MemberRole,
    scope: Option<Scope>,
}

fn guarded() -> Vec<Guarded> {
    let document = document();
    let operations = auspex_server::operations();
    let guarded = operations.into_iter().filter_map(|(method, path, least, scope)| {
        let operation = &document["paths"][path][method.to_lowercase()];
        let path = filled_in(path, operation);
        Some(Guarded { method: method.parse().unwrap(), path, least: least?, scope })
    });
    guarded.collect()
}

async fn every_role_may_do_what_the_table_says(app: &App) {
    let owner = app.register("owner@example.com").await;
    for role in ["viewer", "analyst", "admin"] {
        join(app, &owner, &format!("{role}@example.com"), role).await;
    }
    for operation in guarded() {
        // A full budget for each.
        app.advance(Duration::from_mins(1));
        for role in MemberRole::ALL {
            let token = sign_in(app, &format!("{}@example.com", role.as_str())).await;
            let (method, path) = (&operation.method, &operation.path);
            let reply = app.call(&token, method.clone(), path, &json!({})).await;
            let is_refused = reply.text.contains("this needs the role");
            assert_eq!(is_refused, role < operation.least, "{role:?} {method} {path}: {}", reply.text);
            if is_refused {
                let message = reply.refused(403, "forbidden");
                assert!(message.contains(operation.least.as_str()), "it names who may: {message}");
                assert!(message.ends_with(&format!("yours is {}", role.as_str())), "{message}");
            } else {
                assert!(
                    reply.status.as_u16() < 500 && reply.status != 401,
                    "{method} {path}: {}",
                    reply.text
                );
            }
            if method == Method::GET {
                let request = app.request(Method::HEAD, path).bearer_auth(&token);
                assert_eq!(app.send(request).await.status, reply.status, "HEAD {path}");
            }
        }
    }
}

/// Makes a key with these scopes, and says what came of it.
async fn create(app: &App, token: &str, kind: &str, scopes: &Value) -> crate::app::Reply {
    app.call(token, Method::POST, KEYS, &json!({"kind": kind, "scopes": scopes})).await
}

async fn scoped(app: &App, token: &str, scopes: &[&str]) -> Signer {
    let reply = create(app, token, "signed", &json!(scopes)).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let made = reply.json();
    assert_eq!(made["api_key"]["scopes"], json!(scopes));
    Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap())
}

async fn every_scope_opens_what_the_table_says(app: &App) {
    let owner = app.register("owner@example.com").await;
    let scopes = [Scope::Ingest, Scope::Read, Scope::Write, Scope::Label];
    let mut keys = Vec::new();
    for scope in scopes {
        keys.push((scope, scoped(app, &owner, &[scope.as_str()]).await));
    }
    for operation in guarded() {
        app.advance(Duration::from_mins(1));
        for (scope, key) in &keys {
            let (method, path) = (&operation.method, &operation.path);
            let reply = key.call(app, method.clone(), path, &json!({})).await;
            match operation.scope {
                None => {
                    let message = reply.refused(403, "forbidden");
                    assert_eq!(message, "only a signed-in user may do this", "{method} {path}");
                }
                Some(needed) if needed != *scope => {
                    let message = reply.refused(403, "forbidden");
                    let expected = format!("this needs a key with the scope {}", needed.as_str());
                    assert_eq!(message, expected, "{method} {path}");
                }
                Some(_) => {
                    let is_refused = reply.text.contains("with the scope");
                    assert!(!is_refused && reply.status != 401, "{method} {path}: {}", reply.text);
                }
            }
        }
    }
}

async fn a_bearer_key_opens_only_what_is_for_it(app: &App) {
    let owner = app.register("owner@example.com").await;
    let scopes = json!(["moderate", "mcp", "write", "label"]);
    let made = create(app, &owner, "bearer", &scopes).await.json();
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("bk_"), "{secret}");
    let sorted = json!(["write", "label", "moderate", "mcp"]);
    assert_eq!((&made["api_key"]["kind"], &made["api_key"]["scopes"]), (&json!("bearer"), &sorted));
    assert_eq!(made["api_key"]["has_secret"], false, "it cannot sign");
    for operation in guarded() {
        app.advance(Duration::from_mins(1));
        let reply = app.call(secret, operation.method, &operation.path, &json!({})).await;
        reply.refused(403, "forbidden");
    }
    app.call("bk_nothing", Method::GET, "/v1/me", &Value::Null).await.refused(401, "unauthorized");
    let signer = Signer::new(made["key"].as_str().unwrap(), secret);
    signer.call(app, Method::GET, "/v1/me", &Value::Null).await.refused(401, "unauthorized");
}

async fn a_key_without_scopes_may_do_all_that_keys_may(app: &App) {
    let owner = app.register("owner@example.com").await;
    let made = app.call(&owner, Method::POST, KEYS, &json!({})).await.json();
    let all = json!(["ingest", "read", "write", "label"]);
    assert_eq!((&made["api_key"]["kind"], &made["api_key"]["scopes"]), (&json!("signed"), &all));
    let key = Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap());
    for operation in guarded().into_iter().filter(|operation| operation.scope.is_some()) {
        app.advance(Duration::from_mins(1));
        let reply = key.call(app, operation.method, &operation.path, &json!({})).await;
        assert!(reply.status != 403 && reply.status != 401, "{}: {}", operation.path, reply.text);
    }
}

async fn scopes_go_with_the_kind_of_key(app: &App) {
    let owner = app.register("owner@example.com").await;
    for (kind, scopes) in [
        ("signed", json!([])),
        ("signed", json!(["moderate"])),
        ("signed", json!(["read", "mcp"])),
        ("bearer", json!(null)),
        ("bearer", json!([])),
        ("bearer", json!(["read"])),
        ("bearer", json!(["moderate", "write"])),
        ("bearer", json!(["mcp", "ingest"])),
        ("signed", json!(["everything"])),
        ("signed", json!("read")),
    ] {
        let message = create(app, &owner, kind, &scopes).await.refused(400, "bad_request");
        assert!(message.starts_with("scopes"), "{kind} {scopes}: {message}");
    }
    let message = create(app, &owner, "magic", &json!(["read"])).await.refused(400, "bad_request");
    assert!(message.starts_with("kind: "), "{message}");
    let listed = app.call(&owner, Method::GET, KEYS, &Value::Null).await.json();
    assert_eq!(listed, json!({"api_keys": []}));
}

async fn a_key_manages_only_keys_within_its_scopes(app: &App) {
    let owner = app.register("owner@example.com").await;
    let writer = scoped(app, &owner, &["read", "write"]).await;
    let wide = app.call(&owner, Method::POST, KEYS, &json!({})).await.json()["api_key"]["id"].clone();
    let path = format!("{KEYS}/{}", wide.as_str().unwrap());
    for (method, path, body) in [
        (Method::POST, KEYS.to_owned(), json!({})),
        (Method::POST, KEYS.to_owned(), json!({"scopes": ["ingest"]})),
        (Method::POST, KEYS.to_owned(), json!({"kind": "bearer", "scopes": ["moderate"]})),
        (Method::PATCH, path.clone(), json!({"status": "inactive"})),
        (Method::POST, format!("{path}/rotate"), json!({})),
        (Method::DELETE, path.clone(), Value::Null),
    ] {
        let message = writer.call(app, method, &path, &body).await.refused(403, "forbidden");
        assert!(message.ends_with("within its own scopes: read write"), "{message}");
    }
    let made = writer.call(app, Method::POST, KEYS, &json!({"scopes": ["read"]})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let path = format!("{KEYS}/{}", made.json()["api_key"]["id"].as_str().unwrap());
    assert_eq!(writer.call(app, Method::PATCH, &path, &json!({"name": "new"})).await.status, 200);
    let rotate = format!("{path}/rotate");
    assert_eq!(writer.call(app, Method::POST, &rotate, &Value::Null).await.status, 200);
    assert_eq!(writer.call(app, Method::DELETE, &path, &Value::Null).await.status, 204);
    let all = app.api_key(&owner).await;
    let body = json!({"kind": "bearer", "scopes": ["moderate"]});
    assert_eq!(all.call(app, Method::POST, KEYS, &body).await.status, 201, "all scopes include these");
}

async fn a_bearer_key_is_rotated_and_revoked(app: &App) {
    let owner = app.register("owner@example.com").await;
    let made = create(app, &owner, "bearer", &json!(["moderate"])).await.json();
    let path = format!("{KEYS}/{}", made["api_key"]["id"].as_str().unwrap());
    let me = |secret: Value| async move {
        app.call(secret.as_str().unwrap(), Method::GET, "/v1/me", &Value::Null).await.status.as_u16()
    };
    assert_eq!(me(made["secret"].clone()).await, 403, "it is known");
    let rotated = app.call(&owner, Method::POST, &format!("{path}/rotate"), &Value::Null).await.json();
    assert!(rotated["secret"].as_str().unwrap().starts_with("bk_"), "{rotated}");
    assert_eq!(me(made["secret"].clone()).await, 401);
    assert_eq!(me(rotated["secret"].clone()).await, 403);
    app.call(&owner, Method::PATCH, &path, &json!({"status": "inactive"})).await;
    assert_eq!(me(rotated["secret"].clone()).await, 401);
    app.call(&owner, Method::PATCH, &path, &json!({"status": "active"})).await;
    assert_eq!(me(rotated["secret"].clone()).await, 403);
    assert_eq!(app.call(&owner, Method::DELETE, &path, &Value::Null).await.status, 204);
    assert_eq!(me(rotated["secret"].clone()).await, 401);
}
