//! Signed requests, to the letter of the specification: what is taken, and that all else gets one and the same answer.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Method;
use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};
use sha2::Sha512;

use crate::app::{App, Reply};
use crate::signer::Signer;

testkit::on_both!(
    the_key_id_is_in_the_header_or_in_the_query_and_they_agree,
    only_hs256_is_taken,
    a_token_says_when_it_was_made_and_when_it_ends,
    a_token_lives_for_five_minutes_at_most,
    clocks_may_differ_by_a_minute,
    a_token_may_be_bound_to_a_method,
    a_token_may_be_bound_to_a_path,
    paths_are_compared_decoded_once,
    an_object_s_path_is_signed_decoded,
    tokens_in_the_query_are_refused,
    the_scheme_is_bearer_in_any_case,
    forged_and_broken_tokens_are_refused,
    every_failure_gets_the_same_answer,
    a_token_may_be_sent_again_while_it_lives,
    time_does_not_tell_an_unknown_key_from_a_bad_signature,
);

/// What a key needs to sign by hand.
struct Scene<'a> {
    app: &'a App,
    console: String,
    signer: Signer,
}

impl<'a> Scene<'a> {
    async fn set(app: &'a App) -> Self {
        let console = app.register("ada@acme.example").await;
        let signer = app.api_key(&console).await;
        Self { app, console, signer }
    }

    fn header(&self) -> Value {
        json!({"alg": "HS256", "typ": "JWT", "kid": self.signer.key})
    }

    /// Claims that last a minute from now, with these beside or instead.
    fn claims(&self, other: &Value) -> Value {
        let now = self.app.now().seconds();
        let mut claims = json!({"iat": now, "exp": now + 60});
        for (name, value) in other.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    fn token(&self, header: &Value, other: &Value) -> String {
        self.signer.token(header, &self.claims(other))
    }

    async fn get(&self, path: &str, token: &str) -> Reply {
        self.app.call(token, Method::GET, path, &Value::Null).await
    }

    /// `GET /v1/me` with these claims beside the usual ones.
    async fn with_claims(&self, other: &Value) -> Reply {
        self.get("/v1/me", &self.token(&self.header(), other)).await
    }
}

#[track_caller]
fn taken(reply: &Reply) {
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json()["auth_type"], "tenant");
}

