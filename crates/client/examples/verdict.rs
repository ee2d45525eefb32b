//! The lines of the README: `AUSPEX_URL=… AUSPEX_KEY=… AUSPEX_SECRET=… cargo run --example verdict`.

#![expect(clippy::print_stdout, reason = "it shows what comes back")]
#![expect(clippy::disallowed_methods, reason = "a program of somebody else has no settings of the service")]

use std::env::var;

use auspex_client::api::EventInput;
use auspex_client::{Client, Ingest};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client =
        Client::builder(var("AUSPEX_URL")?).key(var("AUSPEX_KEY")?, var("AUSPEX_SECRET")?).build()?;
    let events = [EventInput::message("Pay me by gift card and I ship today")];
    println!("{:?}", client.verdict("seller_1", Ingest::new(events)).await?.answers);
    Ok(())
}
