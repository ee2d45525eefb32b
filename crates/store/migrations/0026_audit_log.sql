-- The audit log: who changed what, one line each, chained by hashes so that a line that was changed or removed is noticed.

CREATE TABLE audit_log (
    tenant_id   UUID NOT NULL,
    -- Counts the lines of a tenant, without gaps.
    seq         BIGINT NOT NULL,
    entry_id    UUID NOT NULL,
    at          TIMESTAMP NOT NULL,
    actor_kind  TEXT NOT NULL CHECK (actor_kind IN ('user', 'key', 'operator')),
    actor_id    UUID,
    -- The email address or the name that the actor had then.
    actor_name  TEXT NOT NULL,
    action      TEXT NOT NULL,
    target_kind TEXT NOT NULL,
    target_id   TEXT NOT NULL,
    address     TEXT,
    request_id  TEXT,
    -- JSON, without secrets.
    before      TEXT,
    after       TEXT,
    -- SHA-256 of the hash of the line before and of everything in this one.
    hash        BYTES NOT NULL,
    PRIMARY KEY (tenant_id, seq)
) STRICT;
CREATE INDEX audit_log_by_actor ON audit_log (tenant_id, actor_id, seq);
CREATE INDEX audit_log_by_action ON audit_log (tenant_id, action, seq);
CREATE INDEX audit_log_by_time ON audit_log (tenant_id, at);

-- Where the chain of a tenant begins and ends: the last line that was swept, and the newest one.
CREATE TABLE audit_chains (
    tenant_id  UUID NOT NULL PRIMARY KEY,
    swept_seq  BIGINT NOT NULL,
    swept_hash BYTES NOT NULL,
    seq        BIGINT NOT NULL,
    hash       BYTES NOT NULL
) STRICT;
