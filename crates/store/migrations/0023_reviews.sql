-- Work for people: reviews, the rules that open them, and objects drawn at random.

CREATE TABLE reviews (
    tenant_id      UUID NOT NULL,
    -- Sorts by `created_at`, to the microsecond.
    review_id      UUID NOT NULL,
    object_id      TEXT NOT NULL,
    queue          TEXT NOT NULL,
    -- The rule that opened it.
    rule_id        UUID,
    reason         TEXT NOT NULL CHECK (reason IN ('rule', 'audit', 'person')),
    -- A claimed one is open: the claim ends by itself.
    status         TEXT NOT NULL CHECK (status IN ('open', 'resolved')),
    -- JSON: the keys of the signals to be labelled.
    signals        TEXT NOT NULL,
    -- How often rules have fired for it again.
    refirings      BIGINT NOT NULL,
    -- In thousandths.
    priority       BIGINT NOT NULL,
    claimer_kind   TEXT CHECK (claimer_kind IN ('user', 'key')),
    claimer_id     UUID,
    -- The name as it was then: the claimer may be gone.
    claimer_name   TEXT,
    claimed_until  TIMESTAMP,
    decision       TEXT,
    note           TEXT,
    resolver_kind  TEXT CHECK (resolver_kind IN ('user', 'key')),
    resolver_id    UUID,
    resolver_name  TEXT,
    resolved_at    TIMESTAMP,
    -- JSON: the labels that it gave and those that they replaced, until it can no longer be reopened.
    undo           TEXT,
    created_at     TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, review_id)
) STRICT;
-- An object has at most one open review in a queue.
CREATE UNIQUE INDEX reviews_open ON reviews (tenant_id, object_id, queue) WHERE status = 'open';
CREATE INDEX reviews_of_object ON reviews (tenant_id, object_id, created_at DESC, review_id DESC);
CREATE INDEX reviews_oldest ON reviews (tenant_id, status, review_id);
CREATE INDEX reviews_by_priority ON reviews (tenant_id, status, priority DESC, review_id);
CREATE INDEX reviews_oldest_in_queue ON reviews (tenant_id, queue, status, review_id);
CREATE INDEX reviews_by_priority_in_queue ON reviews (tenant_id, queue, status, priority DESC, review_id);
CREATE INDEX reviews_resolved ON reviews (tenant_id, resolved_at) WHERE status = 'resolved';
CREATE INDEX reviews_claimed ON reviews (tenant_id, claimer_id) WHERE claimer_id IS NOT NULL;
CREATE INDEX reviews_with_undo ON reviews (tenant_id, resolved_at) WHERE undo IS NOT NULL;

-- The share of analyzed objects that is drawn at random for a review, in percent, and where those reviews go.
ALTER TABLE tenants ADD COLUMN audit_rate_pct DOUBLE NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN audit_queue TEXT NOT NULL DEFAULT 'audit';

-- The action of a rule may be a review. SQLite cannot change a check, so the table is copied; there are few rules.
CREATE TABLE checked_rules (
    tenant_id        UUID NOT NULL,
    rule_id          UUID NOT NULL,
    -- Identifies the condition: another text is another condition, whose state starts afresh.
    condition_id     UUID NOT NULL,
    name             TEXT NOT NULL,
    condition        TEXT NOT NULL,
    action_type      TEXT NOT NULL CHECK (action_type IN ('email', 'slack', 'webhook', 'review')),
    -- Sealed: the URL of a chat webhook is a credential.
    action_config    BYTES NOT NULL,
    enabled          BOOLEAN NOT NULL,
    cooldown_seconds BIGINT NOT NULL,
    created_at       TIMESTAMP NOT NULL,
    updated_at       TIMESTAMP NOT NULL,
    created_by       TEXT CHECK (created_by IN ('user', 'key', 'operator')),
    created_by_user  UUID,
    created_by_key   UUID,
    disabled_reason  TEXT,
    mode             TEXT NOT NULL DEFAULT 'live' CHECK (mode IN ('live', 'shadow')),
    PRIMARY KEY (tenant_id, rule_id)
) STRICT;
INSERT INTO checked_rules
SELECT tenant_id, rule_id, condition_id, name, condition, action_type, action_config, enabled, cooldown_seconds, created_at,
       updated_at, created_by, created_by_user, created_by_key, disabled_reason, mode
FROM rules;
DROP TABLE rules;
ALTER TABLE checked_rules RENAME TO rules;
POSTGRES_ONLY ALTER INDEX checked_rules_pkey RENAME TO rules_pkey;
