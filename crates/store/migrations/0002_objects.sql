-- Objects and what was said about them.

CREATE TABLE objects (
    tenant_id        UUID NOT NULL,
    object_id        TEXT NOT NULL,
    object_type      TEXT NOT NULL,
    -- The type under which `object_tallies` counts the object: a change of type is noticed where they differ.
    counted_type     TEXT NOT NULL,
    display_name     TEXT,
    -- Whether the newest request made the object or gave it another name: only then its grams are written.
    renamed          BOOLEAN NOT NULL DEFAULT TRUE,
    -- Events ever recorded, which is also the sequence number of the newest one.
    event_count      BIGINT NOT NULL,
    first_seen       TIMESTAMP NOT NULL,
    last_seen        TIMESTAMP NOT NULL,
    last_analyzed_at TIMESTAMP,
    -- The highest yes/no probability and the highest score among the answers of enabled signals; -1 without one,
    -- so that objects without a value sort last on both databases and a keyset needs no special case.
    risk             DOUBLE NOT NULL DEFAULT -1,
    trust            DOUBLE NOT NULL DEFAULT -1,
    PRIMARY KEY (tenant_id, object_id)
) STRICT;
-- One index a sort of the object list, each in its page order.
CREATE INDEX objects_recent ON objects (tenant_id, last_seen DESC, object_id);
CREATE INDEX objects_flagged ON objects (tenant_id, risk DESC, last_seen DESC, object_id);
CREATE INDEX objects_trust ON objects (tenant_id, trust DESC, last_seen DESC, object_id);

-- What a part of an id or a name is found by: its grams, three characters in a row each (store/src/grams.rs). Apart from
-- `objects`, because only a new object or a new name changes them. On PostgreSQL the row holds them and an inverted index
-- leads from a gram to its rows. On SQLite it holds the number of their row in a full-text index, which keeps nothing but
-- the lists.
CREATE TABLE object_grams (
    tenant_id UUID NOT NULL,
    object_id TEXT NOT NULL,
    grams     GRAMS NOT NULL,
    PRIMARY KEY (tenant_id, object_id)
) CLUSTERED;
SQLITE_ONLY CREATE INDEX object_grams_listed ON object_grams (grams);
SQLITE_ONLY CREATE VIRTUAL TABLE gram_lists USING fts5(grams, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
-- New rows wait in a list that every search reads through: kept short, it costs a search little.
POSTGRES_ONLY CREATE INDEX object_grams_listed ON object_grams USING gin (grams) WITH (gin_pending_list_limit = 1024);

CREATE TABLE events (
    tenant_id   UUID NOT NULL,
    object_id   TEXT NOT NULL,
    -- Arrival order within the object, from 1.
    seq         BIGINT NOT NULL,
    type        TEXT NOT NULL CHECK (type IN ('event', 'message')),
    name        TEXT,
    content     TEXT,
    -- As it was sent, order of keys included: it is shown and passed on, never searched.
    metadata    TEXT,
    occurred_at TIMESTAMP NOT NULL,
    received_at TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, object_id, seq)
) STRICT;
CREATE INDEX events_listed ON events (tenant_id, object_id, occurred_at DESC, seq DESC);
CREATE INDEX events_retained ON events (tenant_id, received_at);

-- The rolling summary: events up to `through_seq` folded into `state`. Apart from `objects`, which every ingest
-- rewrites, because only an analysis changes it.
CREATE TABLE summaries (
    tenant_id       UUID NOT NULL,
    object_id       TEXT NOT NULL,
    through_seq     BIGINT NOT NULL,
    through_time    TIMESTAMP NOT NULL,
    folded_events   BIGINT NOT NULL,
    -- How many messages the state quotes. A limit on how long events are kept ends them.
    samples         BIGINT NOT NULL DEFAULT 0,
    state           JSON NOT NULL,
    PRIMARY KEY (tenant_id, object_id)
) STRICT;
CREATE INDEX summaries_with_samples ON summaries (tenant_id, object_id) WHERE samples > 0;

CREATE TABLE idempotency_keys (
    tenant_id       UUID NOT NULL,
    idempotency_key TEXT NOT NULL,
    object_id       TEXT NOT NULL,
    kind            TEXT NOT NULL CHECK (kind IN ('async', 'sync')),
    accepted        BIGINT NOT NULL,
    created_at      TIMESTAMP NOT NULL,
    expires_at      TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, idempotency_key)
) CLUSTERED;
CREATE INDEX idempotency_keys_expired ON idempotency_keys (expires_at);

-- Rollups. `shard` spreads the writers of one hot row over several; readers sum them.

CREATE TABLE object_tallies (
    tenant_id   UUID NOT NULL,
    object_type TEXT NOT NULL,
    shard       BIGINT NOT NULL,
    objects     BIGINT NOT NULL,
    analyzed    BIGINT NOT NULL,
    flagged     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, object_type, shard)
) CLUSTERED;

CREATE TABLE event_tallies (
    tenant_id UUID NOT NULL,
    -- The minute of receipt.
    minute    TIMESTAMP NOT NULL,
    shard     BIGINT NOT NULL,
    events    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, minute, shard)
) CLUSTERED;

-- The same by the hour: "the last 24 hours" is a sum over 24 hours and what is left of the minutes of one more.
CREATE TABLE hourly_event_tallies (
    tenant_id UUID NOT NULL,
    hour      TIMESTAMP NOT NULL,
    shard     BIGINT NOT NULL,
    events    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, hour, shard)
) CLUSTERED;
