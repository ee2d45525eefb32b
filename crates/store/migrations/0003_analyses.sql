-- Signals, their answers, and the work of finding them.

CREATE TABLE signals (
    tenant_id    UUID NOT NULL,
    key          TEXT NOT NULL,
    -- Names the question: a new `type`, or a key deleted and made again, is a new question, and answers to the old
    -- one are out of sight at once and swept later.
    signal_id    UUID NOT NULL,
    type         TEXT NOT NULL CHECK (type IN ('noul', 'score', 'choice')),
    -- Both as they were sent: bytes and order of keys reach the analyzer unchanged.
    instructions TEXT NOT NULL,
    criteria     TEXT,
    enabled      BOOLEAN NOT NULL,
    created_at   TIMESTAMP NOT NULL,
    updated_at   TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT;

CREATE TABLE answers (
    tenant_id     UUID NOT NULL,
    object_id     TEXT NOT NULL,
    signal_id     UUID NOT NULL,
    -- The probability of yes, or the position on the scale; null for a choice.
    value         DOUBLE,
    -- The likeliest option of a choice.
    choice        TEXT,
    probabilities TEXT,
    confidence    DOUBLE,
    model         TEXT NOT NULL,
    -- The newest event the answer has read: an older answer never replaces a newer one.
    read_seq      BIGINT NOT NULL,
    computed_at   TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, object_id, signal_id)
) CLUSTERED;
CREATE INDEX answers_by_value ON answers (tenant_id, signal_id, value);
CREATE INDEX answers_by_choice ON answers (tenant_id, signal_id, choice);

CREATE TABLE signal_tallies (
    tenant_id    UUID NOT NULL,
    signal_id    UUID NOT NULL,
    -- The option of a choice; empty for the other types.
    choice       TEXT NOT NULL,
    shard        BIGINT NOT NULL,
    answers      BIGINT NOT NULL,
    high         BIGINT NOT NULL,
    -- The sum of the values in millionths: integers, so that adding and taking away leaves no drift.
    value_micros BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, signal_id, choice, shard)
) CLUSTERED;

-- One row an object that waits for an analysis.
CREATE TABLE jobs (
    tenant_id      UUID NOT NULL,
    object_id      TEXT NOT NULL,
    -- 0 live, 1 bulk: live goes first, always.
    priority       BIGINT NOT NULL,
    -- Debounced: moved by each event, at most to the deadline that the first one set.
    run_at         TIMESTAMP NOT NULL,
    deadline_at    TIMESTAMP NOT NULL,
    -- The signal ids asked for; null asks all.
    signals        JSON,
    -- The walk that asked, for as long as the job is a bulk job: a live event takes the job over.
    bulk_run_id    UUID,
    -- Grows with each merge: a finished analysis removes the job only at the version that it claimed.
    version        BIGINT NOT NULL,
    -- The version that the lease below was taken at: events since then begin a new debounce.
    claimed_version BIGINT NOT NULL DEFAULT 0,
    attempts       BIGINT NOT NULL DEFAULT 0,
    lease_token    UUID,
    lease_until    TIMESTAMP,
    -- Set while the tenant has no money for it. Such a job is never due, however many there are: a top-up clears this.
    unpaid         BOOLEAN NOT NULL DEFAULT FALSE,
    -- A lease that ran out makes the job due again by itself: there is no reaper.
    due_at         TIMESTAMP GENERATED ALWAYS AS (CASE WHEN NOT unpaid THEN coalesce(lease_until, run_at) END) STORED,
    PRIMARY KEY (tenant_id, object_id)
) STRICT;
-- Claiming takes tenants in turn: it skips from tenant to tenant along the first index. The second tells when to wake, and how much waits for how long.
CREATE INDEX jobs_due_by_tenant ON jobs (priority, tenant_id, due_at);
CREATE INDEX jobs_due ON jobs (due_at, priority);
CREATE INDEX jobs_unpaid ON jobs (tenant_id, object_id) WHERE unpaid;

-- A walk over all objects of a tenant (re-analyze all, backfill, putting objects in their place after a change of
-- signals): one row with a cursor that feeds work as it drains, whatever the number of objects.
CREATE TABLE bulk_runs (
    tenant_id     UUID NOT NULL,
    bulk_run_id   UUID NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('analyze', 'backfill', 'rerank')),
    signal_key    TEXT,
    signal_id     UUID,
    status        TEXT NOT NULL CHECK (status IN ('running', 'done')),
    -- The last object fed; empty at the start.
    object_cursor TEXT NOT NULL,
    total         BIGINT NOT NULL,
    -- Of a backfill that has ended: how many of `total` have an answer since. While it runs, the tallies tell.
    completed     BIGINT,
    started_at    TIMESTAMP NOT NULL,
    finished_at   TIMESTAMP,
    PRIMARY KEY (tenant_id, bulk_run_id)
) STRICT;
CREATE INDEX bulk_runs_running ON bulk_runs (tenant_id, bulk_run_id) WHERE status = 'running';
CREATE INDEX bulk_runs_of_signal ON bulk_runs (tenant_id, signal_key, started_at DESC);
