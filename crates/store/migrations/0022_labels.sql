-- What people say is true about objects, and the calibrations that are fitted to it.

CREATE TABLE labels (
    tenant_id   UUID NOT NULL,
    -- Sorts by `created_at`, to the microsecond.
    label_id    UUID NOT NULL,
    object_id   TEXT NOT NULL,
    -- The question: a label goes with it, like its answers.
    signal_id   UUID NOT NULL,
    -- The version of the signal when the label was given.
    version     BIGINT NOT NULL,
    -- JSON: true or false, an option, or the index of a level.
    value       TEXT NOT NULL,
    note        TEXT,
    source      TEXT NOT NULL CHECK (source IN ('person', 'api', 'review')),
    author_kind TEXT NOT NULL CHECK (author_kind IN ('user', 'key')),
    author_id   UUID NOT NULL,
    -- The name as it was then: the author may be gone.
    author_name TEXT NOT NULL,
    -- Whether the object was drawn at random.
    audit       BOOLEAN NOT NULL,
    -- JSON: what the service said then.
    answer      TEXT,
    -- Whether it is the latest of all authors about this signal of this object.
    counts      BOOLEAN NOT NULL,
    created_at  TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, label_id)
) STRICT;
CREATE INDEX labels_of_source ON labels (tenant_id, source, label_id);
CREATE INDEX labels_of_signal_and_source ON labels (tenant_id, signal_id, source, label_id);
CREATE INDEX labels_of_signal ON labels (tenant_id, signal_id, label_id);
-- One label of one author; also what an object's labels are found by. The last, because of indexes that cost the same before
-- there are statistics PostgreSQL takes the newest.
CREATE UNIQUE INDEX labels_of_author ON labels (tenant_id, object_id, signal_id, author_kind, author_id);

CREATE TABLE calibrations (
    tenant_id      UUID NOT NULL,
    calibration_id UUID NOT NULL,
    -- The question, and the newest version of it that has the wording it was fitted to.
    signal_id      UUID NOT NULL,
    version        BIGINT NOT NULL,
    -- JSON of `model::quality::calibration::Calibrator`.
    calibrator     TEXT NOT NULL,
    labels         BIGINT NOT NULL,
    created_at     TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, calibration_id)
) STRICT;
CREATE INDEX calibrations_of_signal ON calibrations (tenant_id, signal_id, calibration_id);

-- JSON: the analyzer's own answer, where a calibration is on.
ALTER TABLE answers ADD COLUMN raw TEXT;