#[track_caller]
fn refused(reply: &Reply) {
    assert_eq!(reply.status, 401, "{}", reply.text);
    assert_eq!(reply.text, r#"{"error":{"code":"unauthorized","message":"unauthorized"}}"#);
}

async fn the_key_id_is_in_the_header_or_in_the_query_and_they_agree(app: &App) {
    let scene = Scene::set(app).await;
    let other = app.api_key(&scene.console).await;
    let key = &scene.signer.key;
    let with_kid = scene.token(&scene.header(), &json!({}));
    let without = scene.token(&json!({"alg": "HS256", "typ": "JWT"}), &json!({}));
    taken(&scene.get("/v1/me", &with_kid).await);
    taken(&scene.get(&format!("/v1/me?api_key={key}"), &without).await);
    taken(&scene.get(&format!("/v1/me?api_key={key}"), &with_kid).await);
    taken(&scene.get(&format!("/v1/me?x=1&api_key={}&y", key.replace('_', "%5F")), &with_kid).await);
    refused(&scene.get("/v1/me", &without).await);
    refused(&scene.get("/v1/me?api_key=", &without).await);
    refused(&scene.get("/v1/me?api_key=ak_nobody", &without).await);
    refused(&scene.get(&format!("/v1/me?API_KEY={key}"), &without).await);
    // Both are keys of the account, and still they must be one.
    refused(&scene.get(&format!("/v1/me?api_key={}", other.key), &with_kid).await);
    refused(&scene.get("/v1/me?api_key=ak_nobody", &with_kid).await);
    for twice in [format!("{key}&api_key={}", other.key), format!("{}&api_key={key}", other.key)] {
        refused(&scene.get(&format!("/v1/me?api_key={twice}"), &without).await);
        refused(&scene.get(&format!("/v1/me?api_key={twice}"), &with_kid).await);
    }
    for kid in [json!(7), json!([key]), json!({"kid": key}), json!(format!("{key} ")), json!("ak_nobody")] {
        let token = scene.token(&json!({"alg": "HS256", "typ": "JWT", "kid": kid}), &json!({}));
        refused(&scene.get("/v1/me", &token).await);
        refused(&scene.get(&format!("/v1/me?api_key={key}"), &token).await);
    }
    // The id alone proves nothing.
    refused(&app.get(&format!("/v1/me?api_key={key}")).await);
}

async fn only_hs256_is_taken(app: &App) {
    let scene = Scene::set(app).await;
    let key = &scene.signer.key;
    for algorithm in [
        json!("none"),
        json!("None"),
        json!("HS512"),
        json!("HS384"),
        json!("RS256"),
        json!("ES256"),
        json!("EdDSA"),
        json!("hs256"),
        json!("HS256 "),
        json!(""),
        json!(null),
        json!(256),
        json!(["HS256"]),
    ] {
        // Signed with HS256 all the same: it is the header that is refused.
        let header = json!({"alg": algorithm, "typ": "JWT", "kid": key});
        refused(&scene.get("/v1/me", &scene.token(&header, &json!({}))).await);
    }
    refused(&scene.get("/v1/me", &scene.token(&json!({"typ": "JWT", "kid": key}), &json!({}))).await);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let unsigned =
        format!("{}.{}.", part(&json!({"alg": "none", "kid": key})), part(&scene.claims(&json!({}))));
    refused(&scene.get("/v1/me", &unsigned).await);
    let message = format!(
        "{}.{}",
        part(&json!({"alg": "HS512", "typ": "JWT", "kid": key})),
        part(&scene.claims(&json!({})))
    );
    let mut mac = Hmac::<Sha512>::new_from_slice(scene.signer.secret.as_bytes()).unwrap();
    mac.update(message.as_bytes());
    let honest = format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()));
    refused(&scene.get("/v1/me", &honest).await);
}

async fn a_token_says_when_it_was_made_and_when_it_ends(app: &App) {
    let scene = Scene::set(app).await;
    let now = app.now().seconds();
    for claims in [json!({}), json!({"iat": now}), json!({"exp": now + 60})] {
        refused(&scene.get("/v1/me", &scene.signer.token(&scene.header(), &claims)).await);
    }
    for not_a_time in [
        json!("1767225600"),
        json!(null),
        json!(true),
        json!([now]),
        json!({}),
        json!(-1),
        json!(1e300),
        json!(0),
    ] {
        refused(&scene.with_claims(&json!({"iat": not_a_time})).await);
        refused(&scene.with_claims(&json!({"exp": not_a_time})).await);
        refused(&scene.with_claims(&json!({"iat": not_a_time, "exp": not_a_time})).await);
    }
    for far in [i64::MIN, i64::MAX] {
        refused(&scene.with_claims(&json!({"iat": far})).await);
        refused(&scene.with_claims(&json!({"exp": far})).await);
        refused(&scene.with_claims(&json!({"iat": far, "exp": far})).await);
    }
    refused(&scene.with_claims(&json!({"exp": u64::MAX})).await);
    for claims in [json!([now, now + 60]), json!("iat"), json!(null), json!(7)] {
        refused(&scene.get("/v1/me", &scene.signer.token(&scene.header(), &claims)).await);
    }
}

