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
