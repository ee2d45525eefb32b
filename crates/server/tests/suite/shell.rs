//! What surrounds every route: the envelope, ids, headers, CORS, compression, limits.

use reqwest::Method;
use reqwest::header::ORIGIN;

use crate::app::App;

testkit::on_both!(
    the_process_lives_and_the_database_answers,
    unknown_routes_and_methods_are_refused_in_the_envelope,
    every_answer_carries_a_request_id,
    every_answer_carries_guarding_headers,
    only_the_console_s_origin_may_read_answers,
);

async fn the_process_lives_and_the_database_answers(app: &App) {
    for path in ["/healthz", "/readyz"] {
        let reply = app.get(path).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.json(), serde_json::json!({"status": "ok"}));
    }
}

async fn unknown_routes_and_methods_are_refused_in_the_envelope(app: &App) {
    for path in ["/v1", "/v1/nothing", "/healthz/", "/%00", "/%ff"] {
        app.get(path).await.refused(404, "not_found");
    }
    let reply = app.send(app.request(Method::POST, "/healthz")).await;
    reply.refused(405, "method_not_allowed");
    assert_eq!(reply.header("allow"), "GET,HEAD");
}

async fn every_answer_carries_a_request_id(app: &App) {
    let made = app.get("/healthz").await.header("x-request-id").to_owned();
    assert!(made.parse::<uuid::Uuid>().is_ok(), "{made}");
    let kept = app.send(app.request(Method::GET, "/nothing").header("x-request-id", "trace-1.2:3")).await;
    assert_eq!(kept.header("x-request-id"), "trace-1.2:3");
    for forged in ["two words", "\"quoted\"", &"x".repeat(129)] {
        let replaced = app.send(app.request(Method::GET, "/healthz").header("x-request-id", forged)).await;
        assert!(replaced.header("x-request-id").parse::<uuid::Uuid>().is_ok(), "{forged}");
    }
}

async fn every_answer_carries_guarding_headers(app: &App) {
    for path in ["/healthz", "/nothing"] {
        let reply = app.get(path).await;
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("x-frame-options"), "DENY");
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
        assert_eq!(reply.header("cache-control"), "no-store");
        assert!(reply.header("content-security-policy").contains("default-src 'none'"));
        assert_eq!(reply.header("strict-transport-security"), "", "only over https");
    }
}

async fn only_the_console_s_origin_may_read_answers(app: &App) {
    let own = app.url("");
    let reply = app.send(app.request(Method::GET, "/healthz").header(ORIGIN, &own)).await;
    assert_eq!(reply.header("access-control-allow-origin"), own);
    let preflight = app.request(Method::OPTIONS, "/healthz").header(ORIGIN, &own);
    let reply = app.send(preflight.header("access-control-request-method", "GET")).await;
    assert_eq!(reply.header("access-control-allow-origin"), own);
    assert!(reply.header("access-control-allow-methods").contains("PATCH"));
    let reply = app.send(app.request(Method::GET, "/healthz").header(ORIGIN, "https://evil.example")).await;
    assert_ne!(reply.header("access-control-allow-origin"), "https://evil.example");
    assert_ne!(reply.header("access-control-allow-origin"), "*");
}