async fn a_token_lives_for_five_minutes_at_most(app: &App) {
    let scene = Scene::set(app).await;
    let now = app.now().seconds();
    taken(&scene.with_claims(&json!({"exp": now + 300})).await);
    refused(&scene.with_claims(&json!({"exp": now + 301})).await);
    refused(&scene.with_claims(&json!({"exp": now + 86_400})).await);
    // The skew is for clocks that differ, not for a longer life.
    refused(&scene.with_claims(&json!({"iat": now - 30, "exp": now + 271})).await);
    taken(&scene.with_claims(&json!({"iat": now - 30, "exp": now + 270})).await);
    // It ages as the clock moves.
    let token = scene.token(&scene.header(), &json!({"exp": now + 300}));
    app.advance(Duration::from_mins(5));
    taken(&scene.get("/v1/me", &token).await);
    app.advance(Duration::from_secs(61));
    refused(&scene.get("/v1/me", &token).await);
}

async fn clocks_may_differ_by_a_minute(app: &App) {
    let scene = Scene::set(app).await;
    let now = app.now().seconds();
    for (iat, exp, fits) in [
        (now + 59, now + 100, true),
        (now + 60, now + 100, true),
        (now + 61, now + 100, false),
        (now + 3_600, now + 3_660, false),
        (now - 120, now - 59, true),
        (now - 120, now - 60, true),
        (now - 120, now - 61, false),
        (now - 3_600, now - 3_540, false),
    ] {
        let reply = scene.with_claims(&json!({"iat": iat, "exp": exp})).await;
        if fits { taken(&reply) } else { refused(&reply) }
    }
}

async fn a_token_may_be_bound_to_a_method(app: &App) {
    let scene = Scene::set(app).await;
    for method in ["GET", "get", "Get"] {
        taken(&scene.with_claims(&json!({"htm": method})).await);
    }
    for method in
        [json!("POST"), json!(""), json!("GET "), json!("GET,POST"), json!("*"), json!(7), json!(["GET"])]
    {
        refused(&scene.with_claims(&json!({"htm": method})).await);
    }
    for (method, status) in [("HEAD", 200), ("GET", 401)] {
        let token = scene.token(&scene.header(), &json!({"htm": method}));
        let reply = app.call(&token, Method::HEAD, "/v1/me", &Value::Null).await;
        assert_eq!(reply.status, status, "a HEAD signed as {method}");
    }
    let token = scene.token(&scene.header(), &json!({"htm": "post"}));
    let reply = app.call(&token, Method::POST, "/v1/api_keys", &json!({})).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    refused(&scene.get("/v1/api_keys", &token).await);
}

async fn a_token_may_be_bound_to_a_path(app: &App) {
    let scene = Scene::set(app).await;
    for url in [
        "/v1/me",
        "http://auspex.example/v1/me",
        "https://other.example:8443/v1/me",
        "https://auspex.example/v1/me?api_key=x&q=%20",
        "https://auspex.example/v1/me#top",
        "HTTPS://AUSPEX.EXAMPLE/v1/me",
        "http://[::1]:8080/v1/me",
    ] {
        taken(&scene.with_claims(&json!({"htu": url})).await);
    }
    for url in [
        json!("/v1/api_keys"),
        json!("/v1/me/"),
        json!("/v1/ME"),
        json!("/v1"),
        json!("/"),
        json!(""),
        json!("v1/me"),
        // What starts with a slash is all path.
        json!("/v1/me?x=1"),
        json!("/v1/me#top"),
        json!("/v1/%6de"),
        json!("https://auspex.example"),
        json!("https://auspex.example/"),
        json!("https://auspex.example/v1/api_keys"),
        json!("https://auspex.example/?/v1/me"),
        json!("not a url"),
        json!(7),
        json!(["/v1/me"]),
        json!({"path": "/v1/me"}),
    ] {
        let reply = scene.with_claims(&json!({"htu": url})).await;
        assert_eq!(reply.status, 401, "{url}");
        refused(&reply);
    }
    // The query of the request plays no part.
    let token = scene.token(&scene.header(), &json!({"htu": "/v1/me"}));
    taken(&scene.get("/v1/me?x=1", &token).await);
}

