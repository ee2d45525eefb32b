-- Endpoint addresses are sealed, since they may carry tokens.

-- Sealed. The service seals the plain `url` of older rows when it starts, and leaves it empty from then on.
ALTER TABLE webhook_endpoints ADD COLUMN sealed_url BYTES;
