//! The files of the console, as a browser gets them.

use reqwest::Method;
use testkit::{Backend, Stage as _};

use crate::app::App;

#[tokio::test(flavor = "multi_thread")]
async fn the_console_is_served_at_its_addresses_and_nowhere_else() {
    let app = App::start(Backend::Sqlite, &[]).await;
    let index = app.get("/").await;
    assert_eq!(index.status, 200, "{}", index.text);
    assert_eq!(index.header("content-type"), "text/html; charset=utf-8");
    assert!(index.text.starts_with("<!doctype html>"), "{}", index.text);
    let pages =
        ["/console", "/console/", "/console/keys", "/console/objects/user%2F1", "/console/%ff", "/?q=1"];
    for page in pages {
        let reply = app.get(page).await;
        assert_eq!((reply.status.as_u16(), &reply.text), (200, &index.text), "{page}");
    }
    for path in ["/index.html", "/assets/index.js", "/consoles", "/v1/console", "/console/assets/none.js"] {
        app.get(path).await.refused(404, "not_found");
    }
    let posted = app.send(app.request(Method::POST, "/console/keys")).await;
    posted.refused(405, "method_not_allowed");
    assert_eq!(posted.header("allow"), "GET,HEAD");
    let question = app.get("/console/confirm?token=x").await;
    assert_eq!(question.text, index.text, "the console asks recipients, too");
    app.tear_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_revalidated_and_run_nothing_foreign() {
    let app = App::start(Backend::Sqlite, &[]).await;
    let index = app.get("/console/").await;
    let policy = index.header("content-security-policy");
    assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"), "{policy}");
    assert_eq!(index.header("x-content-type-options"), "nosniff");
    assert_eq!(index.header("x-frame-options"), "DENY");
    assert_eq!(index.header("referrer-policy"), "no-referrer");
    assert_eq!(index.header("cache-control"), "no-cache");
    let tag = index.header("etag").to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    for known in [tag.clone(), format!("\"other\", {tag}")] {
        let reply = app.send(app.request(Method::GET, "/").header("if-none-match", known)).await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (304, ""));
        assert_eq!(reply.header("etag"), tag);
    }
    let reply = app.send(app.request(Method::GET, "/").header("if-none-match", "W/\"other\"")).await;
    assert_eq!((reply.status.as_u16(), &reply.text), (200, &index.text));
    let head = app.send(app.request(Method::HEAD, "/")).await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
    app.tear_down().await;
}

/// Below this size the console's build keeps no compressed copy (`console/scripts/compress.mjs`).
const TOO_SMALL_TO_COMPRESS: usize = 256;

/// What the index loads is there, is cached for ever, and comes compressed if that saves anything.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_index_loads_is_cached_for_ever() {
    let app = App::start(Backend::Sqlite, &[]).await;
    let index = app.get("/").await.text;
    let loaded = index.split('"').filter(|text| text.starts_with("/console/assets/"));
    for path in loaded {
        let reply = app.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("cache-control"), "public, max-age=31536000, immutable", "{path}");
        assert_eq!(reply.header("content-encoding"), "", "{path}");
        if reply.text.len() < TOO_SMALL_TO_COMPRESS {
            continue;
        }
        for encoding in ["br", "gzip"] {
            let request = app.request(Method::HEAD, path).header("accept-encoding", encoding);
            let reply = app.send(request).await;
            assert_eq!(reply.header("content-encoding"), encoding, "{path}");
            assert!(reply.header("vary").contains("accept-encoding"), "{path}");
        }
    }
    assert_eq!(app.get("/console/").await.text, index);
    app.tear_down().await;
}
