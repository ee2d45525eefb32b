//! API keys from their making to their end.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use model::KeyId;
use model::api::APIKeyUpdate;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use service::{Caller, Credential, KeyRights, Kind, Presented, RequestLine};
use testkit::{Backend, PATIENCE, Stage as _};
use uuid::Uuid;

use crate::admin::{admin, tenant_of};
use crate::app::{App, PASSWORD, Reply};
use crate::login::sign_in;
use crate::signer::Signer;

/// A change on one node holds on every other within a second; the rest is for a machine that is busy with other tests.
pub(crate) const OTHER_NODES_LIMIT: Duration = Duration::from_millis(1_000 + 500);

testkit::on_both!(
    a_key_is_made_with_a_secret_that_is_shown_once,
    a_key_needs_no_name,
    names_have_limits,
    a_key_is_renamed_switched_off_and_on_again,
    changes_that_make_no_sense_are_refused,
    a_revoked_key_is_gone_for_good,
    a_rotated_key_keeps_its_id_and_takes_a_new_secret_at_once,
    rotations_that_race_leave_one_secret,
    requests_under_way_do_not_bring_an_old_secret_back,
    invalid_ids_and_keys_of_others_are_distinguished,
    a_key_manages_keys_too,
    a_credential_that_has_just_ended_changes_no_key,
    everyone_in_the_console_hears_of_new_rotated_and_revoked_keys,
    the_mails_cannot_be_turned_off,
    the_last_use_is_written_once_a_minute,
);

async fn make(app: &App, token: &str, body: &Value) -> (Value, Signer) {
    let reply = app.call(token, Method::POST, "/v1/api_keys", body).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let made = reply.json();
    let signer = Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap());
    (made, signer)
}

fn path_of(made: &Value) -> String {
    format!("/v1/api_keys/{}", made["api_key"]["id"].as_str().unwrap())
}

