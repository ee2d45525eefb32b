//! Grams: every three characters in a row of an object's id and name, by which a part of either is found.
//!
//! A gram is kept as a number made of the tenant and the three characters, so that no list of objects mixes tenants.
//! Whatever the lists find is compared with the text again: they may lead to too many objects, never to too few.

use std::collections::BTreeSet;

use model::TenantId;
use sha2::{Digest, Sha256};

use crate::db::bulk::chunks;
use crate::db::connect::{execute, fetch_all};
use crate::db::round::{Round, change_later};
use crate::{Conn, Result};

/// Characters of a gram.
pub(crate) const LENGTH: usize = 3;

/// What an object can be found by.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Whose object it is.
    pub tenant: TenantId,
    /// Its id.
    pub object_id: &'a str,
    /// What people call it.
    pub display_name: Option<&'a str>,
    /// Whether nothing is known of it yet.
    pub is_new: bool,
}

/// A text without regard to case. Each character by itself, whatever stands around it: so a part of a text is also a part
/// of the folded text. By way of capitals, because some letters have two small forms.
pub fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The grams of a folded text, in order, each as its characters.
pub(crate) fn of(folded: &str) -> Vec<&str> {
    let starts: Vec<usize> =
        folded.char_indices().map(|(at, _)| at).chain(std::iter::once(folded.len())).collect();
    starts.windows(LENGTH + 1).map(|window| &folded[window[0]..window[LENGTH]]).collect()
}

/// A gram as it is kept.
pub(crate) fn number(tenant: TenantId, gram: &str) -> i64 {
    let digest = Sha256::new().chain_update(tenant.0.as_bytes()).chain_update(gram.as_bytes()).finalize();
    let (bytes, _) = digest.split_at(size_of::<i64>());
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}

impl Text<'_> {
    fn grams(&self) -> Vec<i64> {
        let texts = [Some(self.object_id), self.display_name].into_iter().flatten().map(folded);
        let texts: Vec<String> = texts.collect();
        let grams: BTreeSet<&str> = texts.iter().flat_map(|text| of(text)).collect();
        grams.into_iter().map(|gram| number(self.tenant, gram)).collect()
    }
}

/// Lists objects that are new or have another name under their grams, with the round.
pub fn put(round: &mut Round, texts: &[Text<'_>]) {
    if texts.is_empty() {
        return;
    }
    match round {
        Round::Sqlite(_) => put_on_sqlite(round, texts),
        Round::Postgres(parts) => {
            let row = |text: &Text<'_>| {
                let grams: Vec<String> = text.grams().iter().map(i64::to_string).collect();
                // An array for each row, as text: arrays of arrays must be rectangles.
                format!("{{{}}}", grams.join(","))
            };
            let query = parts.next();
            query.push(
                "INSERT INTO object_grams (tenant_id, object_id, grams)
                 SELECT tenant_id, object_id, grams::bigint[] FROM UNNEST(",
            );
            query.push_bind(texts.iter().map(|text| text.tenant).collect::<Vec<_>>()).push("::uuid[], ");
            query.push_bind(texts.iter().map(|text| text.object_id).collect::<Vec<_>>()).push("::text[], ");
            query.push_bind(texts.iter().map(row).collect::<Vec<_>>());
            query.push(
                "::text[]) AS texts (tenant_id, object_id, grams)
                 ON CONFLICT (tenant_id, object_id) DO UPDATE SET grams = excluded.grams)",
            );
        }
    }
}

