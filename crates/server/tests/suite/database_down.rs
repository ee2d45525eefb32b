//! The service while its database is out of reach.

use std::time::{Duration, Instant};

use testkit::{Backend, PATIENCE, Proxy, Stage as _, TestDatabase};

use crate::app::App;

/// Only PostgreSQL can be out of reach over a network; for SQLite see below.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_way_to_postgres() {
    let database = TestDatabase::create(Backend::Postgres).await;
    let direct: url::Url = database.url().parse().unwrap();
    let target = format!("{}:{}", direct.host_str().unwrap(), direct.port().unwrap()).parse().unwrap();
    let proxy = Proxy::to(target).await;
    let mut through = direct.clone();
    through.set_port(Some(proxy.address().port())).unwrap();
    let app = App::start_on(database, through.as_str(), &[]).await;
    assert_eq!(app.get("/readyz").await.status, 200);

    proxy.cut();
    let asked = Instant::now();
    app.get("/readyz").await.refused(503, "not_ready");
    assert!(
        asked.elapsed() < Duration::from_secs(3),
        "the answer comes after a second, not when the network gives up"
    );
    assert_eq!(app.get("/healthz").await.status, 200, "the process lives all the same");

    proxy.mend();
    let mended = tokio::time::timeout(PATIENCE, async { while app.get("/readyz").await.status != 200 {} });
    mended.await.expect("the service finds its database again by itself");
    app.tear_down().await;
}

/// A SQLite file that another program has overwritten does not answer either.
#[tokio::test(flavor = "multi_thread")]
async fn readiness_notices_a_broken_sqlite_file() {
    let app = App::start(Backend::Sqlite, &[]).await;
    assert_eq!(app.get("/readyz").await.status, 200);
    app.break_sqlite_file();
    app.get("/readyz").await.refused(503, "not_ready");
    assert_eq!(app.get("/healthz").await.status, 200);
}
