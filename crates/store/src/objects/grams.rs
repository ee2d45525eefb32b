//! Grams: every three consecutive characters of an object's id and name, by which a part of either is found.
//!
//! A gram is stored as a number, a hash of the tenant and the three characters, so that no list of objects mixes tenants.
//! Whatever is found by grams is compared with the text again: they may find too many objects, never too few.

use std::collections::BTreeSet;

use model::TenantId;
use sha2::{Digest, Sha256};

use crate::db::{Backend, Batch, Conn, Result, Rows, execute};

/// Characters of a gram.
pub(crate) const LENGTH: usize = 3;

/// The text by which an object can be found.
#[derive(Clone, Copy, Debug)]
pub struct SearchText<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// Its id.
    pub object_id: &'a str,
    /// What people call it.
    pub display_name: Option<&'a str>,
    /// Whether it is not indexed yet.
    pub is_new: bool,
}

/// Folds the case of a text. Each character is folded by itself, whatever stands around it, so a part of a text is also a
/// part of the folded text. By way of upper case, because some letters have two lower-case forms.
pub fn fold_case(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The grams of a folded text, in order, each as its characters.
pub(crate) fn grams_of(folded: &str) -> Vec<&str> {
    let starts: Vec<usize> =
        folded.char_indices().map(|(at, _)| at).chain(std::iter::once(folded.len())).collect();
    starts.windows(LENGTH + 1).map(|window| &folded[window[0]..window[LENGTH]]).collect()
}

/// A gram as it is stored.
pub(crate) fn hash(tenant: TenantId, gram: &str) -> i64 {
    let digest = Sha256::new().chain_update(tenant.0.as_bytes()).chain_update(gram.as_bytes()).finalize();
    let (bytes, _) = digest.split_at(size_of::<i64>());
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}

impl SearchText<'_> {
    fn grams(&self) -> Vec<i64> {
        let texts = [Some(self.object_id), self.display_name].into_iter().flatten().map(fold_case);
        let texts: Vec<String> = texts.collect();
        let grams: BTreeSet<&str> = texts.iter().flat_map(|text| grams_of(text)).collect();
        grams.into_iter().map(|gram| hash(self.tenant, gram)).collect()
    }
}