async fn paths_are_compared_decoded_once(app: &App) {
    let scene = Scene::set(app).await;
    let rotate = async |path: &str, signed: &str| {
        let token = scene.token(&scene.header(), &json!({"htm": "POST", "htu": signed}));
        app.call(&token, Method::POST, path, &Value::Null).await
    };
    for (path, decoded) in [
        ("/v1/api_keys/a%20b/rotate", "/v1/api_keys/a b/rotate"),
        ("/v1/api_keys/a+b/rotate", "/v1/api_keys/a+b/rotate"),
        ("/v1/api_keys/a%2Fb/rotate", "/v1/api_keys/a/b/rotate"),
        ("/v1/api_keys/a%2fb/rotate", "/v1/api_keys/a/b/rotate"),
        ("/v1/api_keys/%61/rotate", "/v1/api_keys/a/rotate"),
        ("/v1/api_keys/a%3Fb%23c/rotate", "/v1/api_keys/a?b#c/rotate"),
        ("/v1/api_keys/%E2%82%AC/rotate", "/v1/api_keys/\u{20ac}/rotate"),
        ("/v1/api_keys/%2520/rotate", "/v1/api_keys/%20/rotate"),
        ("/v1/api_keys/a%20b/rotate", "https://auspex.example/v1/api_keys/a b/rotate"),
        ("/v1/api_keys/%E2%82%AC/rotate", "https://auspex.example/v1/api_keys/\u{20ac}/rotate"),
        ("/v1/api_keys/%2520/rotate", "https://auspex.example/v1/api_keys/%20/rotate?x=1"),
    ] {
        let reply = rotate(path, decoded).await;
        assert_eq!(reply.status, 400, "authenticated, and then no UUID: {path} {decoded}: {}", reply.text);
    }
    for (path, other) in [
        ("/v1/api_keys/a%20b/rotate", "/v1/api_keys/a%20b/rotate"),
        ("/v1/api_keys/a%20b/rotate", "/v1/api_keys/a+b/rotate"),
        ("/v1/api_keys/a%2Fb/rotate", "/v1/api_keys/a%2Fb/rotate"),
        ("/v1/api_keys/%2520/rotate", "/v1/api_keys/%2520/rotate"),
        ("/v1/api_keys/%2520/rotate", "/v1/api_keys/ /rotate"),
        ("/v1/api_keys/%ff/rotate", "/v1/api_keys/\u{fffd}/rotate"),
    ] {
        let reply = rotate(path, other).await;
        assert_eq!(reply.status, 401, "{path} {other}: {}", reply.text);
        refused(&reply);
    }
    // An id may be written with more escapes than it needs: it is still the same key's.
    let keys = scene.get("/v1/api_keys", &scene.console).await.json();
    let id = keys["api_keys"][0]["id"].as_str().unwrap();
    let escaped = id.replace('-', "%2D").replace('0', "%30");
    let path = format!("/v1/api_keys/{escaped}/rotate");
    refused(&rotate(&path, &path).await);
    assert_eq!(rotate(&path, &format!("/v1/api_keys/{id}/rotate")).await.status, 200);
}

async fn an_object_s_path_is_signed_decoded(app: &App) {
    let scene = Scene::set(app).await;
    let get = async |path: &str, signed: &str| {
        let token = scene.token(&scene.header(), &json!({"htm": "GET", "htu": signed}));
        scene.get(path, &token).await
    };
    for (escaped, decoded) in [
        ("order%2F7%20b", "order/7 b"),
        ("%F0%9F%94%91", "\u{1f511}"),
        ("100%25", "100%"),
        ("a%3Fb%3D1%23c", "a?b=1#c"),
        ("user@acme.example", "user@acme.example"),
    ] {
        let path = format!("/v1/objects/{escaped}");
        let host = "https://auspex.example";
        get(&path, &format!("/v1/objects/{decoded}")).await.refused(404, "not_found");
        if !decoded.contains('?') {
            get(&path, &format!("{host}/v1/objects/{decoded}")).await.refused(404, "not_found");
        }
        if escaped != decoded {
            refused(&get(&path, &path).await);
            refused(&get(&path, &format!("{host}{path}")).await);
        }
    }
}

