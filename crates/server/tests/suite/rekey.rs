//! Moving a database to another master key: everything sealed goes along, and nothing else changes.

use reqwest::Method;
use serde_json::{Value, json};
use service::{Clock, MasterKey, Random, Sealer};
use store::upkeep::{deployment, rekeying};
use store::{Conn, Store};
use testkit::TestDatabase;

use crate::admin::{MASTER_KEY, OTHER_MASTER_KEY, auspex, finish, refused};
use crate::app::App;
use crate::signer::Signer;
use crate::two_factor::{Phone, login_with};

testkit::on_both!(
    everything_sealed_moves_and_the_new_key_is_enough,
    what_was_interrupted_goes_on,
    a_move_that_cannot_be_made_changes_nothing,
);

/// Mail that cannot be sent stays in its queue.
const NO_MAIL: (&str, &str) = ("AUSPEX_SMTP_URL", "smtp://127.0.0.1:1");

/// An account that has one of everything that is sealed.
struct Filled {
    signer: Signer,
    phone: Phone,
    endpoint: String,
    rules: [Value; 2],
}

async fn fill(app: &App) -> Filled {
    let token = app.register("ann@example.com").await;
    let signer = app.api_key(&token).await;
    let endpoint =
        app.call(&token, Method::POST, "/v1/webhooks", &json!({"url": "http://127.0.0.1:1/"})).await;
    let id = endpoint.json()["endpoint"]["id"].as_str().unwrap().to_owned();
    let rotate = format!("/v1/webhooks/{id}/rotate_secret");
    assert_eq!(app.call(&token, Method::POST, &rotate, &json!({})).await.status, 200);
    let rule = json!({
        "when": "is_scammer > 0.9",
        "action_type": "slack",
        "action_config": {"webhook_url": "https://hooks.slack.com/services/T0/B0/X"},
    });
    let rule = app.call(&token, Method::POST, "/v1/rules", &rule).await.json();
    // A mail to somebody makes a recipient. Rules are listed by time, so the two are a second apart.
    app.advance(std::time::Duration::from_secs(1));
    let mailing = json!({"when": "is_scammer >= 0", "action_type": "email", "action_config": {"to": "bob@example.com"}});
    let mailing = app.call(&token, Method::POST, "/v1/rules", &mailing).await.json();
    let events = json!({"events": [{"type": "event", "name": "seen"}], "wait": true});
    assert_eq!(app.call(&token, Method::POST, "/v1/objects/user_1/events", &events).await.status, 200);
    let phone = Phone::switched_on(app, &token).await;
    Filled {
        signer,
        phone,
        endpoint: endpoint.json()["endpoint"]["id"].as_str().unwrap().to_owned(),
        rules: [rule, mailing],
    }
}

fn keys() -> (MasterKey, MasterKey) {
    (MasterKey::from_base64(MASTER_KEY).unwrap(), MasterKey::from_base64(OTHER_MASTER_KEY).unwrap())
}

fn rekey(database: &TestDatabase, new: &str, previous: &str) -> std::process::Output {
    let mut command = auspex(database.directory(), database.url(), &["admin", "rekey"]);
    command.env("AUSPEX_MASTER_KEY", new).env("AUSPEX_MASTER_KEY_PREVIOUS", previous);
    finish(command, b"")
}

/// How many values of each column are sealed, by the first bytes of what sealed them.
async fn values(store: &Store) -> Vec<(&'static str, Vec<rekeying::Value>)> {
    let mut all = Vec::new();
    for column in rekeying::COLUMNS {
        let read =
            store.read("test", async |conn: &mut Conn| rekeying::after(conn, column, None, 1_000).await);
        all.push((column.qualified_name, read.await.unwrap()));
    }
    all
}

async fn everything_sealed_moves_and_the_new_key_is_enough(database: &TestDatabase) {
    let app = App::start_on(database.share(), database.url(), &[NO_MAIL]).await;
    let filled = fill(&app).await;
    app.stop().await;
    let store = database.open().await;
    let before = values(&store).await;
    for (place, values) in &before {
        assert!(!values.is_empty(), "the story has no {place}");
    }
    store.close().await;

    let output = rekey(database, OTHER_MASTER_KEY, MASTER_KEY);
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let number: usize = before.iter().map(|(_, values)| values.len()).sum();
    assert!(told.starts_with(&format!("{number} secrets were moved")), "{told}");

    let (old, new) = keys();
    let (old, new) = (Sealer::new(old, None), Sealer::new(new, None));
    let store = database.open().await;
    for ((place, before), (_, after)) in before.iter().zip(values(&store).await) {
        for (before, after) in before.iter().zip(after) {
            assert_eq!(before.row_id, after.row_id);
            let plain = old.open(place, before.row_id, &before.sealed).unwrap();
            assert_eq!(new.open(place, after.row_id, &after.sealed).unwrap(), plain, "{place}");
        }
    }
    store.close().await;

    // The service runs with the new key alone, and all of it works: signing, codes, rules, endpoints, queued mail.
    let app =
        App::start_on(database.share(), database.url(), &[("AUSPEX_MASTER_KEY", OTHER_MASTER_KEY)]).await;
    let rules = filled.signer.call(&app, Method::GET, "/v1/rules", &Value::Null).await;
    assert_eq!(rules.json()["rules"], json!(filled.rules));
    let endpoint = format!("/v1/webhooks/{}", filled.endpoint);
    assert_eq!(filled.signer.call(&app, Method::GET, &endpoint, &Value::Null).await.status, 200);
    app.advance(std::time::Duration::from_mins(5));
    assert_eq!(login_with(&app, &filled.phone.code(&app)).await.status, 200);
    app.advance(std::time::Duration::from_hours(2));
    assert!(!app.subjects_to("ann@example.com").await.is_empty(), "mail that waited is sent");
    app.stop().await;

    // And no more with the old one.
    let output = finish(auspex(database.directory(), database.url(), &["admin", "tenant", "list"]), b"");
    assert!(refused(&output).contains("AUSPEX_MASTER_KEY"));
    let again = refused(&rekey(database, OTHER_MASTER_KEY, MASTER_KEY));
    assert!(again.contains("nothing to do"), "{again}");
}

