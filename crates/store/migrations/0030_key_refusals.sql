-- Refused requests that named a key of the account, for its owners: one row a key, cause and minute.
CREATE TABLE key_refusals (
    tenant_id  UUID NOT NULL,
    key_id     UUID NOT NULL,
    cause      TEXT NOT NULL,
    minute     TIMESTAMP NOT NULL,
    requests   BIGINT NOT NULL,
    -- The newest of these requests.
    at         TIMESTAMP NOT NULL,
    detail     TEXT,
    address    TEXT,
    request_id TEXT,
    PRIMARY KEY (tenant_id, key_id, cause, minute)
) STRICT;
CREATE INDEX key_refusals_by_time ON key_refusals (tenant_id, at);