async fn tokens_in_the_query_are_refused(app: &App) {
    let scene = Scene::set(app).await;
    let token = scene.token(&scene.header(), &json!({}));
    for name in ["access_token", "token", "jwt", "%74oken", "acc%65ss_token"] {
        let path = format!("/v1/me?{name}={token}");
        refused(&app.get(&path).await);
        refused(&scene.get(&path, &token).await);
        refused(&scene.get(&format!("/v1/me?x=1&{name}=other"), &token).await);
        refused(&scene.get(&format!("/v1/me?api_key={}&{name}={token}", scene.signer.key), &token).await);
        refused(&app.get(&format!("/v1/me?{name}={}", scene.console)).await);
    }
    // Names that merely look like them mean nothing.
    taken(&scene.get("/v1/me?tokens=1&my_token=2&q=token", &token).await);
}

async fn the_scheme_is_bearer_in_any_case(app: &App) {
    let scene = Scene::set(app).await;
    let token = scene.token(&scene.header(), &json!({}));
    let send =
        async |value: &str| app.send(app.request(Method::GET, "/v1/me").header(AUTHORIZATION, value)).await;
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        taken(&send(&format!("{scheme} {token}")).await);
    }
    let basic = format!("Basic {}", STANDARD.encode(format!("{}:{}", scene.signer.key, scene.signer.secret)));
    for value in [
        "",
        "Bearer",
        "Bearer ",
        &token,
        &format!("Token {token}"),
        &format!("Bearer{token}"),
        &format!("Bearer: {token}"),
        &format!("Bearer {token}, Bearer {token}"),
        &format!("Bearer \"{token}\""),
        &basic,
    ] {
        refused(&send(value).await);
    }
}

async fn forged_and_broken_tokens_are_refused(app: &App) {
    let scene = Scene::set(app).await;
    let stranger = app.register("eve@zenith.example").await;
    let eve = app.api_key(&stranger).await;
    let secret = &scene.signer.secret;
    let token = scene.token(&scene.header(), &json!({}));
    // The whole secret is the key: no part of it, no other key's, not the public id.
    let cut = &secret[..secret.len() - 1];
    for wrong in
        [secret.trim_start_matches("sk_"), cut, "", &eve.secret, &scene.signer.key, &secret.to_uppercase()]
    {
        let forger = Signer::new(&scene.signer.key, wrong);
        refused(&scene.get("/v1/me", &forger.token(&scene.header(), &scene.claims(&json!({})))).await);
    }
    let parts: Vec<&str> = token.split('.').collect();
    let (header, claims, signature) = (parts[0], parts[1], parts[2]);
    let longer = URL_SAFE_NO_PAD.encode(scene.claims(&json!({"exp": app.now().seconds() + 299})).to_string());
    let padded = STANDARD.encode(URL_SAFE_NO_PAD.decode(signature).unwrap());
    for broken in [
        format!("{header}.{longer}.{signature}"),
        format!("{header}.{claims}."),
        format!("{header}.{claims}"),
        format!("{header}.{claims}.{}", &signature[..signature.len() - 2]),
        format!("{header}.{claims}.{signature}A"),
        format!("{header}.{claims}.{padded}"),
        format!("{header}.{claims}.{signature}.{signature}"),
        format!(".{claims}.{signature}"),
        format!("{header}..{signature}"),
        format!("{claims}.{header}.{signature}"),
        "..".to_owned(),
        "...".to_owned(),
        "a.b.c".to_owned(),
        "\u{20ac}.\u{20ac}.\u{20ac}".to_owned(),
        "e30.e30.e30".to_owned(),
        "x".repeat(8_000),
    ] {
        refused(&scene.get("/v1/me", &broken).await);
    }
    taken(&scene.get("/v1/me", &token).await);
}

