//! Every route behind a credential refuses who has none, and no input makes any of them fall over.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::admin::{admin, tenant_of};
use crate::app::{App, Reply};
use crate::signer::Signer;

const MINUTE: Duration = Duration::from_mins(1);

/// Method and path of the specification's tables "Webhooks", "Rules", "API keys", "Billing", "Usage", "Account" and
/// "Console endpoints", and what came on top.
const PROMISED: &[(&str, &str)] = &[
    ("get", "/v1/api_keys"),
    ("post", "/v1/api_keys"),
    ("patch", "/v1/api_keys/{key_id}"),
    ("delete", "/v1/api_keys/{key_id}"),
    ("post", "/v1/api_keys/{key_id}/rotate"),
    ("get", "/v1/rules"),
    ("post", "/v1/rules"),
    ("get", "/v1/rules/{rule_id}"),
    ("patch", "/v1/rules/{rule_id}"),
    ("delete", "/v1/rules/{rule_id}"),
    ("get", "/v1/rule_firings"),
    ("get", "/v1/webhooks"),
    ("post", "/v1/webhooks"),
    ("get", "/v1/webhooks/{endpoint_id}"),
    ("patch", "/v1/webhooks/{endpoint_id}"),
    ("delete", "/v1/webhooks/{endpoint_id}"),
    ("get", "/v1/webhook_deliveries"),
    ("post", "/v1/webhook_deliveries/{delivery_id}/replay"),
    ("get", "/v1/billing"),
    ("get", "/v1/billing/ledger"),
    ("post", "/v1/billing/checkout"),
    ("get", "/v1/billing/checkout/{session_id}"),
    ("get", "/v1/usage"),
    ("post", "/webhooks/stripe"),
    ("get", "/v1/me"),
    ("get", "/v1/settings"),
    ("patch", "/v1/settings"),
    ("post", "/auth/console/register"),
    ("post", "/auth/console/login"),
    ("post", "/auth/token"),
    ("post", "/auth/console/password/forgot"),
    ("post", "/auth/console/password/reset"),
    ("get", "/auth/console/oauth/providers"),
    ("post", "/auth/console/oauth/{provider}/authorize"),
    ("post", "/auth/console/oauth/{provider}"),
    ("post", "/v1/me/onboarded"),
    ("post", "/v1/me/password"),
    ("get", "/v1/me/mfa"),
    ("post", "/v1/me/mfa/setup"),
    ("post", "/v1/me/mfa/enable"),
    ("post", "/v1/me/mfa/disable"),
    ("get", "/v1/me/identities"),
    ("post", "/v1/me/identities/{provider}"),
    ("delete", "/v1/me/identities/{provider}"),
    ("get", "/v1/me/notifications"),
    ("put", "/v1/me/notifications"),
    ("get", "/v1/me/sessions"),
    ("delete", "/v1/me/sessions"),
    ("delete", "/v1/me/sessions/{session_id}"),
    ("post", "/auth/console/logout"),
    ("post", "/auth/console/reauthenticate"),
    ("post", "/auth/console/verify"),
    ("get", "/auth/console/state"),
];

testkit::on_both!(
    every_operation_refuses_who_has_no_credential,
    every_operation_refuses_a_credential_that_has_expired,
    console_operations_refuse_keys,
    the_other_operations_take_every_credential,
    no_authorization_header_breaks_anything,
    no_query_breaks_anything,
    no_id_breaks_anything,
    no_body_breaks_anything,
);

/// An operation of the description, with a path that can be asked for.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) template: String,
    pub(crate) path: String,
    security: BTreeSet<String>,
}

impl Operation {
    pub(crate) fn console_only(&self) -> bool {
        self.security.iter().all(|scheme| scheme == "console_token")
    }

    fn takes_signed_requests(&self) -> bool {
        self.security.contains("signed_request")
    }
}

/// Every operation under `/v1`; the description is made from the router, so none is left out.
pub(crate) fn operations() -> Vec<Operation> {
    let document = serde_json::to_value(auspex_server::openapi_document()).unwrap();
    let mut operations = Vec::new();
    for (template, item) in document["paths"].as_object().unwrap() {
        if !template.starts_with("/v1/") {
            continue;
        }
        for (method, operation) in item.as_object().unwrap() {
            let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
            let schemes = operation["security"].as_array().into_iter().flatten();
            let names = schemes.flat_map(|scheme| scheme.as_object().unwrap().keys().cloned());
            let path = filled_in(template, operation);
            operations.push(Operation {
                method,
                template: template.clone(),
                path,
                security: names.collect(),
            });
        }
    }
    assert!(!operations.is_empty());
    operations
}

