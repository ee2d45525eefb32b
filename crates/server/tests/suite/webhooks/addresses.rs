//! The URL of an endpoint may carry a token: it is shown to its owner and sent to, and is nowhere else.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use store::{Backend, Conn, Store};
use testkit::TestDatabase;

use super::{PATH, analyze, newest, register};
use crate::app::App;
use crate::log_watch;
use crate::receiver::{Answer, Receiver};
use crate::scripted_analyzer::{Scripted, get};

testkit::on_both!(
    a_token_in_a_url_reaches_its_receiver_and_no_file_or_log,
    urls_of_an_older_version_are_sealed_when_it_starts,
);

const TOKEN: &str = "url-token-7c1e5b9d2f8a4036";

/// Whether a text is in the database: in a byte of its files, or in any column of any table.
async fn holds(directory: &Path, store: &Store, text: &str) -> bool {
    if store.backend() == Backend::Sqlite {
        let files = ["auspex.db", "auspex.db-wal"].map(|name| directory.join(name));
        let bytes: Vec<Vec<u8>> = files.iter().filter_map(|file| std::fs::read(file).ok()).collect();
        assert!(!bytes[0].is_empty());
        return bytes.iter().any(|file| file.windows(text.len()).any(|window| window == text.as_bytes()));
    }
    let read = store.read("scan", async |conn: &mut Conn| {
        let Conn::Postgres(held) = conn else { panic!("not PostgreSQL") };
        let native = held.native();
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'",
        )
        .fetch_all(&mut *native)
        .await?;
        let mut found = false;
        for table in tables {
            // A row as text has its bytes in hexadecimal.
            let query = format!(
                "SELECT EXISTS (SELECT FROM {table} AS kept WHERE position($1 IN kept::text) > 0
                                OR position(encode($1::text::bytea, 'hex') IN kept::text) > 0)"
            );
            let scan = sqlx::query_scalar::<_, bool>(sqlx::AssertSqlSafe(query)).bind(text);
            found |= scan.fetch_one(&mut *native).await?;
        }
        Ok::<_, store::Error>(found)
    });
    read.await.unwrap()
}

async fn a_token_in_a_url_reaches_its_receiver_and_no_file_or_log(stage: &Scripted) {
    log_watch::remember(TOKEN);
    let key = stage.account("ann@example.com").await;
    let receiver = Receiver::start().await;
    let url = format!("{}/{TOKEN}?token={TOKEN}", receiver.url());
    let made = register(stage, &key, &json!({"url": url, "description": "the shop"})).await;
    assert_eq!(made["endpoint"]["url"], json!(url), "its owner sees it");
    let shown = get(stage, &key, PATH).await.json();
    assert_eq!(shown["webhooks"][0]["url"], json!(url));
    analyze(stage, &key, 1..2).await;
    assert_eq!(receiver.got(1).await.path, format!("/hook/{TOKEN}?token={TOKEN}"));
    newest(stage, &key, "delivered", 1).await;
    receiver.always(Answer::Status(410));
    analyze(stage, &key, 2..3).await;
    newest(stage, &key, "dead", 1).await;
    let mails = stage.mails().await;
    let dead = mails.iter().find(|mail| mail.subject == "A webhook delivery was given up").unwrap();
    assert!(!dead.text.contains(TOKEN) && dead.text.contains("http://127.0.0.1:"), "{}", dead.text);
    let files = stage.data_directory();
    let directory = files.parent().unwrap();
    assert!(holds(directory, &stage.store, "the shop").await, "the scan finds what is there");
    assert!(!holds(directory, &stage.store, TOKEN).await);
}

/// Puts a URL where versions before sealing had it.
async fn unseal(store: &Store, url: &str) {
    let text = "UPDATE webhook_endpoints SET url = $1, sealed_url = NULL";
    store
        .write("unseal", async |conn: &mut Conn| {
            match conn {
                Conn::Sqlite(held) => sqlx::query(text).bind(url).execute(held.native()).await.map(drop)?,
                Conn::Postgres(held) => sqlx::query(text).bind(url).execute(held.native()).await.map(drop)?,
            }
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
}

async fn urls_of_an_older_version_are_sealed_when_it_starts(database: &TestDatabase) {
    let app = App::start_on(database.share(), database.url(), &[]).await;
    let key = app.api_key(&app.register("ann@example.com").await).await;
    let made = register(&app, &key, &json!({"url": "http://127.0.0.1:1/old"})).await;
    app.settle().await;
    app.stop().await;
    let url = format!("http://127.0.0.1:1/hook/{TOKEN}");
    let store = database.open().await;
    unseal(&store, &url).await;
    assert!(holds(database.directory(), &store, TOKEN).await);
    store.close().await;

    let app = App::start_on(database.share(), database.url(), &[]).await;
    let path = format!("{PATH}/{}", made["endpoint"]["id"].as_str().unwrap());
    assert_eq!(key.call(&app, Method::GET, &path, &Value::Null).await.json()["url"], json!(url));
    app.settle().await;
    app.stop().await;
    let store = database.open().await;
    assert!(!holds(database.directory(), &store, TOKEN).await);
    store.close().await;
}
