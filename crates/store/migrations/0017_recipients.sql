-- Endpoint addresses are sealed, since they may carry tokens.

-- Sealed. The service seals the plain `url` of older rows when it starts, and leaves it empty from then on.
ALTER TABLE webhook_endpoints ADD COLUMN sealed_url BYTES;

-- At most 4 characters of a legacy key are shown.
UPDATE api_keys SET legacy_preview = substr(legacy_preview, 1, 4) || '…' WHERE legacy_preview IS NOT NULL;
