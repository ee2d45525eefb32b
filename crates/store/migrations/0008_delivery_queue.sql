-- A delivery in three parts, so that sending it rewrites little: what is sent, written once; its place in the queue, narrow,
-- and gone when it has ended; how it ended, written once. One of the last two is there, never both.

CREATE TABLE webhook_queue (
    tenant_id        UUID NOT NULL,
    endpoint_id      UUID NOT NULL,
    status           TEXT NOT NULL CHECK (status IN ('pending', 'delivering')),
    delivery_id      UUID NOT NULL,
    -- What it will take in memory, known before it is read.
    payload_bytes    BIGINT NOT NULL,
    attempts         BIGINT NOT NULL DEFAULT 0,
    -- How often it was taken in hand since an attempt last ended: one that ends its senders must end itself.
    begun            BIGINT NOT NULL DEFAULT 0,
    run_after        TIMESTAMP NOT NULL,
    lease_token      UUID,
    lease_until      TIMESTAMP,
    due_at           TIMESTAMP GENERATED ALWAYS AS (coalesce(lease_until, run_after)) STORED,
    last_status_code BIGINT,
    last_error       TEXT,
    last_response    TEXT,
    -- The one index besides the next: lists are by endpoint and status, newest first, and ids sort by time.
    PRIMARY KEY (tenant_id, endpoint_id, status, delivery_id)
) CLUSTERED;

CREATE TABLE webhook_outcomes (
    tenant_id        UUID NOT NULL,
    endpoint_id      UUID NOT NULL,
    status           TEXT NOT NULL CHECK (status IN ('delivered', 'dead')),
    delivery_id      UUID NOT NULL,
    attempts         BIGINT NOT NULL,
    ended_at         TIMESTAMP NOT NULL,
    last_status_code BIGINT,
    last_error       TEXT,
    last_response    TEXT,
    PRIMARY KEY (tenant_id, endpoint_id, status, delivery_id)
) CLUSTERED;

INSERT INTO webhook_queue (tenant_id, endpoint_id, status, delivery_id, payload_bytes, attempts, run_after, lease_token,
                           lease_until, last_status_code, last_error, last_response)
SELECT tenant_id, endpoint_id, status, delivery_id, octet_length(payload), attempts, run_after, lease_token, lease_until,
       last_status_code, last_error, last_response
FROM webhook_deliveries WHERE status IN ('pending', 'delivering');

INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at, last_status_code, last_error,
                              last_response)
SELECT tenant_id, endpoint_id, status, delivery_id, attempts, coalesce(delivered_at, run_after), last_status_code,
       last_error, last_response
FROM webhook_deliveries WHERE status IN ('delivered', 'dead');

-- Endpoints in turn, of all tenants, and of each what has been due for longest; a lease that has ended is due.
CREATE INDEX webhook_queue_due ON webhook_queue (endpoint_id, due_at);
-- Whatever the queue looked like when it was last analyzed, an endpoint alone is no way to a single delivery.
POSTGRES_ONLY ALTER TABLE webhook_queue ALTER COLUMN endpoint_id SET (n_distinct = 1);

CREATE TABLE sent_deliveries (
    tenant_id    UUID NOT NULL,
    delivery_id  UUID NOT NULL,
    endpoint_id  UUID NOT NULL,
    event_type   TEXT NOT NULL,
    object_id    TEXT,
    -- The bytes that are signed and sent, at every attempt and replay.
    payload      TEXT NOT NULL,
    max_attempts BIGINT NOT NULL,
    created_at   TIMESTAMP NOT NULL,
    -- The trace that it belongs to; null without a collector of traces.
    traceparent  TEXT,
    PRIMARY KEY (tenant_id, delivery_id)
) STRICT;
INSERT INTO sent_deliveries
SELECT tenant_id, delivery_id, endpoint_id, event_type, object_id, payload, max_attempts, created_at, traceparent
FROM webhook_deliveries;
DROP TABLE webhook_deliveries;
ALTER TABLE sent_deliveries RENAME TO webhook_deliveries;
POSTGRES_ONLY ALTER INDEX sent_deliveries_pkey RENAME TO webhook_deliveries_pkey;
CREATE INDEX webhook_deliveries_of_object ON webhook_deliveries (tenant_id, object_id);

-- Chat messages to one address wait for each other only; the empty lane is everything else.
ALTER TABLE outbox ADD COLUMN lane TEXT NOT NULL DEFAULT '';
CREATE INDEX outbox_of_lane ON outbox (channel, tenant_id, lane, due_at);
ALTER TABLE rule_mail_tallies ADD COLUMN chats BIGINT NOT NULL DEFAULT 0;
