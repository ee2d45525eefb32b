-- Trials: another wording of a signal, put to objects that are there.

CREATE TABLE trials (
    tenant_id    UUID NOT NULL,
    -- Sorts by `created_at`.
    trial_id     UUID NOT NULL,
    -- The question, and the version that the proposed wording is compared with.
    signal_id    UUID NOT NULL,
    version      BIGINT NOT NULL,
    -- JSON: the proposed wording.
    instructions TEXT NOT NULL,
    criteria     TEXT,
    -- JSON: which objects it is put to.
    over_objects TEXT NOT NULL,
    status       TEXT NOT NULL CHECK (status IN ('running', 'done', 'cancelled')),
    total        BIGINT NOT NULL,
    cost_micros  BIGINT NOT NULL,
    -- The process that runs it; it ends by itself.
    lease_token  UUID,
    lease_until  TIMESTAMP,
    created_at   TIMESTAMP NOT NULL,
    ended_at     TIMESTAMP,
    PRIMARY KEY (tenant_id, trial_id)
) STRICT;
CREATE INDEX trials_of_signal ON trials (tenant_id, signal_id, trial_id);
CREATE INDEX trials_running ON trials (tenant_id, trial_id) WHERE status = 'running';

CREATE TABLE trial_objects (
    tenant_id   UUID NOT NULL,
    trial_id    UUID NOT NULL,
    object_id   TEXT NOT NULL,
    -- The newest event to read; all if null.
    through     BIGINT,
    -- JSON: what people say is true, when they said it, and whether the object was drawn at random.
    label       TEXT,
    labelled_at TIMESTAMP,
    audit       BOOLEAN NOT NULL,
    -- JSON: both answers; null until they are there, or where there are none.
    present     TEXT,
    proposed    TEXT,
    attempts    BIGINT NOT NULL,
    has_ended   BOOLEAN NOT NULL,
    PRIMARY KEY (tenant_id, trial_id, object_id)
) CLUSTERED;
CREATE INDEX trial_objects_open ON trial_objects (tenant_id, trial_id, object_id) WHERE NOT has_ended;
CREATE INDEX trial_objects_of_object ON trial_objects (tenant_id, object_id);
