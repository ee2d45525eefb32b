//! Queues whose rows are leased: tenants take turns, and each tenant's longest due rows go first.
//!
//! A row is due when its time has come, or when its lease has expired. All such queues share these two statements.

use crate::db::conn::Conn;

/// A queue, by its table, which has `tenant_id`, `due_at`, `lease_token`, `lease_until` and `begun`: the claims since an attempt
/// last ended, counted before anything can happen to the process.
pub(crate) struct ClaimStatements {
    pub(crate) table: &'static str,
    /// The column that divides the table into queues of their own.
    pub(crate) queue_column: &'static str,
    /// The column that identifies a row within a tenant.
    pub(crate) row_column: &'static str,
    /// Whether the rows of a tenant are claimed lane by lane (`lane`).
    pub(crate) has_lanes: bool,
    /// The condition of the index by queue, tenant and due time (` AND …`).
    pub(crate) indexed: &'static str,
    /// The condition of the index that rows are claimed by: the same one, or the one by queue, tenant, lane and due time.
    pub(crate) claimed_by: &'static str,
    /// Whether the rows of a suspended tenant wait.
    pub(crate) waits_while_suspended: bool,
}

impl ClaimStatements {
    /// The next tenant after one ($2) with rows of a queue ($1) that are due at an instant ($3).
    ///
    /// It goes from tenant to tenant by the index: one whose rows are all in the future is a single step, however many they
    /// are. Whether a row is due is a scalar subquery, not `EXISTS`: PostgreSQL would turn that into a join, which may leave
    /// the order of tenants, so that one tenant comes first every time.
    pub(crate) fn next_tenant(&self, conn: &Conn) -> String {
        let Self { table, queue_column, indexed, .. } = self;
        if conn.is_sharded() {
            return self.next_tenant_of_shards();
        }
        let is_admitted = if self.waits_while_suspended {
            " AND (SELECT suspended_at FROM tenants WHERE tenants.tenant_id = turns.tenant_id) IS NULL"
        } else {
            ""
        };
        format!(
            "WITH RECURSIVE turns (tenant_id) AS (
                 SELECT tenant_id FROM (SELECT tenant_id FROM {table} WHERE {queue_column} = $1 AND tenant_id > $2{indexed}
                                        ORDER BY tenant_id LIMIT 1) AS first
                 UNION ALL
                 SELECT (SELECT {table}.tenant_id FROM {table}
                         WHERE {queue_column} = $1 AND {table}.tenant_id > turns.tenant_id{indexed}
                         ORDER BY {table}.tenant_id LIMIT 1)
                 FROM turns WHERE turns.tenant_id IS NOT NULL
             )
             SELECT tenant_id FROM turns
             WHERE (SELECT 1 FROM {table}
                    WHERE {queue_column} = $1 AND {table}.tenant_id = turns.tenant_id AND due_at <= $3{indexed} LIMIT 1) = 1{is_admitted}
             LIMIT 1"
        )
    }

    /// The same for a database that is divided into shards: each looks for its own next tenant, and the first of them is taken. No
    /// statement goes from tenant to tenant over shards, so each shard passes what is not due row by row.
    fn next_tenant_of_shards(&self) -> String {
        let Self { table, queue_column, indexed, .. } = self;
        let is_admitted = if self.waits_while_suspended {
            format!(
                " AND (SELECT suspended_at FROM tenants WHERE tenants.tenant_id = {table}.tenant_id) IS NULL"
            )
        } else {
            String::new()
        };
        format!(
            "SELECT tenant_id FROM {table}
             WHERE {queue_column} = $1 AND tenant_id > $2 AND due_at <= $3{indexed}{is_admitted}
             ORDER BY tenant_id LIMIT 1"
        )
    }

    /// Claims rows of a queue ($1) and tenant ($2), and of a lane ($7) where the queue has lanes, that are due at an instant
    /// ($3), up to a limit ($4), with a lease of a token ($5) and an end ($6). `assignments` are set with the lease.
    pub(crate) fn claim(&self, conn: &Conn, assignments: &str, returning: &str) -> String {
        let backend = conn.backend();
        let Self { table, queue_column, row_column, claimed_by, .. } = self;
        let lane = if self.has_lanes { &[("lane", "$7")][..] } else { &[] };
        let equal = [&[(*queue_column, "$1"), ("tenant_id", "$2")], lane].concat();
        let due = backend.range(&equal, "due_at", "<= $3");
        let order: Vec<&str> = equal.iter().map(|(column, _)| *column).collect();
        let order = order.join(", ");
        let skip_locked = backend.skip_locked();
        // Both parts name the tenant, so that they go to the same shard.
        let in_shard = if conn.is_sharded() { " AND tenant_id = $2" } else { "" };
        let looked_up = conn.looked_up_in_shard("due_tenant", "tenant_id = $2");
        // Materialized: run again for each row, the inner query would lock and claim more than its limit.
        format!(
            "WITH due AS MATERIALIZED (
                 SELECT tenant_id AS due_tenant, {row_column} AS due_row FROM {table}
                 WHERE {due}{in_shard}{claimed_by} ORDER BY {order}, due_at LIMIT $4 {skip_locked}
             )
             UPDATE {table} SET lease_token = $5, lease_until = $6, begun = begun + 1{assignments}
             FROM due WHERE tenant_id {looked_up} AND {row_column} = due_row
             RETURNING {returning}"
        )
    }
}
