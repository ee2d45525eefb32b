//! Objects found by a part of their id or name.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::app::App;
use crate::signer::Signer;

testkit::on_both!(
    a_part_of_an_id_or_a_name_finds_the_object,
    an_object_is_found_by_what_it_is_called_now,
    nobody_finds_the_objects_of_others,
    a_rare_text_is_found_among_many_objects,
);

async fn send(app: &App, key: &Signer, object_id: &str, name: Option<&str>) {
    let metadata = name.map_or_else(|| json!({}), |name| json!({"name": name}));
    let body = json!({"events": [{"type": "event", "name": "sale", "metadata": metadata}]});
    let path = format!("/v1/objects/{}/events", escaped(object_id));
    let token = key.sign(app.now(), &Method::POST, &format!("/v1/objects/{object_id}/events"));
    let reply = app.call(&token, Method::POST, &path, &body).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
}

/// Every byte that could mean something in an address.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

async fn page(app: &App, key: &Signer, text: &str, more: &str) -> Value {
    let path = format!("/v1/objects?q={}{more}", escaped(text));
    let reply = key.call(app, Method::GET, &path, &Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

fn ids(page: &Value) -> Vec<&str> {
    page["objects"].as_array().unwrap().iter().map(|object| object["object_id"].as_str().unwrap()).collect()
}

/// The analyses that the events have scheduled.
async fn let_analyses_run(app: &App) {
    app.advance(Duration::from_secs(3));
    app.settle().await;
}

async fn stage(app: &App, email: &str) -> Signer {
    let token = app.register(email).await;
    app.api_key(&token).await
}

async fn a_part_of_an_id_or_a_name_finds_the_object(app: &App) {
    let key = stage(app, "ann@example.com").await;
    for (object_id, name) in [
        ("user_1", Some("Jürgen Müller-Straße")),
        ("USER/2 100%", Some("ΟΔΟΣ")),
        ("日本語🙂", None),
        ("o'brien\"; DROP", Some("back\\slash * AND")),
    ] {
        send(app, &key, object_id, name).await;
        app.advance(Duration::from_millis(1));
    }
    for (text, expected) in [
        ("user", vec!["USER/2 100%", "user_1"]),
        ("er_", vec!["user_1"]),
        ("MÜLL", vec!["user_1"]),
        ("strasse", vec!["user_1"]),
        ("οδο", vec!["USER/2 100%"]),
        ("οδος", vec!["USER/2 100%"]),
        ("00%", vec!["USER/2 100%"]),
        ("%", vec!["USER/2 100%"]),
        ("_", vec!["user_1"]),
        ("u%r", vec![]),
        ("日本語", vec!["日本語🙂"]),
        ("本", vec!["日本語🙂"]),
        ("🙂", vec!["日本語🙂"]),
        ("'brien\";", vec!["o'brien\"; DROP"]),
        ("\\slash * and", vec!["o'brien\"; DROP"]),
        ("NOT \"", vec![]),
        ("brien\" OR \"a", vec![]),
        ("user_1user_1", vec![]),
    ] {
        let found = page(app, &key, text, "").await;
        assert_eq!(ids(&found), expected, "{text}");
        assert!(found.get("next_cursor").is_none(), "{text}");
    }
    let_analyses_run(app).await;
}

async fn an_object_is_found_by_what_it_is_called_now(app: &App) {
    let key = stage(app, "ann@example.com").await;
    send(app, &key, "user_1", Some("Anna Blum")).await;
    send(app, &key, "user_1", None).await;
    assert_eq!(ids(&page(app, &key, "blum", "").await), ["user_1"], "an event without a name keeps it");
    send(app, &key, "user_1", Some("Anna Stern")).await;
    assert_eq!(ids(&page(app, &key, "stern", "").await), ["user_1"]);
    assert!(ids(&page(app, &key, "blum", "").await).is_empty());
    let_analyses_run(app).await;
    let reply = key.call(app, Method::DELETE, "/v1/objects/user_1", &Value::Null).await;
    assert_eq!(reply.status, 204, "{}", reply.text);
    assert!(ids(&page(app, &key, "stern", "").await).is_empty());
    send(app, &key, "user_1", None).await;
    assert!(ids(&page(app, &key, "stern", "").await).is_empty(), "another object of the same id");
    assert_eq!(ids(&page(app, &key, "SER_1", "").await), ["user_1"]);
    let_analyses_run(app).await;
}

async fn nobody_finds_the_objects_of_others(app: &App) {
    let (ann, bob) = (stage(app, "ann@example.com").await, stage(app, "bob@example.com").await);
    send(app, &ann, "shared_name", Some("Confidential")).await;
    send(app, &bob, "bobs_own", Some("Confidential too")).await;
    for text in ["confidential", "co", "_name", "own"] {
        let (of_ann, of_bob) = (page(app, &ann, text, "").await, page(app, &bob, text, "").await);
        assert!(ids(&of_ann).iter().all(|id| *id == "shared_name"), "{text}");
        assert!(ids(&of_bob).iter().all(|id| *id == "bobs_own"), "{text}");
        assert!(!ids(&of_ann).is_empty() || !ids(&of_bob).is_empty(), "{text}");
    }
    let_analyses_run(app).await;
}

async fn a_rare_text_is_found_among_many_objects(app: &App) {
    let key = stage(app, "ann@example.com").await;
    // More than a search walks past before it looks the text up.
    for n in 0..300_u32 {
        let name = n.is_multiple_of(100).then(|| format!("Needle {n}"));
        send(app, &key, &format!("straw_{n:03}"), name.as_deref()).await;
        app.advance(Duration::from_millis(1));
    }
    let expected = ["straw_200", "straw_100", "straw_000"];
    assert_eq!(ids(&page(app, &key, "needle", "&limit=5").await), expected);
    assert_eq!(ids(&page(app, &key, "needle", "&limit=5&offset=1").await), expected[1..]);
    let first = page(app, &key, "needle", "&limit=2").await;
    assert_eq!(ids(&first), expected[..2]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = page(app, &key, "needle", &format!("&limit=2&cursor={cursor}")).await;
    assert_eq!((ids(&rest), rest.get("next_cursor")), (vec!["straw_000"], None));
    let other = format!("/v1/objects?q=straw&cursor={cursor}");
    key.call(app, Method::GET, &other, &Value::Null).await.refused(400, "bad_request");
    let_analyses_run(app).await;
    for sort in ["flagged", "trust"] {
        let mut found = page(app, &key, "needle", &format!("&sort={sort}&limit=5")).await;
        found["objects"].as_array_mut().unwrap().sort_by_key(|object| object["object_id"].to_string());
        assert_eq!(ids(&found), ["straw_000", "straw_100", "straw_200"], "{sort}");
    }
    let mut listed = 0;
    let mut cursor = String::new();
    loop {
        let found = page(app, &key, "STRAW_1", &format!("&limit=30{cursor}")).await;
        listed += ids(&found).len();
        let Some(next) = found["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(listed, 100);
}
