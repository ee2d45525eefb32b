//! Facts about the deployment itself, one row each.

use crate::database::{execute, fetch_one};
use crate::{Conn, Result, Store};

impl Store {
    /// The fact called `name`: `value` if it was not known before, else what was remembered first.
    pub async fn remember(&self, name: &str, value: &str) -> Result<String> {
        self.write("remember", async |conn: &mut Conn| {
            execute!(
                conn,
                "INSERT INTO deployment (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
                name,
                value
            )?;
            let (kept,): (String,) = fetch_one!(conn, "SELECT value FROM deployment WHERE name = $1", name)?;
            Ok(kept)
        })
        .await
    }
}