async fn what_was_interrupted_goes_on(database: &TestDatabase) {
    let app = App::start_on(database.share(), database.url(), &[NO_MAIL]).await;
    let filled = fill(&app).await;
    app.stop().await;
    // As a process leaves it that was killed after its first steps.
    let (old, new) = keys();
    let sealer = Sealer::new(new, Some(old));
    let (store, random) = (database.open().await, Random::seeded(3));
    let column = rekeying::COLUMNS[0];
    store
        .write("test", async |conn: &mut Conn| {
            deployment::set(conn, "master_key_next", &sealer.fingerprint()).await?;
            let values = rekeying::after(conn, column, None, 1).await?;
            let plain = sealer.open(column.qualified_name, values[0].row_id, &values[0].sealed).unwrap();
            let anew = sealer.seal(&random, column.qualified_name, values[0].row_id, &plain);
            assert!(rekeying::replace(conn, column, &values[0], &anew).await?);
            Ok::<_, store::Error>(())
        })
        .await
        .unwrap();
    store.close().await;

    // Neither key reads everything now, so the service does not start with either.
    for key in [MASTER_KEY, OTHER_MASTER_KEY] {
        let mut command = auspex(database.directory(), database.url(), &["serve"]);
        command.env("AUSPEX_MASTER_KEY", key);
        let line = refused(&finish(command, b""));
        assert!(line.contains("auspex admin rekey"), "{line}");
    }
    let third = MasterKey::generate(&random).to_base64();
    assert!(refused(&rekey(database, &third, MASTER_KEY)).contains("another new key"));
    let output = rekey(database, OTHER_MASTER_KEY, MASTER_KEY);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let app =
        App::start_on(database.share(), database.url(), &[("AUSPEX_MASTER_KEY", OTHER_MASTER_KEY)]).await;
    assert_eq!(filled.signer.call(&app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    app.stop().await;
}

async fn a_move_that_cannot_be_made_changes_nothing(database: &TestDatabase) {
    let migrated = finish(auspex(database.directory(), database.url(), &["migrate"]), b"");
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    assert!(
        refused(&rekey(database, OTHER_MASTER_KEY, MASTER_KEY)).contains("nothing to do"),
        "an empty database"
    );
    // By the real time: a process that was seen just now is running.
    let app = App::start_at(database.backend(), &[], Clock::system().now()).await;
    let signer = app.api_key(&app.register("ann@example.com").await).await;
    let run = |new: &str, previous: &str| {
        let mut command =
            auspex(app.data_directory().parent().unwrap(), app.database_url(), &["admin", "rekey"]);
        command.env("AUSPEX_MASTER_KEY", new).env("AUSPEX_MASTER_KEY_PREVIOUS", previous);
        refused(&finish(command, b""))
    };
    let third = MasterKey::generate(&Random::seeded(3)).to_base64();
    for (new, previous, reason) in [
        (OTHER_MASTER_KEY, "", "AUSPEX_MASTER_KEY_PREVIOUS is not set"),
        (MASTER_KEY, MASTER_KEY, "the same key"),
        (MASTER_KEY, OTHER_MASTER_KEY, "already"),
        (OTHER_MASTER_KEY, third.as_str(), "AUSPEX_MASTER_KEY_PREVIOUS is not the master key"),
        (OTHER_MASTER_KEY, "nonsense", "AUSPEX_MASTER_KEY_PREVIOUS"),
        (OTHER_MASTER_KEY, MASTER_KEY, "stop them first"),
    ] {
        let line = run(new, previous);
        assert!(line.contains(reason), "{reason} in {line}");
        assert!(previous.is_empty() || !line.contains(previous), "{line}");
    }
    assert_eq!(signer.call(&app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
    testkit::Stage::tear_down(app).await;
}
