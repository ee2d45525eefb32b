-- Rules that are tried first: counters of events, rules in shadow, and replays.

-- How many events of a name an object had in an hour of `occurred_at`, so that counting them over days does not grow with
-- their number. Kept longer than the events themselves (store/src/objects/event_counters.rs).
CREATE TABLE event_counters (
    tenant_id UUID NOT NULL,
    object_id TEXT NOT NULL,
    -- Empty for events without a name.
    name      TEXT NOT NULL,
    hour      TIMESTAMP NOT NULL,
    total     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, object_id, name, hour)
) CLUSTERED;
-- By age, for the sweep.
CREATE INDEX event_counters_by_age ON event_counters (tenant_id, hour);
POSTGRES_ONLY ALTER TABLE event_counters SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
-- The events of the last 121 days, which is how long counters are kept.
SQLITE_ONLY INSERT INTO event_counters (tenant_id, object_id, name, hour, total) SELECT tenant_id, object_id, coalesce(name, ''), occurred_at - occurred_at % 3600000000, count(*) FROM events WHERE occurred_at >= (SELECT max(received_at) FROM events) - 10454400000000 GROUP BY 1, 2, 3, 4;
POSTGRES_ONLY INSERT INTO event_counters (tenant_id, object_id, name, hour, total) SELECT tenant_id, object_id, coalesce(name, ''), date_trunc('hour', occurred_at, 'UTC'), count(*) FROM events WHERE occurred_at >= (SELECT max(received_at) FROM events) - INTERVAL '121 days' GROUP BY 1, 2, 3, 4;

-- A rule in shadow is evaluated and records firings, but nothing is sent.
ALTER TABLE rules ADD COLUMN mode TEXT NOT NULL DEFAULT 'live' CHECK (mode IN ('live', 'shadow'));

-- A firing may also be one of a rule in shadow. SQLite cannot change a check, so the table is copied.
CREATE TABLE checked_firings (
    tenant_id     UUID NOT NULL,
    firing_id     UUID NOT NULL,
    rule_id       UUID NOT NULL,
    object_id     TEXT NOT NULL,
    matched_when  TEXT NOT NULL,
    signal_values TEXT NOT NULL,
    action_type   TEXT NOT NULL,
    status        TEXT NOT NULL CHECK (status IN ('dispatched', 'error', 'unconfirmed', 'shadow')),
    detail        TEXT,
    fired_at      TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, firing_id)
) STRICT;
INSERT INTO checked_firings
SELECT tenant_id, firing_id, rule_id, object_id, matched_when, signal_values, action_type, status, detail, fired_at
FROM rule_firings;
DROP TABLE rule_firings;
ALTER TABLE checked_firings RENAME TO rule_firings;
POSTGRES_ONLY ALTER INDEX checked_firings_pkey RENAME TO rule_firings_pkey;
CREATE INDEX rule_firings_newest ON rule_firings (tenant_id, fired_at DESC, firing_id DESC);
CREATE INDEX rule_firings_of_rule ON rule_firings (tenant_id, rule_id, fired_at DESC, firing_id DESC);
CREATE INDEX rule_firings_of_object ON rule_firings (tenant_id, object_id, fired_at DESC, firing_id DESC);

-- Replays that run in the background, and what they found.
CREATE TABLE rule_replays (
    tenant_id   UUID NOT NULL,
    replay_id   UUID NOT NULL,
    -- The analyses that were read so far.
    analyses    BIGINT NOT NULL,
    -- JSON, without the examples; null until it is done.
    result      TEXT,
    -- Why it failed.
    error       TEXT,
    -- Until when the process that runs it is believed to be alive.
    alive_until TIMESTAMP NOT NULL,
    created_at  TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, replay_id)
) STRICT;
-- The firings that a replay shows. Apart from it, because they go with their objects.
CREATE TABLE rule_replay_examples (
    tenant_id     UUID NOT NULL,
    replay_id     UUID NOT NULL,
    -- In the order in which they are shown.
    ordinal       BIGINT NOT NULL,
    object_id     TEXT NOT NULL,
    at            TIMESTAMP NOT NULL,
    signal_values TEXT NOT NULL,
    PRIMARY KEY (tenant_id, replay_id, ordinal)
) STRICT;
CREATE INDEX rule_replay_examples_of_object ON rule_replay_examples (tenant_id, object_id);
