//! A tour of the client: `cargo run --example tour -- URL KEY SECRET`.

#![expect(clippy::print_stdout, reason = "it shows what comes back")]

use auspex_client::api::EventInput;
use auspex_client::{Client, Ingest, ObjectsQuery};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, key, secret] = arguments.as_slice() else { return Err("usage: tour URL KEY SECRET".into()) };
    let client = Client::builder(url).key(key, secret).build()?;

    // Recorded at once, analyzed when the object has been quiet. A repeated call with the same key records nothing.
    let events = [EventInput::event("signup"), EventInput::message("Is the bicycle still for sale?")];
    let sent =
        client.send("buyer/7", Ingest::new(events).object_type("user").idempotency_key("tour-1")).await?;
    println!("{} events recorded, analysis: {}", sent.accepted.accepted, sent.accepted.analysis_status);

    // Analyzed while you wait.
    let message = EventInput::message("Pay me by gift card and I ship today, not through the site");
    let verdict = client.verdict("seller/7", Ingest::new([message]).object_type("user")).await?;
    for answer in &verdict.answers {
        println!("{}", serde_json::to_string(answer)?);
    }

    // Found by its answers.
    let query = ObjectsQuery { q: Some("is_scammer > 0.5".to_owned()), ..ObjectsQuery::default() };
    for object in client.objects(&query).await?.objects {
        println!("found {} with {} events", object.object_id, object.event_count);
    }

    // An error says what is wrong, and whether it makes sense to try again.
    if let Err(error) = client.object("nobody").await {
        println!("refused: {error}");
    }
    Ok(())
}
