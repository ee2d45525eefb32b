//! The interactive reference: whole without any other host.

use testkit::{Backend, Stage as _};

use crate::app::App;

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_is_served_with_all_that_it_needs() {
    let app = App::start(Backend::Sqlite, &[]).await;
    let page = app.get("/docs").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    // Whatever the page names is on this host and is there.
    let named: Vec<&str> = ["src=\"", "href=\""]
        .iter()
        .flat_map(|attribute| page.text.split(attribute).skip(1))
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert!(named.len() >= 3, "{named:?}");
    for path in named {
        assert!(path.starts_with('/') && !path.starts_with("//"), "{path} leads elsewhere");
        let asset = app.get(path).await;
        assert_eq!(asset.status, 200, "{path}");
        let kind = match path.rsplit('.').next().unwrap() {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            _ => "application/json",
        };
        assert_eq!(asset.header("content-type"), kind, "{path}");
        assert!(!asset.text.contains("https://cdn"), "{path}");
    }
    assert!(
        !page.text.contains("<style") && !page.text.contains(" onclick"),
        "the policy forbids what is inline"
    );
    app.tear_down().await;
}

/// What agents read leads to what is there, and the reference has every operation and record.
#[tokio::test(flavor = "multi_thread")]
async fn agents_find_a_reference_of_everything() {
    let app = App::start(Backend::Sqlite, &[]).await;
    let index = app.get("/llms.txt").await;
    assert_eq!(index.header("content-type"), "text/plain; charset=utf-8");
    let links = index.text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let links: Vec<&str> = links.collect();
    assert!(links.len() >= 6, "{links:?}");
    for path in links {
        let status = app.get(path).await.status;
        // Those that take only POST are there, too.
        assert!(status == 200 || status == 405, "{path}: {status}");
    }
    let reference = app.get("/docs/reference.md").await;
    assert_eq!(reference.header("content-type"), "text/markdown; charset=utf-8");
    let document = app.get("/docs/openapi.json").await.json();
    assert_eq!(document, app.get("/openapi.json").await.json());
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let heading = format!("\n### {} {path}\n", method.to_uppercase());
            assert_eq!(reference.text.matches(&heading).count(), 1, "{heading}");
            let name = operation["operationId"].as_str().unwrap();
            assert!(reference.text.contains(&format!("`{name}`: ")), "{name}");
        }
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(reference.text.contains(&format!("\n### {name}\n")), "{name}");
    }
    app.tear_down().await;
}
