-- Edits of an endpoint are ordered by a counter, since the clocks of processes differ.
ALTER TABLE webhook_endpoints ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
-- How long the endpoint was disabled before, and since when it is disabled now: its deliveries do not age meanwhile.
ALTER TABLE webhook_endpoints ADD COLUMN disabled_us BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_endpoints ADD COLUMN disabled_at TIMESTAMP;
UPDATE webhook_endpoints SET disabled_at = updated_at WHERE NOT enabled;
-- When the delivery was queued, on a clock that stands still while its endpoint is disabled.
ALTER TABLE webhook_queue ADD COLUMN active_since TIMESTAMP;
UPDATE webhook_queue SET active_since = (
    SELECT created_at FROM webhook_deliveries AS sent
    WHERE sent.tenant_id = webhook_queue.tenant_id AND sent.delivery_id = webhook_queue.delivery_id);

-- Claims since an attempt last ended: what ends its process is found by this. Attempts count those that have ended.
ALTER TABLE jobs ADD COLUMN begun BIGINT NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN begun BIGINT NOT NULL DEFAULT 0;
