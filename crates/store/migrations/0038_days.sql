-- What happened on a day (UTC), for the overview: objects that were first seen, and those that an analysis flagged.
CREATE TABLE object_days (
    tenant_id UUID NOT NULL,
    day       DATE NOT NULL,
    shard     BIGINT NOT NULL,
    objects   BIGINT NOT NULL,
    flagged   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day, shard)
) CLUSTERED;

-- How often rules fired.
CREATE TABLE firing_days (
    tenant_id UUID NOT NULL,
    day       DATE NOT NULL,
    shard     BIGINT NOT NULL,
    firings   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day, shard)
) CLUSTERED;

POSTGRES_ONLY ALTER TABLE object_days SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
POSTGRES_ONLY ALTER TABLE firing_days SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
