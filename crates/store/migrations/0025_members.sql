-- Members with roles, invitations, and what API keys may do.

-- Until now every member could do everything: nobody loses a right.
UPDATE users SET role = 'owner';

-- Links that make somebody a member. Only the hash of the token is stored.
CREATE TABLE invitations (
    token_hash    BYTES NOT NULL PRIMARY KEY,
    invitation_id UUID NOT NULL,
    tenant_id     UUID NOT NULL,
    email         TEXT NOT NULL,
    -- The address in lower case: an address has one open invitation to an account.
    email_key     TEXT NOT NULL,
    role          TEXT NOT NULL,
    created_at    TIMESTAMP NOT NULL,
    expires_at    TIMESTAMP NOT NULL
) STRICT;
CREATE UNIQUE INDEX invitations_of_tenant ON invitations (tenant_id, email_key);
CREATE INDEX invitations_expired ON invitations (expires_at);

ALTER TABLE api_keys ADD COLUMN kind TEXT NOT NULL DEFAULT 'signed' CHECK (kind IN ('signed', 'bearer'));
-- The scopes that the key has, separated by spaces; none: all that signed keys can have.
ALTER TABLE api_keys ADD COLUMN scopes TEXT;
-- The hash of a bearer key.
ALTER TABLE api_keys ADD COLUMN bearer_hash BYTES;
CREATE UNIQUE INDEX api_keys_by_bearer ON api_keys (bearer_hash);