async fn every_failure_gets_the_same_answer(app: &App) {
    let scene = Scene::set(app).await;
    let (revoked, inactive) = (app.api_key(&scene.console).await, app.api_key(&scene.console).await);
    let keys = app.call(&scene.console, Method::GET, "/v1/api_keys", &Value::Null).await.json();
    let path_of = |signer: &Signer| {
        let mut keys = keys["api_keys"].as_array().unwrap().iter();
        let key = keys.find(|key| key["key"] == signer.key.as_str()).unwrap();
        format!("/v1/api_keys/{}", key["id"].as_str().unwrap())
    };
    app.call(&scene.console, Method::DELETE, &path_of(&revoked), &Value::Null).await;
    app.call(&scene.console, Method::PATCH, &path_of(&inactive), &json!({"status": "inactive"})).await;
    let now = app.now().seconds();
    let get = Method::GET;
    let replies = [
        ("no credential", app.get("/v1/me").await),
        ("garbage", scene.get("/v1/me", "garbage").await),
        (
            "unknown key",
            scene.get("/v1/me", &Signer::new("ak_no", "sk_no").sign(app.now(), &get, "/v1/me")).await,
        ),
        ("revoked key", scene.get("/v1/me", &revoked.sign(app.now(), &get, "/v1/me")).await),
        ("inactive key", scene.get("/v1/me", &inactive.sign(app.now(), &get, "/v1/me")).await),
        (
            "bad signature",
            scene.get("/v1/me", &Signer::new(&scene.signer.key, "x").sign(app.now(), &get, "/v1/me")).await,
        ),
        ("expired", scene.with_claims(&json!({"iat": now - 300, "exp": now - 240})).await),
        ("from the future", scene.with_claims(&json!({"iat": now + 300, "exp": now + 360})).await),
        ("too long", scene.with_claims(&json!({"exp": now + 400})).await),
        ("wrong method", scene.with_claims(&json!({"htm": "POST"})).await),
        ("wrong path", scene.with_claims(&json!({"htu": "/v1/settings"})).await),
        ("in the query", scene.get("/v1/me?token=x", &scene.token(&scene.header(), &json!({}))).await),
    ];
    let names = |reply: &Reply| {
        let mut names: Vec<String> = reply.headers.keys().map(ToString::to_string).collect();
        names.sort();
        names
    };
    for (why, reply) in &replies {
        refused(reply);
        assert_eq!(names(reply), names(&replies[0].1), "{why}");
    }
}

async fn a_token_may_be_sent_again_while_it_lives(app: &App) {
    let scene = Scene::set(app).await;
    for other in [json!({}), json!({"jti": "0b5f"}), json!({"jti": 7, "sub": "x", "aud": ["y"], "nbf": "z"})]
    {
        let token = scene.token(&scene.header(), &other);
        taken(&scene.get("/v1/me", &token).await);
        taken(&scene.get("/v1/me", &token).await);
    }
}

/// Medians of requests that take turns, so that a busy machine slows both alike; a factor of two is far above the noise.
async fn time_does_not_tell_an_unknown_key_from_a_bad_signature(app: &App) {
    let scene = Scene::set(app).await;
    let secret = "sk_".to_owned() + &"x".repeat(scene.signer.secret.len() - 3);
    let key = "ak_".to_owned() + &"0".repeat(scene.signer.key.len() - 3);
    let forgers = [Signer::new(&key, &secret), Signer::new(&scene.signer.key, &secret)];
    taken(&scene.with_claims(&json!({})).await);
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..300 {
        if round % 100 == 0 {
            // A full budget for requests that fail.
            app.advance(Duration::from_mins(1));
        }
        for (forger, times) in forgers.iter().zip(&mut times) {
            let token = forger.sign(app.now(), &Method::GET, "/v1/me");
            let started = Instant::now();
            let reply = scene.get("/v1/me", &token).await;
            times.push(started.elapsed());
            refused(&reply);
        }
    }
    let [unknown, forged] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    assert!(unknown < forged * 2 && forged < unknown * 2, "unknown {unknown:?}, bad signature {forged:?}");
}
