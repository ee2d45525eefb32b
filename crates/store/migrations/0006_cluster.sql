-- What the processes of one deployment share besides data. None of it is worth a backup.

-- Facts about the deployment itself, such as the fingerprint of its master key.
CREATE TABLE deployment (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) CLUSTERED;

CREATE TABLE nodes (
    node_id UUID NOT NULL PRIMARY KEY,
    seen_at TIMESTAMP NOT NULL
) STRICT;

-- Attempts counted against an address or an email before anybody is signed in.
CREATE TABLE throttles (
    scope         TEXT NOT NULL,
    subject       TEXT NOT NULL,
    attempts      BIGINT NOT NULL,
    window_start  TIMESTAMP NOT NULL,
    blocked_until TIMESTAMP,
    PRIMARY KEY (scope, subject)
) CLUSTERED;
CREATE INDEX throttles_stale ON throttles (window_start);

-- A tenant's request budget of one window, out of which nodes lease blocks.
CREATE TABLE rate_budgets (
    tenant_id    UUID NOT NULL PRIMARY KEY,
    window_start TIMESTAMP NOT NULL,
    granted      BIGINT NOT NULL
) STRICT;

-- One row a synchronous analysis in flight; a crashed node's rows run out.
CREATE TABLE sync_leases (
    tenant_id  UUID NOT NULL,
    lease_id   UUID NOT NULL,
    expires_at TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, lease_id)
) CLUSTERED;
CREATE INDEX sync_leases_expired ON sync_leases (expires_at);
