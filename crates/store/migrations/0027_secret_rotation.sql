-- The secret that an endpoint had before, while receivers may still go by it.

-- Sealed.
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret BYTES;
-- Until then, deliveries carry signatures with both.
ALTER TABLE webhook_endpoints ADD COLUMN previous_until TIMESTAMP;