/// The full-text index wants rows in rising order, else it writes its lists after each: whatever is put gets new numbers.
fn put_on_sqlite(round: &mut Round, texts: &[Text<'_>]) {
    let renamed: Vec<&Text<'_>> = texts.iter().filter(|text| !text.is_new).collect();
    change_later!(
        round,
        &renamed,
        [("tenant_id", "uuid", |row| row.tenant), ("object_id", "text", |row| row.object_id)],
        "DELETE FROM gram_lists WHERE rowid IN
             (SELECT grams FROM given JOIN object_grams USING (tenant_id, object_id))",
    );
    let Round::Sqlite(statements) = round else { return };
    for chunk in chunks(texts) {
        let query = statements.next(chunk.len());
        query.push("WITH given (tenant_id, object_id, place) AS (");
        query.push_values(chunk.iter().zip(1_i64..), |mut values, (text, place)| {
            values.push_bind(text.tenant).push_bind(text.object_id).push_bind(place);
        });
        query.push(
            ") INSERT INTO object_grams (tenant_id, object_id, grams)
             SELECT tenant_id, object_id, place + (SELECT coalesce(max(grams), 0) FROM object_grams) FROM given WHERE true
             ON CONFLICT (tenant_id, object_id) DO UPDATE SET grams = excluded.grams",
        );
        let query = statements.next(chunk.len());
        query.push("WITH given (tenant_id, object_id, words) AS (");
        query.push_values(chunk, |mut values, text| {
            let words: Vec<String> = text.grams().into_iter().map(word).collect();
            values.push_bind(text.tenant).push_bind(text.object_id).push_bind(words.join(" "));
        });
        query.push(
            ") INSERT INTO gram_lists (rowid, grams)
             SELECT object_grams.grams, words FROM given CROSS JOIN object_grams USING (tenant_id, object_id)
             ORDER BY object_grams.grams",
        );
    }
}

/// A gram as a word of the full-text index.
fn word(gram: i64) -> String {
    format!("{gram:016x}")
}

/// Takes an object out of the full-text index, if it is there.
async fn unlist(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<()> {
    execute!(
        conn,
        "DELETE FROM gram_lists WHERE rowid =
             (SELECT grams FROM object_grams WHERE tenant_id = $1 AND object_id = $2)",
        tenant,
        object_id
    )?;
    Ok(())
}

/// Forgets an object.
pub(crate) async fn remove(conn: &mut Conn, tenant: TenantId, object_id: &str) -> Result<()> {
    if let Conn::Sqlite(_) = conn {
        unlist(conn, tenant, object_id).await?;
    }
    execute!(conn, "DELETE FROM object_grams WHERE tenant_id = $1 AND object_id = $2", tenant, object_id)?;
    Ok(())
}

/// Up to `most` objects that are listed under all of these grams, in no order.
pub(crate) async fn listed(
    conn: &mut Conn,
    tenant: TenantId,
    grams: &[i64],
    most: i64,
) -> Result<Vec<String>> {
    let ids: Vec<(String,)> = match conn {
        Conn::Sqlite(_) => {
            let words: Vec<String> = grams.iter().copied().map(word).collect();
            fetch_all!(conn, LISTED_ON_SQLITE, tenant, words.join(" AND "), most)?
        }
        Conn::Postgres(held) => {
            sqlx::query_as(LISTED_ON_POSTGRES)
                .bind(tenant)
                .bind(grams)
                .bind(most)
                .fetch_all(held.native().await?)
                .await?
        }
    };
    Ok(ids.into_iter().map(|(id,)| id).collect())
}

/// From the lists to the objects, one after the other, until there are enough.
pub const LISTED_ON_SQLITE: &str = "
    SELECT object_id FROM (SELECT rowid AS listed FROM gram_lists WHERE gram_lists MATCH $2 LIMIT $3) AS lists
    CROSS JOIN object_grams WHERE grams = listed AND tenant_id = $1";
/// The bound stands outside: within, PostgreSQL would rather read the table until it has found so many.
pub const LISTED_ON_POSTGRES: &str = "
    WITH listed AS MATERIALIZED (SELECT tenant_id, object_id FROM object_grams WHERE grams @> $2)
    SELECT object_id FROM listed WHERE tenant_id = $1 LIMIT $3";

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn grams_are_three_characters_in_a_row() {
        assert_eq!(of("käse"), ["käs", "äse"]);
        assert_eq!(of("abc"), ["abc"]);
        assert!(of("ab").is_empty());
        assert!(of("").is_empty());
    }

    #[test]
    fn folding_forgets_case_and_keeps_parts() {
        assert_eq!(folded("Straße"), folded("STRASSE"));
        assert_eq!(folded("ΟΔΟΣ"), folded("οδος"));
        for (part, whole) in [("ΟΔΟΣ", "οδοσα"), ("ÄR", "Bären"), ("i", "I")] {
            assert!(folded(whole).contains(&folded(part)), "{part} in {whole}");
        }
    }

    #[test]
    fn no_gram_is_shared_by_two_tenants() {
        let number_of = |tenant: u128| number(TenantId(Uuid::from_u128(tenant)), "abc");
        assert_eq!(number_of(1), number_of(1));
        assert_ne!(number_of(1), number_of(2));
    }
}