/// The path with a value of the right kind for each parameter.
pub(crate) fn filled_in(template: &str, operation: &Value) -> String {
    let mut path = template.to_owned();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == "path" {
            let name = parameter["name"].as_str().unwrap();
            let value = match (name, parameter["schema"]["format"].as_str()) {
                ("provider", _) => "google".to_owned(),
                (_, Some("uuid")) => Uuid::from_u128(7).to_string(),
                _ => "nothing".to_owned(),
            };
            path = path.replace(&format!("{{{name}}}"), &value);
        }
    }
    assert!(!path.contains('{'), "a parameter that is not described: {path}");
    path
}

#[track_caller]
fn unauthorized(operation: &Operation, reply: &Reply) {
    assert_eq!(reply.status, 401, "{} {}: {}", operation.method, operation.template, reply.text);
    assert_eq!(reply.refused(401, "unauthorized"), "unauthorized");
}

#[test]
fn every_promised_operation_is_described() {
    let document = serde_json::to_value(auspex_server::openapi_document()).unwrap();
    for (method, path) in PROMISED {
        assert!(document["paths"][path][method].is_object(), "{method} {path}");
    }
}

#[test]
fn every_operation_under_v1_says_how_it_is_guarded() {
    let known = ["signed_request", "console_token", "legacy_key", "bearer_key"];
    let document = serde_json::to_value(auspex_server::openapi_document()).unwrap();
    for operation in operations() {
        assert!(!operation.security.is_empty(), "{operation:?}");
        for scheme in &operation.security {
            assert!(known.contains(&scheme.as_str()), "{operation:?}");
            assert!(document["components"]["securitySchemes"][scheme].is_object(), "{scheme}");
        }
        let method = operation.method.as_str().to_lowercase();
        let answers = &document["paths"][&operation.template][&method]["responses"];
        assert!(answers["401"].is_object(), "{operation:?} can answer 401");
        assert!(answers["403"].is_object(), "{operation:?} can answer 403: a suspended account");
    }
}

async fn every_operation_refuses_who_has_no_credential(app: &App) {
    for operation in operations() {
        // A full budget for each: failing requests are counted.
        app.advance(MINUTE);
        let ask = || app.request(operation.method.clone(), &operation.path);
        unauthorized(&operation, &app.send(ask()).await);
        if operation.method == Method::GET {
            assert_eq!(app.send(app.request(Method::HEAD, &operation.path)).await.status, 401);
        }
        // Whoever is not known learns nothing about what would be wrong with the rest.
        unauthorized(&operation, &app.send(ask().body("{")).await);
        for credential in ["", "Bearer", "Bearer garbage", "Bearer a.b.c", "Basic YTpi", "\u{e9}"] {
            let value = HeaderValue::from_str(credential).unwrap();
            unauthorized(&operation, &app.send(ask().header(AUTHORIZATION, value)).await);
        }
        unauthorized(&operation, &app.send(ask().header("x-api-key", "garbage")).await);
        unauthorized(&operation, &app.send(ask().query(&[("access_token", "garbage")])).await);
    }
}

