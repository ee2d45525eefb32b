//! Work that is born leased: a message to a service with nothing else to do is neither claimed nor looked for.

use reqwest::Method;
use serde_json::json;
use testkit::TestDatabase;

use crate::app::PASSWORD;
use crate::receiver::Receiver;
use crate::scripted_analyzer::until;
use crate::secrets_in_logs::Process;

testkit::on_both!(messages_alone_are_hardly_ever_claimed);

/// Messages after the first, which makes the receiver known.
const MESSAGES: usize = 12;

/// How often a transaction of this name was committed.
fn commits(page: &str, name: &str) -> u64 {
    let series = format!("auspex_store_transactions_total{{name=\"{name}\",outcome=\"ok\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |count| count.parse().unwrap())
}

/// A process of its own, whose metrics no other test adds to.
async fn messages_alone_are_hardly_ever_claimed(database: &TestDatabase) {
    let receiver = Receiver::start().await;
    let settings = [("AUSPEX_ANALYZER", "words"), ("AUSPEX_DEBOUNCE_MS", "1")];
    let process = Process::start(database.directory(), database.url(), &settings);
    let account = json!({"tenant_name": "Acme", "email": "ann@example.com", "password": PASSWORD});
    let registered = process.request(Method::POST, "/auth/console/register").json(&account);
    let token = process.send(registered).await.json()["token"].as_str().unwrap().to_owned();
    let call = async |path: &str, body: serde_json::Value| {
        let request = process.request(Method::POST, path).bearer_auth(&token).json(&body);
        process.send(request).await.status.as_u16()
    };
    let page = async || process.send(process.request(Method::GET, "/metrics")).await.text;
    assert_eq!(call("/v1/webhooks", json!({"url": receiver.url()})).await, 201);
    let send = async |number: usize| {
        let event = json!({"events": [{"type": "message", "content": "Is it still for sale?"}]});
        assert_eq!(call(&format!("/v1/objects/user_{number}/events"), event).await, 202);
        until("it is delivered", async || receiver.count() > number).await;
        let settled = format!("auspex_webhook_deliveries_total{{outcome=\"delivered\"}} {}", number + 1);
        until("its outcome is written", async || page().await.contains(&settled)).await;
    };

    send(0).await;
    let before = page().await;
    for number in 1..=MESSAGES {
        send(number).await;
    }
    let after = page().await;
    let more = |name: &str| commits(&after, name) - commits(&before, name);
    assert_eq!(more("record"), MESSAGES as u64);
    assert_eq!(more("conclude"), MESSAGES as u64);
    // A message that comes while a queue is being polled is claimed: in two transactions, or more on a busy machine. The queues of a
    // service that does all its work itself are hardly ever polled.
    let few = MESSAGES as u64 / 3;
    assert!(more("claim_jobs") <= few, "{} claims", more("claim_jobs"));
    let (settled, polled) = (more("settle_deliveries"), more("deliveries"));
    assert!(settled > 0 && polled <= few, "{settled} without looking for more, {polled} with");
    process.stop();
}
