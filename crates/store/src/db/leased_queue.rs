//! Queues whose rows are leased: tenants in turn, and of each the longest due first. One shape for all of them; a row that
//! is due has waited until its time, or its lease has ended.

use crate::Backend;

/// A queue, in the words of its table, which has `tenant_id`, `due_at`, `lease_token`, `lease_until` and `attempts`.
pub(crate) struct Queue {
    pub(crate) table: &'static str,
    /// What tells its lines apart, which are worked off on their own.
    pub(crate) line: &'static str,
    /// What names a row of a tenant.
    pub(crate) row: &'static str,
}

impl Queue {
    /// The tenant with rows due in a line ($1) whose turn comes after another's ($2), at an instant ($3). From tenant to
    /// tenant by the index: those whose rows all wait are passed over in one step each, however many those are. What is due
    /// is asked for as a value, not by EXISTS: PostgreSQL makes a join of that, which may leave the order of turns, so that one
    /// tenant comes first every time.
    pub(crate) fn next_tenant(&self) -> String {
        let Self { table, line, .. } = self;
        format!(
            "WITH RECURSIVE turns (tenant_id) AS (
                 SELECT tenant_id FROM (SELECT tenant_id FROM {table} WHERE {line} = $1 AND tenant_id > $2
                                        ORDER BY tenant_id LIMIT 1) AS first
                 UNION ALL
                 SELECT (SELECT {table}.tenant_id FROM {table} WHERE {line} = $1 AND {table}.tenant_id > turns.tenant_id
                         ORDER BY {table}.tenant_id LIMIT 1)
                 FROM turns WHERE turns.tenant_id IS NOT NULL
             )
             SELECT tenant_id FROM turns
             WHERE (SELECT 1 FROM {table} WHERE {line} = $1 AND {table}.tenant_id = turns.tenant_id AND due_at <= $3 LIMIT 1) = 1
             LIMIT 1"
        )
    }

    /// Takes rows of a line ($1) and tenant ($2) that are due at an instant ($3), so many at most ($4), by a token ($5) until
    /// an instant ($6): those that `only` lets through; `also` is set with it.
    pub(crate) fn claim(&self, backend: Backend, only: &str, also: &str, returning: &str) -> String {
        let (Self { table, line, row }, skip_locked) = (self, backend.skip_locked());
        // Materialized: run again for each row, the inner query would lock and claim more than its limit.
        format!(
            "WITH due AS MATERIALIZED (
                 SELECT {row} AS due_row FROM {table}
                 WHERE {line} = $1 AND tenant_id = $2{only} AND due_at <= $3 ORDER BY due_at LIMIT $4 {skip_locked}
             )
             UPDATE {table} SET lease_token = $5, lease_until = $6, attempts = attempts + 1{also}
             FROM due WHERE tenant_id = $2 AND {row} = due_row
             RETURNING {returning}"
        )
    }
}
