-- Every account has a chain from its first day, so that one that is removed is noticed. The chains of accounts that have no line
-- yet begin with 32 bytes that are the same on both databases.
INSERT INTO audit_chains (tenant_id, swept_seq, swept_hash, seq, hash)
SELECT tenant_id, 0, CAST('00000000000000000000000000000000' AS BYTES), 0, CAST('00000000000000000000000000000000' AS BYTES)
FROM tenants
WHERE NOT EXISTS (SELECT 1 FROM audit_chains WHERE audit_chains.tenant_id = tenants.tenant_id);

-- A sign-in with the right password whose second factor has not followed: since when, from where, and in which request. It becomes a
-- line of the audit log if none follows.
ALTER TABLE users ADD COLUMN unfinished_at TIMESTAMP;
ALTER TABLE users ADD COLUMN unfinished_address TEXT;
ALTER TABLE users ADD COLUMN unfinished_request_id TEXT;
CREATE INDEX users_unfinished ON users (unfinished_at) WHERE unfinished_at IS NOT NULL;
