-- The past of an answer: the versions of every signal, which of them each answer belongs to, and what every analysis said.

-- The version of the definition, from 1, and the calibration that is switched on with it.
ALTER TABLE signals ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
ALTER TABLE signals ADD COLUMN calibration_id UUID;

-- Every definition that a key has had. Rows outlive the signal, so that the numbers go on when its key returns.
CREATE TABLE signal_versions (
    tenant_id      UUID NOT NULL,
    key            TEXT NOT NULL,
    version        BIGINT NOT NULL,
    type           TEXT NOT NULL CHECK (type IN ('noul', 'score', 'choice')),
    instructions   TEXT NOT NULL,
    criteria       TEXT,
    calibration_id UUID,
    created_at     TIMESTAMP NOT NULL,
    -- Who made it; null of the service itself and of what was there before this table.
    author_kind    TEXT CHECK (author_kind IN ('user', 'key')),
    author_id      UUID,
    -- The name as it was then: the author may be gone.
    author_name    TEXT,
    PRIMARY KEY (tenant_id, key, version)
) STRICT;
INSERT INTO signal_versions (tenant_id, key, version, type, instructions, criteria, created_at)
SELECT tenant_id, key, 1, type, instructions, criteria, updated_at FROM signals;

-- The version that was asked, also if the signal was changed before the answer was stored.
ALTER TABLE answers ADD COLUMN version BIGINT NOT NULL DEFAULT 1;

-- The counts of answers by version: a new table, because a primary key cannot be changed on SQLite.
CREATE TABLE version_tallies (
    tenant_id    UUID NOT NULL,
    signal_id    UUID NOT NULL,
    version      BIGINT NOT NULL,
    -- The option of a choice; empty for the other types.
    choice       TEXT NOT NULL,
    shard        BIGINT NOT NULL,
    answers      BIGINT NOT NULL,
    high         BIGINT NOT NULL,
    -- The sum of the values in millionths: integers, so that adding and taking away leaves no drift.
    value_micros BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, signal_id, version, choice, shard)
) CLUSTERED;
INSERT INTO version_tallies (tenant_id, signal_id, version, choice, shard, answers, high, value_micros)
SELECT tenant_id, signal_id, 1, choice, shard, answers, high, value_micros FROM signal_tallies;
DROP TABLE signal_tallies;
ALTER TABLE version_tallies RENAME TO signal_tallies;
POSTGRES_ONLY ALTER INDEX version_tallies_pkey RENAME TO signal_tallies_pkey;
POSTGRES_ONLY ALTER TABLE signal_tallies SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);

-- One row an analysis, object by object: pages and replays read it in the order of its key. It holds no content of events.
CREATE TABLE answer_history (
    tenant_id   UUID NOT NULL,
    object_id   TEXT NOT NULL,
    -- Sorts by `at`, to the microsecond.
    analysis_id UUID NOT NULL,
    at          TIMESTAMP NOT NULL,
    source      TEXT NOT NULL CHECK (source IN ('async', 'sync', 'bulk')),
    model       TEXT NOT NULL,
    -- The newest event that was read.
    read_seq    BIGINT NOT NULL,
    -- All answers with their versions, in the short form of `model::recorded_answer`.
    answers     TEXT NOT NULL,
    PRIMARY KEY (tenant_id, object_id, analysis_id)
) CLUSTERED;
-- By age, for the sweep and for reads of a time range.
CREATE INDEX answer_history_by_age ON answer_history (tenant_id, analysis_id, object_id);

-- In the order of a page of an object's timeline.
DROP INDEX webhook_deliveries_of_object;
CREATE INDEX webhook_deliveries_of_object ON webhook_deliveries (tenant_id, object_id, created_at DESC, delivery_id DESC);