async fn every_operation_refuses_a_credential_that_has_expired(app: &App) {
    let console = app.register("ada@acme.example").await;
    let signer = app.api_key(&console).await;
    let tenant = tenant_of(app, &console).await;
    let printed = admin(app, &["key", "import-legacy", "--tenant", &tenant], "an-old-long-key-0123456789");
    let key = printed.split_whitespace().last().unwrap();
    let exchange = json!({"api_key": key, "secret": "an-old-long-key-0123456789"});
    let exchanged = app.post("/auth/token", &exchange).await.json()["token"].as_str().unwrap().to_owned();
    for token in [&console, &exchanged] {
        assert_eq!(app.call(token, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    }
    let before = app.now();
    app.advance(Duration::from_secs(24 * 60 * 60 + 1));
    for operation in operations() {
        app.advance(MINUTE);
        let signed = signer.sign(before, &operation.method, &operation.path);
        for token in [&console, &exchanged, &signed] {
            let reply = app.call(token, operation.method.clone(), &operation.path, &json!({})).await;
            unauthorized(&operation, &reply);
        }
    }
}

async fn console_operations_refuse_keys(app: &App) {
    let console = app.register("ada@acme.example").await;
    let signer = app.api_key(&console).await;
    let tenant = tenant_of(app, &console).await;
    admin(app, &["key", "import-legacy", "--tenant", &tenant], "an-old-long-key-0123456789");
    let mut seen = 0;
    for operation in operations().into_iter().filter(Operation::console_only) {
        seen += 1;
        for body in [Value::Null, json!({}), json!({"code": 7})] {
            let reply = signer.call(app, operation.method.clone(), &operation.path, &body).await;
            assert_eq!(reply.status, 403, "{operation:?}: {}", reply.text);
            reply.refused(403, "forbidden");
        }
        let old = app.request(operation.method.clone(), &operation.path);
        let reply = app.send(old.header("x-api-key", "an-old-long-key-0123456789")).await;
        assert_eq!(reply.status, 403, "{operation:?}: {}", reply.text);
    }
    let for_people = |(_, path, least, scope): &auspex_server::OperationAccess| {
        path.starts_with("/v1/") && least.is_some() && scope.is_none()
    };
    assert_eq!(seen, auspex_server::operations().iter().filter(|operation| for_people(operation)).count());
}

/// What each of them answers is for other stories; here it is only that the credential opens the door.
async fn the_other_operations_take_every_credential(app: &App) {
    let console = app.register("ada@acme.example").await;
    let signer = app.api_key(&console).await;
    for operation in operations().into_iter().filter(Operation::takes_signed_requests) {
        let (method, path) = (&operation.method, &operation.path);
        let signed = signer.sign(app.now(), method, path);
        for token in [&console, &signed] {
            let reply = app.call(token, method.clone(), path, &json!({})).await;
            let status = reply.status.as_u16();
            assert!(status != 401 && status != 403 && status < 500, "{operation:?}: {}", reply.text);
        }
    }
}

#[track_caller]
fn calm(what: &dyn std::fmt::Debug, reply: &Reply) {
    assert!(reply.status.as_u16() < 500, "{what:?}: {} {}", reply.status, reply.text);
    if !reply.status.is_success() {
        assert!(reply.json()["error"]["code"].is_string(), "{what:?}: {}", reply.text);
    }
}

/// Credentials with a header and claims that parse, and a signature that holds, around values that no client sends.
fn odd_tokens(signer: &Signer, now: i64) -> Vec<String> {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let odd = [
        json!(null),
        json!(""),
        json!(0),
        json!(-1),
        json!(1e308),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(true),
        json!([]),
        json!({}),
        json!("\u{0}"),
        json!("\u{1f511}\u{202e}"),
        json!("x".repeat(2_000)),
        serde_json::from_str(&deep).unwrap_or_default(),
    ];
    let mut tokens = Vec::new();
    for value in &odd {
        for name in ["alg", "typ", "kid", "crit", "zip", "jwk", "b64"] {
            let mut header = json!({"alg": "HS256", "typ": "JWT", "kid": signer.key});
            header[name] = value.clone();
            tokens.push(signer.token(&header, &json!({"iat": now, "exp": now + 60})));
        }
        for name in ["iat", "exp", "nbf", "aud", "jti", "htm", "htu", "sub"] {
            let mut claims = json!({"iat": now, "exp": now + 60});
            claims[name] = value.clone();
            tokens.push(signer.token(&json!({"alg": "HS256", "kid": signer.key}), &claims));
        }
        tokens.push(signer.token(value, &json!({"iat": now, "exp": now + 60})));
        tokens.push(signer.token(&json!({"alg": "HS256", "kid": signer.key}), value));
    }
    tokens
}

async fn no_authorization_header_breaks_anything(app: &App) {
    let console = app.register("ada@acme.example").await;
    let signer = app.api_key(&console).await;
    for (turn, token) in odd_tokens(&signer, app.now().seconds()).iter().enumerate() {
        if turn % 50 == 0 {
            app.advance(Duration::from_secs(1));
        }
        calm(token, &app.call(token, Method::GET, "/v1/me", &Value::Null).await);
    }
    app.advance(MINUTE);
    let bytes: Vec<Vec<u8>> = vec![
        b"Bearer \xff\xfe".to_vec(),
        b"Bearer\t\t.".to_vec(),
        b"Bearer ==.==.==".to_vec(),
        b"Bearer ....".to_vec(),
        [b"Bearer ".as_slice(), &[b'.'; 4_000]].concat(),
        [b"Bearer ".as_slice(), &[0xc3; 4_000]].concat(),
        b"bearer  \x80".to_vec(),
        b",".to_vec(),
        b"Digest username=\"x\", realm=\"\\\"".to_vec(),
    ];
    for value in bytes {
        for name in ["authorization", "x-api-key"] {
            let header = HeaderValue::from_bytes(&value).unwrap();
            let request =
                app.request(Method::GET, "/v1/me").header(name, header.clone()).header(name, header);
            let reply = app.send(request).await;
            calm(&value, &reply);
            assert_eq!(reply.status, 401, "{value:?}");
        }
    }
    // An id in the query that no database can be asked for.
    let now = app.now().seconds();
    let nameless = signer.token(&json!({"alg": "HS256"}), &json!({"iat": now, "exp": now + 60}));
    for id in ["%00", "ak_%00", "%ff", "%F0%9F%94%91", "'", &"a".repeat(4_000)] {
        let path = format!("/v1/me?api_key={id}");
        app.call(&nameless, Method::GET, &path, &Value::Null).await.refused(401, "unauthorized");
    }
    // Two credentials at once: whichever counts, nothing breaks.
    let both = app.request(Method::GET, "/v1/me").bearer_auth(&console).bearer_auth("garbage");
    calm(&"two", &app.send(both.header("x-api-key", "garbage")).await);
}

async fn no_query_breaks_anything(app: &App) {
    let console = app.register("ada@acme.example").await;
    let signer = app.api_key(&console).await;
    let long = "a".repeat(4_000);
    for query in [
        "",
        "&",
        "=",
        "&&==&",
        "api_key",
        "api_key=",
        "api_key=%",
        "api_key=%zz",
        "api_key=%ff",
        "api_key=%00",
        "api_key[]=x",
        "api_key=x&api_key=y",
        "%ff=%ff",
        "token",
        "token=%ff",
        "jwt=%00",
        "a;b=c",
        "+=+",
        "api_key=\u{20ac}",
        "api_key=%F0%9F%94%91",
        "api_key=' OR 1=1 --",
        &format!("api_key={long}"),
        &long,
    ] {
        for path in ["/v1/me", "/v1/api_keys", "/v1/settings"] {
            let asked = format!("{path}?{query}");
            calm(&asked, &app.get(&asked).await);
            calm(&asked, &app.call(&console, Method::GET, &asked, &Value::Null).await);
            calm(&asked, &signer.call(app, Method::GET, &asked, &Value::Null).await);
        }
    }
}

async fn no_id_breaks_anything(app: &App) {
    let console = app.register("ada@acme.example").await;
    let long = "9".repeat(4_000);
    for id in [
        "%00",
        "%ff",
        "%",
        "%zz",
        "%2e%2e",
        "%2F",
        "..%2f..",
        "null",
        "undefined",
        "0",
        "-1",
        "1e9",
        "%20",
        "'",
        "{key_id}",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "%7B00000000-0000-0000-0000-000000000001%7D",
        "urn:uuid:00000000-0000-0000-0000-000000000001",
        &long,
    ] {
        for (method, end) in [
            (Method::PATCH, ""),
            (Method::DELETE, ""),
            (Method::POST, "/rotate"),
            (Method::GET, ""),
            (Method::PUT, ""),
        ] {
            let path = format!("/v1/api_keys/{id}{end}");
            let reply = app.call(&console, method, &path, &json!({})).await;
            calm(&path, &reply);
            assert!(!reply.status.is_success(), "{path}: {}", reply.text);
        }
    }
}

async fn no_body_breaks_anything(app: &App) {
    let console = app.register("ada@acme.example").await;
    let made = app.call(&console, Method::POST, "/v1/api_keys", &json!({})).await.json();
    let path = format!("/v1/api_keys/{}", made["api_key"]["id"].as_str().unwrap());
    let bodies: Vec<Vec<u8>> = vec![
        vec![],
        b" ".to_vec(),
        b"{".to_vec(),
        b"{}{}".to_vec(),
        b"null".to_vec(),
        b"[{}]".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"\xff\xfe".to_vec(),
        b"{\"name\":null,\"status\":null}".to_vec(),
        b"{\"name\":\"a\",\"name\":\"b\"}".to_vec(),
        b"{\"name\":\"\\ud800\"}".to_vec(),
        b"{\"name\":1e999}".to_vec(),
        b"{\"api_key\":null,\"secret\":null}".to_vec(),
        b"{\"api_key\":\"\\u0000\",\"secret\":\"\\u0000\"}".to_vec(),
        b"name=x".to_vec(),
        [b"{\"name\":".as_slice(), &[b'['; 20_000]].concat(),
        format!("{{\"api_key\":\"{0}\",\"secret\":\"{0}\"}}", "x".repeat(1 << 20)).into_bytes(),
        format!("{{\"name\":\"{}\"}}", "\u{1f511}".repeat(1 << 16)).into_bytes(),
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        for (method, path) in [
            (Method::POST, "/v1/api_keys"),
            (Method::PATCH, &path),
            (Method::POST, &format!("{path}/rotate")),
            (Method::POST, "/auth/token"),
        ] {
            for kind in ["application/json", "text/plain", "\u{e9}"] {
                let value = HeaderValue::from_str(kind).unwrap();
                let request =
                    app.request(method.clone(), path).bearer_auth(&console).header("content-type", value);
                calm(&shown, &app.send(request.body(body.clone())).await);
            }
        }
    }
}