/// Makes objects that are new or were renamed searchable by their grams.
pub fn index(batch: &mut Batch, texts: &[SearchText<'_>]) {
    match batch.backend() {
        Backend::Sqlite => index_on_sqlite(batch, texts),
        Backend::Postgres => index_on_postgres(batch, texts),
    }
}

/// On PostgreSQL the row of an object holds its grams as an array.
fn index_on_postgres(batch: &mut Batch, texts: &[SearchText<'_>]) {
    let array = |text: &SearchText<'_>| {
        let grams: Vec<String> = text.grams().iter().map(i64::to_string).collect();
        // An array for each row, as text: arrays of arrays must be rectangular.
        format!("{{{}}}", grams.join(","))
    };
    let rows: Vec<(&SearchText<'_>, String)> = texts.iter().map(|text| (text, array(text))).collect();
    batch.add(
        Rows::of(&rows)
            .column("tenant_id", |row| row.0.tenant)
            .column("object_id", |row| row.0.object_id)
            .column("grams", |row| row.1.as_str())
            .with_given(
                "INSERT INTO object_grams (tenant_id, object_id, grams)
                 SELECT tenant_id, object_id, grams::bigint[] FROM given
                 ON CONFLICT (tenant_id, object_id) DO UPDATE SET grams = excluded.grams",
            ),
    );
}

/// On SQLite the row of an object holds the number of its row in a full-text index, where each gram is a word. That index
/// wants rows in rising order, or it writes its lists after each: whatever is indexed gets new numbers.
fn index_on_sqlite(batch: &mut Batch, texts: &[SearchText<'_>]) {
    let renamed: Vec<&SearchText<'_>> = texts.iter().filter(|text| !text.is_new).collect();
    batch.add(
        Rows::of(&renamed)
            .column("tenant_id", |text| text.tenant)
            .column("object_id", |text| text.object_id)
            .with_given(
                "DELETE FROM gram_lists WHERE rowid IN
                     (SELECT grams FROM given CROSS JOIN object_grams
                      WHERE object_grams.tenant_id = given.tenant_id AND object_grams.object_id = given.object_id)",
            ),
    );
    let words = |text: &SearchText<'_>| text.grams().into_iter().map(word).collect::<Vec<_>>().join(" ");
    let rows: Vec<(&SearchText<'_>, i64, String)> =
        texts.iter().zip(1..).map(|(text, number)| (text, number, words(text))).collect();
    batch.add(
        Rows::of(&rows)
            .column("tenant_id", |row| row.0.tenant)
            .column("object_id", |row| row.0.object_id)
            .column("number", |row| row.1)
            .with_given(
                "INSERT INTO object_grams (tenant_id, object_id, grams)
                 SELECT tenant_id, object_id, number + (SELECT coalesce(max(grams), 0) FROM object_grams)
                 FROM given WHERE true
                 ON CONFLICT (tenant_id, object_id) DO UPDATE SET grams = excluded.grams",
            ),
    );
    batch.add(
        Rows::of(&rows)
            .column("tenant_id", |row| row.0.tenant)
            .column("object_id", |row| row.0.object_id)
            .column("words", |row| row.2.as_str())
            .with_given(
                "INSERT INTO gram_lists (rowid, grams)
                 SELECT object_grams.grams, words FROM given CROSS JOIN object_grams
                 WHERE object_grams.tenant_id = given.tenant_id AND object_grams.object_id = given.object_id
                 ORDER BY object_grams.grams",
            ),
    );
}

/// A gram as a word of the full-text index.
fn word(gram: i64) -> String {
    format!("{gram:016x}")
}

/// Removes an object from SQLite's full-text index, if it is there.
async fn remove_from_full_text(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<()> {
    execute!(
        conn,
        "DELETE FROM gram_lists WHERE rowid =
             (SELECT grams FROM object_grams WHERE tenant_id = $1 AND object_id = $2)",
        tenant,
        object_id
    )?;
    Ok(())
}

/// Removes the grams of an object.
pub(crate) async fn remove(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<()> {
    if let Conn::Sqlite(_) = conn {
        remove_from_full_text(conn, tenant, object_id).await?;
    }
    execute!(conn, "DELETE FROM object_grams WHERE tenant_id = $1 AND object_id = $2", tenant, object_id)?;
    Ok(())
}

/// Up to `limit` objects with all of these grams, in no order.
pub(crate) async fn objects_with(
    conn: &mut Conn,
    tenant: TenantId,
    grams: &[i64],
    limit: i64,
) -> Result<Vec<String>> {
    let ids: Vec<(String,)> =
        match conn {
            // From the lists of the index to the objects, one after the other, until there are enough.
            Conn::Sqlite(lent) => {
                let words: Vec<String> = grams.iter().copied().map(word).collect();
                sqlx::query_as(
                    "SELECT object_id
                 FROM (SELECT rowid AS number FROM gram_lists WHERE gram_lists MATCH $2 LIMIT $3) AS found
                 CROSS JOIN object_grams WHERE grams = number AND tenant_id = $1",
                )
                .bind(tenant)
                .bind(words.join(" AND "))
                .bind(limit)
                .fetch_all(lent.native())
                .await?
            }
            // The limit stands outside: inside, PostgreSQL would rather read the table until it has found so many.
            Conn::Postgres(lent) => sqlx::query_as(
                "WITH found AS MATERIALIZED (SELECT tenant_id, object_id FROM object_grams WHERE grams @> $2)
                 SELECT object_id FROM found WHERE tenant_id = $1 LIMIT $3",
            )
            .bind(tenant)
            .bind(grams)
            .bind(limit)
            .fetch_all(lent.native())
            .await?,
        };
    Ok(ids.into_iter().map(|(id,)| id).collect())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn grams_are_three_characters_in_a_row() {
        assert_eq!(grams_of("käse"), ["käs", "äse"]);
        assert_eq!(grams_of("abc"), ["abc"]);
        assert!(grams_of("ab").is_empty());
        assert!(grams_of("").is_empty());
    }

    #[test]
    fn folding_forgets_case_and_keeps_parts() {
        assert_eq!(fold_case("Straße"), fold_case("STRASSE"));
        assert_eq!(fold_case("ΟΔΟΣ"), fold_case("οδος"));
        for (part, whole) in [("ΟΔΟΣ", "οδοσα"), ("ÄR", "Bären"), ("i", "I")] {
            assert!(fold_case(whole).contains(&fold_case(part)), "{part} in {whole}");
        }
    }

    #[test]
    fn no_gram_is_shared_by_two_tenants() {
        let number_of = |tenant: u128| hash(TenantId(Uuid::from_u128(tenant)), "abc");
        assert_eq!(number_of(1), number_of(1));
        assert_ne!(number_of(1), number_of(2));
    }
}
