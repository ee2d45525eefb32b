-- What bounds the bytes of events that a tenant sends and keeps.

-- A tenant's budget of bytes in one window, out of which nodes lease blocks.
CREATE TABLE ingest_budgets (
    tenant_id    UUID NOT NULL PRIMARY KEY,
    window_start TIMESTAMP NOT NULL,
    granted      BIGINT NOT NULL
) STRICT;

-- The bytes of contents and metadata of the events that are kept. `shard` spreads the writers of one hot row over several;
-- readers sum them, and a single one may be negative.
CREATE TABLE storage_tallies (
    tenant_id UUID NOT NULL,
    shard     BIGINT NOT NULL,
    bytes     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, shard)
) CLUSTERED;
POSTGRES_ONLY ALTER TABLE storage_tallies SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
INSERT INTO storage_tallies (tenant_id, shard, bytes)
SELECT tenant_id, 0, CAST(sum(coalesce(octet_length(content), 0) + coalesce(octet_length(metadata), 0)) AS bigint)
FROM events GROUP BY tenant_id;
