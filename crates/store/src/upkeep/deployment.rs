//! Facts about the deployment itself, such as the fingerprint of its master key.

use crate::db::{Conn, Result, Store, execute, fetch_one, fetch_optional};

impl Store {
    /// Stores a fact unless it is already known, and returns what is stored.
    pub async fn remember(&self, name: &str, value: &str) -> Result<String> {
        self.write("remember", async |conn: &mut Conn| {
            execute!(
                conn,
                "INSERT INTO deployment (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
                name,
                value
            )?;
            let (stored,): (String,) =
                fetch_one!(conn, "SELECT value FROM deployment WHERE name = $1", name)?;
            Ok(stored)
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

/// Removes the fact called `name`.
pub async fn forget(conn: &mut Conn, name: &str) -> Result<u64> {
    execute!(conn, "DELETE FROM deployment WHERE name = $1", name)
}
