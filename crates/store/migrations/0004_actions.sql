-- What follows from answers: rules, webhooks, and messages on their way out.

CREATE TABLE rules (
    tenant_id        UUID NOT NULL,
    rule_id          UUID NOT NULL,
    -- Names the condition: another text is another condition, and where it stood with objects starts afresh.
    condition_id     UUID NOT NULL,
    name             TEXT NOT NULL,
    condition        TEXT NOT NULL,
    action_type      TEXT NOT NULL CHECK (action_type IN ('email', 'slack', 'webhook')),
    -- Sealed: a chat webhook's address is a credential.
    action_config    BYTES NOT NULL,
    enabled          BOOLEAN NOT NULL,
    cooldown_seconds BIGINT NOT NULL,
    created_at       TIMESTAMP NOT NULL,
    updated_at       TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, rule_id)
) STRICT;

-- Where each rule's condition stands with each object, so that a rule fires on a change and not on every analysis.
CREATE TABLE rule_states (
    tenant_id    UUID NOT NULL,
    object_id    TEXT NOT NULL,
    condition_id UUID NOT NULL,
    matched      BOOLEAN NOT NULL,
    fired_at     TIMESTAMP,
    PRIMARY KEY (tenant_id, object_id, condition_id)
) CLUSTERED;
CREATE INDEX rule_states_of_condition ON rule_states (tenant_id, condition_id, object_id);

-- Conditions that are no more; their states are swept in small steps.
CREATE TABLE retired_conditions (
    tenant_id    UUID NOT NULL,
    condition_id UUID NOT NULL,
    retired_at   TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, condition_id)
) CLUSTERED;

CREATE TABLE rule_firings (
    tenant_id     UUID NOT NULL,
    firing_id     UUID NOT NULL,
    rule_id       UUID NOT NULL,
    object_id     TEXT NOT NULL,
    matched_when  TEXT NOT NULL,
    signal_values TEXT NOT NULL,
    action_type   TEXT NOT NULL,
    status        TEXT NOT NULL CHECK (status IN ('dispatched', 'error')),
    detail        TEXT,
    fired_at      TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, firing_id)
) STRICT;
CREATE INDEX rule_firings_newest ON rule_firings (tenant_id, fired_at DESC, firing_id DESC);
CREATE INDEX rule_firings_of_rule ON rule_firings (tenant_id, rule_id, fired_at DESC, firing_id DESC);
CREATE INDEX rule_firings_of_object ON rule_firings (tenant_id, object_id, fired_at DESC, firing_id DESC);

CREATE TABLE rule_mail_tallies (
    tenant_id UUID NOT NULL,
    day       DATE NOT NULL,
    mails     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day)
) CLUSTERED;

CREATE TABLE webhook_endpoints (
    tenant_id            UUID NOT NULL,
    endpoint_id          UUID NOT NULL,
    url                  TEXT NOT NULL,
    description          TEXT NOT NULL,
    enabled              BOOLEAN NOT NULL,
    signal_keys          JSON NOT NULL,
    events               JSON NOT NULL,
    -- Sealed.
    secret               BYTES NOT NULL,
    -- The circuit: after enough failures in a row the endpoint rests until `resting_until`, each rest in a row twice as
    -- long as the one before.
    consecutive_failures BIGINT NOT NULL DEFAULT 0,
    rests                BIGINT NOT NULL DEFAULT 0,
    resting_until        TIMESTAMP,
    dead_mailed_at       TIMESTAMP,
    created_at           TIMESTAMP NOT NULL,
    updated_at           TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, endpoint_id)
) STRICT;
-- The worker takes endpoints in turn, of all tenants.
CREATE INDEX webhook_endpoints_of_all ON webhook_endpoints (endpoint_id);

-- Ids are made with the row and sort by time, so that "newest first" needs no column of its own in any index.
CREATE TABLE webhook_deliveries (
    tenant_id        UUID NOT NULL,
    delivery_id      UUID NOT NULL,
    endpoint_id      UUID NOT NULL,
    event_type       TEXT NOT NULL,
    object_id        TEXT,
    -- The bytes that are signed and sent, at every attempt and replay.
    payload          TEXT NOT NULL,
    status           TEXT NOT NULL CHECK (status IN ('pending', 'delivering', 'delivered', 'dead')),
    attempts         BIGINT NOT NULL DEFAULT 0,
    max_attempts     BIGINT NOT NULL,
    -- When it is tried next; of one that is dead, when it was given up.
    run_after        TIMESTAMP NOT NULL,
    lease_token      UUID,
    lease_until      TIMESTAMP,
    due_at           TIMESTAMP GENERATED ALWAYS AS (coalesce(lease_until, run_after)) STORED,
    last_status_code BIGINT,
    last_error       TEXT,
    last_response    TEXT,
    created_at       TIMESTAMP NOT NULL,
    delivered_at     TIMESTAMP,
    PRIMARY KEY (tenant_id, delivery_id)
) STRICT;
-- Claiming takes endpoints in turn, so that a slow receiver delays no other; only what is still to be sent is indexed.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, due_at)
    WHERE status IN ('pending', 'delivering');
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries (tenant_id, status, delivery_id);
CREATE INDEX webhook_deliveries_of_endpoint ON webhook_deliveries (tenant_id, endpoint_id, status, delivery_id);
CREATE INDEX webhook_deliveries_of_object ON webhook_deliveries (tenant_id, object_id);

-- Mails and chat messages still to be sent; a row goes when its message has gone, or for good.
CREATE TABLE outbox (
    tenant_id   UUID NOT NULL,
    message_id  UUID NOT NULL,
    channel     TEXT NOT NULL CHECK (channel IN ('mail', 'slack')),
    -- Sealed: a password reset mail is a credential until it is used.
    message     BYTES NOT NULL,
    object_id   TEXT,
    firing_id   UUID,
    attempts    BIGINT NOT NULL DEFAULT 0,
    run_after   TIMESTAMP NOT NULL,
    lease_token UUID,
    lease_until TIMESTAMP,
    due_at      TIMESTAMP GENERATED ALWAYS AS (coalesce(lease_until, run_after)) STORED,
    created_at  TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, message_id)
) STRICT;
CREATE INDEX outbox_due ON outbox (channel, due_at);
-- Tenants take turns, so that one whose messages pile up delays no other.
CREATE INDEX outbox_of_tenant ON outbox (channel, tenant_id, due_at);
CREATE INDEX outbox_of_object ON outbox (tenant_id, object_id);
