//! Queues whose rows are leased: tenants take turns, and each tenant's longest due rows go first.
//!
//! A row is due when its time has come, or when its lease has expired. All such queues share these two statements.

use crate::db::dialect::Backend;

/// A queue, by its table, which has `tenant_id`, `due_at`, `lease_token`, `lease_until` and `begun`: the claims since an attempt
/// last ended, counted before anything can happen to the process.
pub(crate) struct LeasedQueue {
    pub(crate) table: &'static str,
    /// The column that divides the table into queues of their own.
    pub(crate) queue_column: &'static str,
    /// The column that identifies a row within a tenant.
    pub(crate) row_column: &'static str,
    /// Whether the rows of a suspended tenant wait.
    pub(crate) waits_while_suspended: bool,
}

impl LeasedQueue {
    /// The next tenant after one ($2) with rows of a queue ($1) that are due at an instant ($3).
    ///
    /// It goes from tenant to tenant by the index: one whose rows are all in the future is a single step, however many they
    /// are. Whether a row is due is a scalar subquery, not `EXISTS`: PostgreSQL would turn that into a join, which may leave
    /// the order of tenants, so that one tenant comes first every time.
    pub(crate) fn next_tenant(&self) -> String {
        let Self { table, queue_column, .. } = self;
        let is_admitted = if self.waits_while_suspended {
            " AND (SELECT suspended_at FROM tenants WHERE tenants.tenant_id = turns.tenant_id) IS NULL"
        } else {
            ""
        };
        format!(
            "WITH RECURSIVE turns (tenant_id) AS (
                 SELECT tenant_id FROM (SELECT tenant_id FROM {table} WHERE {queue_column} = $1 AND tenant_id > $2
                                        ORDER BY tenant_id LIMIT 1) AS first
                 UNION ALL
                 SELECT (SELECT {table}.tenant_id FROM {table}
                         WHERE {queue_column} = $1 AND {table}.tenant_id > turns.tenant_id
                         ORDER BY {table}.tenant_id LIMIT 1)
                 FROM turns WHERE turns.tenant_id IS NOT NULL
             )
             SELECT tenant_id FROM turns
             WHERE (SELECT 1 FROM {table}
                    WHERE {queue_column} = $1 AND {table}.tenant_id = turns.tenant_id AND due_at <= $3 LIMIT 1) = 1{is_admitted}
             LIMIT 1"
        )
    }

    /// Claims rows of a queue ($1) and tenant ($2) that are due at an instant ($3), up to a limit ($4), with a lease of a
    /// token ($5) and an end ($6). `filter` is a further condition on the rows, `assignments` are set with the lease.
    pub(crate) fn claim(&self, backend: Backend, filter: &str, assignments: &str, returning: &str) -> String {
        let Self { table, queue_column, row_column, .. } = self;
        let skip_locked = backend.skip_locked();
        // Materialized: run again for each row, the inner query would lock and claim more than its limit. It returns the whole
        // key: joined by the row alone, PostgreSQL may plan to read all rows of the tenant, and keep that plan.
        format!(
            "WITH due AS MATERIALIZED (
                 SELECT tenant_id AS due_tenant, {row_column} AS due_row FROM {table}
                 WHERE {queue_column} = $1 AND tenant_id = $2{filter} AND due_at <= $3
                 ORDER BY due_at LIMIT $4 {skip_locked}
             )
             UPDATE {table} SET lease_token = $5, lease_until = $6, begun = begun + 1{assignments}
             FROM due WHERE tenant_id = due_tenant AND {row_column} = due_row
             RETURNING {returning}"
        )
    }
}
