//! Facts about the deployment itself, one row each.

use crate::db::connect::{execute, fetch_one, fetch_optional};
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

/// The fact called `name`, if it is known.
pub async fn find(conn: &mut Conn, name: &str) -> Result<Option<String>> {
    let row: Option<(String,)> = fetch_optional!(conn, "SELECT value FROM deployment WHERE name = $1", name)?;
    Ok(row.map(|(value,)| value))
}

/// Sets the fact called `name`, whatever it was.
pub async fn set(conn: &mut Conn, name: &str, value: &str) -> Result<u64> {
    execute!(
        conn,
        "INSERT INTO deployment (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        name,
        value
    )
}

/// Forgets the fact called `name`.
pub async fn forget(conn: &mut Conn, name: &str) -> Result<u64> {
    execute!(conn, "DELETE FROM deployment WHERE name = $1", name)
}