async fn list(app: &App, token: &str) -> Vec<Value> {
    let reply = app.call(token, Method::GET, "/v1/api_keys", &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let listed = reply.json();
    assert_eq!(listed.as_object().unwrap().len(), 1, "nothing but the keys: {listed}");
    listed["api_keys"].as_array().unwrap().clone()
}

/// The caller that a request with this console token has once it is authenticated.
pub(crate) async fn caller_of(app: &App, token: &str) -> Caller {
    let presented = Presented {
        bearer: Some(token),
        x_api_key: None,
        cookie: None,
        api_key: None,
        token_in_query: false,
        request: RequestLine { method: "GET", decoded_path: Some("/v1/me") },
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        agent: None,
        request_id: None,
    };
    app.service().accounts.authentication.authenticate(presented).await.unwrap()
}

async fn me(app: &App, signer: &Signer) -> Reply {
    signer.call(app, Method::GET, "/v1/me", &Value::Null).await
}

async fn a_key_is_made_with_a_secret_that_is_shown_once(app: &App) {
    let token = app.register("ada@acme.example").await;
    let (made, signer) = make(app, &token, &json!({"name": "production", "unknown": [1]})).await;
    let key = &made["api_key"];
    let id = key["id"].as_str().unwrap();
    assert_eq!(id.parse::<Uuid>().unwrap().get_version_num(), 7);
    assert!(signer.key.starts_with("ak_") && signer.secret.starts_with("sk_"), "{made}");
    assert!(signer.secret.len() >= 35, "at least 192 bits in base64 after the prefix");
    assert!(!made["note"].as_str().unwrap().is_empty());
    assert_eq!(made.as_object().unwrap().len(), 4, "{made}");
    let expected = json!({
        "id": id,
        "key": signer.key,
        "name": "production",
        "status": "active",
        "kind": "signed",
        "scopes": ["ingest", "read", "write", "label"],
        "has_secret": true,
        "created_at": app.now().to_string(),
    });
    assert_eq!(*key, expected, "fields that are not set are left out");
    let listed = app.call(&token, Method::GET, "/v1/api_keys", &Value::Null).await;
    assert_eq!(listed.json(), json!({"api_keys": [expected]}));
    assert!(!listed.text.contains("sk_"));
    assert_eq!(me(app, &signer).await.json()["auth_type"], "tenant");
    let (_, other) = make(app, &token, &json!({"name": "production"})).await;
    assert_ne!(other.key, signer.key, "a name may be used twice, an id not");
    assert_ne!(other.secret, signer.secret);
}

async fn a_key_needs_no_name(app: &App) {
    let token = app.register("ada@acme.example").await;
    let empty = app.call(&token, Method::POST, "/v1/api_keys", &Value::Null).await;
    assert_eq!(empty.status, 201, "{}", empty.text);
    assert_eq!(empty.json()["api_key"]["name"], "API key");
    let (made, _) = make(app, &token, &json!({})).await;
    assert_eq!(made["api_key"]["name"], "API key");
}

async fn names_have_limits(app: &App) {
    let token = app.register("ada@acme.example").await;
    // Characters are counted, not bytes.
    for name in ["n".repeat(100), "\u{1f511}".repeat(100), "Ada's key; DROP TABLE api_keys --".to_owned()] {
        let (made, _) = make(app, &token, &json!({"name": name})).await;
        assert_eq!(made["api_key"]["name"], name.as_str());
    }
    let (made, _) = make(app, &token, &json!({"name": "kept"})).await;
    for name in [json!("n".repeat(101)), json!(""), json!("  "), json!("a\nb"), json!(7), json!(["x"])] {
        let body = json!({"name": name});
        let created = app.call(&token, Method::POST, "/v1/api_keys", &body).await;
        assert!(created.refused(400, "bad_request").contains("name"), "{}", created.text);
        let renamed = app.call(&token, Method::PATCH, &path_of(&made), &body).await;
        assert!(renamed.refused(400, "bad_request").contains("name"), "{}", renamed.text);
    }
    for body in ["[]", "\"production\"", "{", "7", r#"{"name": "a\u0000b"}"#] {
        let request = app.request(Method::POST, "/v1/api_keys").bearer_auth(&token).body(body);
        app.send(request).await.refused(400, "bad_request");
    }
    let keys = list(app, &token).await;
    assert_eq!(keys.len(), 4, "refusals made none");
    assert!(keys.contains(&made["api_key"]), "and changed none: {keys:?}");
}

async fn a_key_is_renamed_switched_off_and_on_again(app: &App) {
    let token = app.register("ada@acme.example").await;
    let (made, signer) = make(app, &token, &json!({"name": "old"})).await;
    let mut expected = made["api_key"].clone();
    for (change, field, value) in [
        (json!({"name": "new"}), "name", "new"),
        (json!({"status": "inactive"}), "status", "inactive"),
        (json!({"status": "inactive"}), "status", "inactive"),
        (json!({"name": "asleep"}), "name", "asleep"),
        (json!({}), "name", "asleep"),
    ] {
        let reply = app.call(&token, Method::PATCH, &path_of(&made), &change).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        expected[field] = json!(value);
        assert_eq!(reply.json(), expected, "the rest stays");
    }
    assert_eq!(me(app, &signer).await.refused(401, "unauthorized"), "unauthorized");
    assert_eq!(list(app, &token).await, [expected.clone()], "it is still listed");
    let both = json!({"name": "awake", "status": "active"});
    let reply = app.call(&token, Method::PATCH, &path_of(&made), &both).await;
    expected["name"] = json!("awake");
    expected["status"] = json!("active");
    assert_eq!(reply.json(), expected);
    assert_eq!(me(app, &signer).await.status, 200);
}

async fn changes_that_make_no_sense_are_refused(app: &App) {
    let token = app.register("ada@acme.example").await;
    let (made, signer) = make(app, &token, &json!({"name": "kept"})).await;
    for status in [json!("revoked"), json!("Active"), json!(""), json!(true), json!(["active"])] {
        let body = json!({"name": "changed", "status": status});
        let reply = app.call(&token, Method::PATCH, &path_of(&made), &body).await;
        let message = reply.refused(400, "bad_request");
        assert!(!status.is_string() || message.contains("status"), "{message}");
    }
    assert_eq!(list(app, &token).await, [made["api_key"].clone()], "a refused change changes nothing");
    assert_eq!(me(app, &signer).await.status, 200);
}

async fn a_revoked_key_is_gone_for_good(app: &App) {
    let token = app.register("ada@acme.example").await;
    for asleep in [false, true] {
        let (made, signer) = make(app, &token, &json!({})).await;
        let path = path_of(&made);
        if asleep {
            let reply = app.call(&token, Method::PATCH, &path, &json!({"status": "inactive"})).await;
            assert_eq!(reply.status, 200);
        }
        let reply = app.call(&token, Method::DELETE, &path, &Value::Null).await;
        assert_eq!((reply.status, reply.text.as_str()), (StatusCode::NO_CONTENT, ""));
        assert_eq!(me(app, &signer).await.refused(401, "unauthorized"), "unauthorized");
        assert_eq!(list(app, &token).await, Vec::<Value>::new());
        for (method, path, body) in [
            (Method::DELETE, path.clone(), Value::Null),
            (Method::PATCH, path.clone(), json!({"status": "active"})),
            (Method::PATCH, path.clone(), json!({"name": "back"})),
            (Method::POST, format!("{path}/rotate"), Value::Null),
        ] {
            app.call(&token, method, &path, &body).await.refused(404, "not_found");
        }
        assert_eq!(me(app, &signer).await.status, 401);
    }
}

async fn rotate(app: &App, token: &str, made: &Value) -> (Value, Signer) {
    let path = format!("{}/rotate", path_of(made));
    let reply = app.call(token, Method::POST, &path, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let rotated = reply.json();
    let signer = Signer::new(rotated["key"].as_str().unwrap(), rotated["secret"].as_str().unwrap());
    (rotated, signer)
}

async fn a_rotated_key_keeps_its_id_and_takes_a_new_secret_at_once(app: &App) {
    let token = app.register("ada@acme.example").await;
    let (made, old) = make(app, &token, &json!({"name": "production"})).await;
    assert_eq!(me(app, &old).await.status, 200, "the old secret is known to the node");
    let (rotated, new) = rotate(app, &token, &made).await;
    assert_eq!(new.key, old.key);
    assert_ne!(new.secret, old.secret);
    assert!(new.secret.starts_with("sk_"));
    assert!(!rotated["note"].as_str().unwrap().is_empty());
    for field in ["id", "key", "name", "status", "has_secret", "created_at"] {
        assert_eq!(rotated["api_key"][field], made["api_key"][field], "{field}");
    }
    assert_eq!(me(app, &old).await.refused(401, "unauthorized"), "unauthorized");
    assert_eq!(me(app, &new).await.status, 200);
    // A sleeping key takes a new secret in its sleep.
    app.call(&token, Method::PATCH, &path_of(&made), &json!({"status": "inactive"})).await;
    let (rotated, newest) = rotate(app, &token, &made).await;
    assert_eq!(rotated["api_key"]["status"], "inactive");
    assert_eq!(me(app, &newest).await.status, 401);
    app.call(&token, Method::PATCH, &path_of(&made), &json!({"status": "active"})).await;
    assert_eq!(me(app, &newest).await.status, 200);
    assert_eq!(me(app, &new).await.status, 401);
}

async fn rotations_that_race_leave_one_secret(app: &App) {
    let token = app.register("ada@acme.example").await;
    let (made, first) = make(app, &token, &json!({})).await;
    let ((_, a), (_, b), (_, c), (_, d)) = tokio::join!(
        rotate(app, &token, &made),
        rotate(app, &token, &made),
        rotate(app, &token, &made),
        rotate(app, &token, &made),
    );
    let mut working = 0;
    for signer in [first, a, b, c, d] {
        working += u32::from(me(app, &signer).await.status == 200);
    }
    assert_eq!(working, 1);
}

/// A request reads the key, the key is rotated, and only then the request gets to remember what it read.
async fn requests_under_way_do_not_bring_an_old_secret_back(app: &App) {
    let token = app.register("ada@acme.example").await;
    for _ in 0..20 {
        let (made, old) = make(app, &token, &json!({})).await;
        let call = || me(app, &old);
        let ((_, new), ..) =
            tokio::join!(rotate(app, &token, &made), call(), call(), call(), call(), call(), call(), call());
        assert_eq!(me(app, &old).await.status, 401);
        assert_eq!(me(app, &new).await.status, 200);
    }
}

async fn invalid_ids_and_keys_of_others_are_distinguished(app: &App) {
    let token = app.register("ada@acme.example").await;
    let (made, signer) = make(app, &token, &json!({"name": "Ada's"})).await;
    let stranger = app.register("eve@zenith.example").await;
    let (eves, _) = make(app, &stranger, &json!({})).await;
    let uuid = made["api_key"]["id"].as_str().unwrap();
    let not_ids = ["x", "7", &signer.key, "%00", "%ff", &format!("{uuid}0"), &uuid[1..], "%F0%9F%94%91"];
    let ask = async |id: &str| {
        let rename = json!({"name": "Eve's"});
        let path = format!("/v1/api_keys/{id}");
        [
            app.call(&stranger, Method::PATCH, &path, &rename).await,
            app.call(&stranger, Method::DELETE, &path, &Value::Null).await,
            app.call(&stranger, Method::POST, &format!("{path}/rotate"), &Value::Null).await,
        ]
    };
    for id in not_ids {
        for reply in ask(id).await {
            reply.refused(400, "bad_request");
        }
    }
    let nobodys = Uuid::from_u128(1).to_string();
    for id in [uuid, &nobodys] {
        for reply in ask(id).await {
            reply.refused(404, "not_found");
        }
    }
    assert_eq!(list(app, &token).await, [made["api_key"].clone()], "Ada's key is untouched");
    assert_eq!(list(app, &stranger).await, [eves["api_key"].clone()], "and Eve sees her own only");
    assert_eq!(me(app, &signer).await.status, 200);
}

async fn a_key_manages_keys_too(app: &App) {
    let token = app.register("ada@acme.example").await;
    let (_, first) = make(app, &token, &json!({})).await;
    let reply = first.call(app, Method::POST, "/v1/api_keys", &json!({"name": "second"})).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let made = reply.json();
    let path = path_of(&made);
    let reply = first.call(app, Method::PATCH, &path, &json!({"name": "renamed"})).await;
    assert_eq!(reply.json()["name"], "renamed");
    // A key may rotate itself, and is told its new secret in the answer to the request that the old one signed.
    let second = Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let reply = second.call(app, Method::POST, &format!("{path}/rotate"), &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let second = Signer::new(&second.key, reply.json()["secret"].as_str().unwrap());
    assert_eq!(second.call(app, Method::DELETE, &path, &Value::Null).await.status, 204);
    assert_eq!(me(app, &second).await.status, 401);
    assert_eq!(list(app, &token).await.len(), 1);
}

async fn a_credential_that_has_just_ended_changes_no_key(app: &App) {
    let token = app.register("ada@acme.example").await;
    let (made, _) = make(app, &token, &json!({"name": "kept"})).await;
    let (manager, _) = make(app, &token, &json!({"name": "manager"})).await;
    let id = |made: &Value| KeyId(made["api_key"]["id"].as_str().unwrap().parse().unwrap());
    let session = sign_in(app, "ada@acme.example").await;
    // Both were authenticated just before they ended.
    let by_session = caller_of(app, &session).await;
    let credential = Credential::Key { key: id(&manager), rights: KeyRights::ALL };
    let by_key = Caller { tenant: by_session.tenant, credential };
    assert_eq!(app.call(&session, Method::POST, "/auth/console/logout", &Value::Null).await.status, 204);
    assert_eq!(app.call(&token, Method::DELETE, &path_of(&manager), &Value::Null).await.status, 204);
    let service = app.service();
    let keys = &service.accounts.keys;
    let update = APIKeyUpdate { name: Some("taken".to_owned()), status: None };
    for caller in [by_session, by_key] {
        for refused in [
            keys.update(caller, id(&made), &update).await.map(drop),
            keys.rotate(caller, id(&made)).await.map(drop),
            keys.revoke(caller, id(&made)).await,
        ] {
            assert_eq!(refused.unwrap_err().kind(), Kind::Unauthorized);
        }
    }
    let listed = list(app, &token).await;
    assert_eq!((listed.len(), &listed[0]["name"]), (1, &json!("kept")));
}

async fn everyone_in_the_console_hears_of_new_rotated_and_revoked_keys(app: &App) {
    let token = app.register("ada@acme.example").await;
    let tenant = tenant_of(app, &token).await;
    admin(app, &["user", "create", "--tenant", &tenant, "bob@acme.example"], PASSWORD);
    app.register("eve@zenith.example").await;
    let (made, signer) = make(app, &token, &json!({"name": "production"})).await;
    let path = path_of(&made);
    // What changes no secret is told to nobody.
    for change in [json!({"name": "live"}), json!({"status": "inactive"}), json!({"status": "active"})] {
        assert_eq!(app.call(&token, Method::PATCH, &path, &change).await.status, 200);
    }
    let (_, rotated) = rotate(app, &token, &made).await;
    assert_eq!(app.call(&token, Method::DELETE, &path, &Value::Null).await.status, 204);
    let mails = app.mails().await;
    for address in ["ada@acme.example", "bob@acme.example"] {
        let got: Vec<_> = mails.iter().filter(|mail| mail.to.contains(address)).collect();
        assert_eq!(got.len(), 3, "{got:?}");
        for (word, name) in [("created", "production"), ("rotated", "live"), ("revoked", "live")] {
            let mail = got.iter().find(|mail| mail.subject.to_lowercase().contains(word));
            let text = &mail.unwrap_or_else(|| panic!("no {word} among {got:?}")).text;
            assert!(text.contains(name) && text.contains(&signer.key), "{text}");
            assert!(!text.contains(&signer.secret) && !text.contains(&rotated.secret));
        }
    }
    assert!(mails.iter().all(|mail| !mail.to.contains("eve@")), "another account's people hear nothing");
}

async fn the_mails_cannot_be_turned_off(app: &App) {
    let token = app.register("ada@acme.example").await;
    for event in ["api_key_created", "api_key_rotated", "api_key_revoked"] {
        let reply = app.call(&token, Method::PUT, "/v1/me/notifications", &json!({event: false})).await;
        reply.refused(400, "bad_request");
    }
    let (made, _) = make(app, &token, &json!({})).await;
    rotate(app, &token, &made).await;
    app.call(&token, Method::DELETE, &path_of(&made), &Value::Null).await;
    let subjects = app.subjects_to("ada@acme.example").await;
    assert_eq!(subjects.len(), 3, "{subjects:?}");
}

/// The key's `last_used_at` as soon as it is not `before`.
async fn last_used_other_than(app: &App, token: &str, before: &Value) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = list(app, token).await[0]["last_used_at"].clone();
        if shown != *before {
            return shown;
        }
        assert!(Instant::now() < deadline, "the use is not written: {before}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn the_last_use_is_written_once_a_minute(app: &App) {
    let token = app.register("ada@acme.example").await;
    let (made, signer) = make(app, &token, &json!({})).await;
    assert_eq!(list(app, &token).await, [made["api_key"].clone()], "a console session does not use the key");
    let forger = Signer::new(&signer.key, "sk_wrong");
    assert_eq!(me(app, &forger).await.status, 401);
    assert_eq!(list(app, &token).await[0].get("last_used_at"), None, "nor does a forged request");
    app.advance(Duration::from_secs(5));
    let first = json!(app.now().to_string());
    assert_eq!(me(app, &signer).await.status, 200);
    assert_eq!(last_used_other_than(app, &token, &Value::Null).await, first);
    for _ in 0..3 {
        app.advance(Duration::from_secs(19));
        assert_eq!(me(app, &signer).await.status, 200);
        assert_eq!(list(app, &token).await[0]["last_used_at"], first, "written within this minute");
    }
    app.advance(Duration::from_secs(4));
    let second = json!(app.now().to_string());
    assert_eq!(me(app, &signer).await.status, 200);
    // Had a use in between been written late, this would see it first.
    assert_eq!(last_used_other_than(app, &token, &first).await, second);
    assert_eq!(list(app, &token).await[0].get("legacy_used_at"), None);
}

/// Two nodes on one database; a key in use on both is changed through the first.
async fn the_other_node_follows(change: impl AsyncFn(&App, &str, &Value)) {
    let app = App::start(Backend::Postgres, &[]).await;
    let other = app.second_node(&[]).await;
    let token = app.register("ada@acme.example").await;
    for _ in 0..3 {
        let (made, signer) = make(&app, &token, &json!({})).await;
        for node in [&app, &other] {
            assert_eq!(me(node, &signer).await.status, 200, "both nodes know the key");
        }
        change(&app, &token, &made).await;
        let changed = Instant::now();
        assert_eq!(me(&app, &signer).await.status, 401, "at once on the node that was asked");
        while me(&other, &signer).await.status != 401 {
            assert!(changed.elapsed() < OTHER_NODES_LIMIT, "the other node still takes the key");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // It stays refused: nothing that was under way put the old key back.
        assert_eq!(me(&other, &signer).await.status, 401);
    }
    other.stop().await;
    app.tear_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_reaches_every_node_within_a_second() {
    the_other_node_follows(async |app, token, made| {
        assert_eq!(app.call(token, Method::DELETE, &path_of(made), &Value::Null).await.status, 204);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deactivation_reaches_every_node_within_a_second() {
    the_other_node_follows(async |app, token, made| {
        let off = json!({"status": "inactive"});
        assert_eq!(app.call(token, Method::PATCH, &path_of(made), &off).await.status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_reaches_every_node_within_a_second() {
    the_other_node_follows(async |app, token, made| {
        rotate(app, token, made).await;
    })
    .await;
}

/// Behind a balancer, the first request with the new secret may reach any node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_secret_works_on_every_node_at_once() {
    let app = App::start(Backend::Postgres, &[]).await;
    let other = app.second_node(&[]).await;
    let token = app.register("ada@acme.example").await;
    let (made, old) = make(&app, &token, &json!({})).await;
    assert_eq!(me(&other, &old).await.status, 200, "the other node knows the old secret");
    let (_, new) = rotate(&app, &token, &made).await;
    assert_eq!(me(&other, &new).await.status, 200);
    assert_eq!(me(&other, &old).await.status, 401, "and the new one took its place");
    other.stop().await;
    app.tear_down().await;
}
