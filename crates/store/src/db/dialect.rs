//! Where SQLite and PostgreSQL differ in the same way everywhere: column types of the schema, and locks.

/// Which database is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Embedded, one process, no set-up.
    Sqlite,
    /// Shared by any number of processes.
    Postgres,
}

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
    // The grams of an object: the number of their row in the full-text index on SQLite, an array on PostgreSQL.
    ("GRAMS", "INTEGER", "BIGINT[]"),
    // A line for one database: for the other it is a comment.
    ("SQLITE_ONLY", "", "--"),
    ("POSTGRES_ONLY", "--", ""),
    // A table's closing word. CLUSTERED rows are small and live in their primary key.
    ("STRICT", "STRICT", ""),
    ("CLUSTERED", "STRICT, WITHOUT ROWID", ""),
];

impl Backend {
    /// Translates our schema text for this database.
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

    /// Compares the first column of a key with a value of another table, for a statement that looks rows up by that key:
    /// `jobs.tenant_id {looked_up_by("due.tenant_id")}`.
    ///
    /// To PostgreSQL an equality is also a reason to read the whole table in the order of the key, or to hash it. An array of
    /// one value is none, and what is left is the lookup (`docs/adr/0010-plans-by-index.md`).
    pub(crate) fn looked_up_by(self, value: &str) -> String {
        match self {
            Self::Sqlite => format!("= {value}"),
            Self::Postgres => format!("= ANY (ARRAY[{value}])"),
        }
    }

    /// The rows of an index that have given values in its first columns and, in the next, less than a bound (`<= $3`): for a
    /// query that reads the first of them, in the order of all these columns.
    ///
    /// PostgreSQL estimates equalities by what it knows of the table. If that seems to be little it would read all rows and sort
    /// them. A range it cannot estimate, and goes along the index.
    pub(crate) fn range(self, equal: &[(&str, &str)], column: &str, bound: &str) -> String {
        match self {
            Self::Sqlite => {
                let equal: Vec<String> =
                    equal.iter().map(|(column, value)| format!("{column} = {value}")).collect();
                format!("{} AND {column} {bound}", equal.join(" AND "))
            }
            Self::Postgres => {
                let columns: Vec<&str> = equal.iter().map(|(column, _)| *column).collect();
                let values: Vec<&str> = equal.iter().map(|(_, value)| *value).collect();
                let (columns, values) = (columns.join(", "), values.join(", "));
                let (operator, end) = bound.split_once(' ').unwrap_or(("<", bound));
                format!("({columns}) >= ({values}) AND ({columns}, {column}) {operator} ({values}, {end})")
            }
        }
    }

    /// The end of a query that locks its rows until the transaction ends. On SQLite the write transaction is the lock.
    pub(crate) fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "FOR UPDATE",
        }
    }

    /// The end of a query that claims rows: it skips those that another transaction has locked instead of waiting for them.
    /// SQLite has one writer at a time, so there is nothing to skip.
    pub(crate) fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "FOR UPDATE SKIP LOCKED",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_translated_for_each_database() {
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

    #[test]
    fn a_range_is_a_comparison_of_rows_on_postgres() {
        let range =
            |backend: Backend| backend.range(&[("priority", "$1"), ("tenant_id", "$2")], "due_at", "<= $3");
        assert_eq!(range(Backend::Sqlite), "priority = $1 AND tenant_id = $2 AND due_at <= $3");
        assert_eq!(
            range(Backend::Postgres),
            "(priority, tenant_id) >= ($1, $2) AND (priority, tenant_id, due_at) <= ($1, $2, $3)"
        );
    }
}
