//! Where SQLite and PostgreSQL really differ: column types of the schema, and locks.

use crate::{Backend, Conn};

/// The words that migrations use for column types and table kinds, with their native form.
///
/// They are written in capitals and stand alone, which no name in the schema does.
const WORDS: [(&str, &str, &str); 14] = [
    ("UUID", "BLOB", "UUID"),
    ("TIMESTAMP", "INTEGER", "TIMESTAMPTZ"),
    ("DATE", "TEXT", "DATE"),
    ("JSON", "TEXT", "JSONB"),
    ("BYTES", "BLOB", "BYTEA"),
    ("BOOLEAN", "INTEGER", "BOOLEAN"),
    ("BIGINT", "INTEGER", "BIGINT"),
    ("DOUBLE", "REAL", "DOUBLE PRECISION"),
    // Bytewise order on both: a keyset must not depend on the locale a cluster was made with.
    ("TEXT", "TEXT", "TEXT COLLATE \"C\""),
    // Where the grams of an object are: their number in the full-text index, or themselves.
    ("GRAMS", "INTEGER", "BIGINT[]"),
    // A line for one database: for the other it is a comment.
    ("SQLITE_ONLY", "", "--"),
    ("POSTGRES_ONLY", "--", ""),
    // A table's closing word. CLUSTERED rows are small and live in their primary key.
    ("STRICT", "STRICT", ""),
    ("CLUSTERED", "STRICT, WITHOUT ROWID", ""),
];

impl Backend {
    /// Our schema text in this database's own words.
    pub(crate) fn translate(self, schema: &str) -> String {
        let native = |word: &str| {
            let (_, sqlite, postgres) = WORDS.iter().find(|(ours, ..)| *ours == word)?;
            Some(match self {
                Self::Sqlite => *sqlite,
                Self::Postgres => *postgres,
            })
        };
        let mut translated = String::with_capacity(schema.len());
        for line in schema.lines() {
            let code = line.split("--").next().unwrap_or_default();
            for piece in code.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            {
                let word =
                    piece.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
                translated.push_str(native(word).unwrap_or(word));
                translated.push_str(&piece[word.len()..]);
            }
            translated.push('\n');
        }
        translated
    }

    /// The end of a query whose rows stay as they are until the transaction ends. On SQLite the write transaction sees to
    /// that.
    pub(crate) fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "FOR UPDATE",
        }
    }

    /// The end of a query that claims rows: those that another transaction is claiming are passed over, not waited for.
    /// SQLite has one writer at a time, so there is nobody to pass.
    pub(crate) fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "FOR UPDATE SKIP LOCKED",
        }
    }
}

impl Conn {
    /// Which database this leads to.
    pub(crate) fn backend(&self) -> Backend {
        match self {
            Self::Sqlite(_) => Backend::Sqlite,
            Self::Postgres(_) => Backend::Postgres,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_reads_in_each_database_s_own_words() {
        let ours =
            "CREATE TABLE t (id UUID NOT NULL, at TIMESTAMP, -- TEXT in a comment\n at_text TEXT) CLUSTERED;";
        assert_eq!(
            Backend::Sqlite.translate(ours),
            "CREATE TABLE t (id BLOB NOT NULL, at INTEGER, \n at_text TEXT) STRICT, WITHOUT ROWID;\n"
        );
        assert_eq!(
            Backend::Postgres.translate(ours),
            "CREATE TABLE t (id UUID NOT NULL, at TIMESTAMPTZ, \n at_text TEXT COLLATE \"C\") ;\n"
        );
    }
}
