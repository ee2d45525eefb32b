-- Where people are signed in, how recently they proved who they are, who made what, and links that prove an address.

-- Not known of sessions from before these columns: such a session counts as seen and proved when it was opened.
ALTER TABLE sessions ADD COLUMN last_seen_at TIMESTAMP;
-- When it last showed a password, a code or a provider.
ALTER TABLE sessions ADD COLUMN proved_at TIMESTAMP;
ALTER TABLE sessions ADD COLUMN address TEXT;
ALTER TABLE sessions ADD COLUMN agent TEXT;

-- The networks that a person has signed in from; a sign-in from another one is mailed to them.
CREATE TABLE known_networks (
    tenant_id UUID NOT NULL,
    user_id   UUID NOT NULL REFERENCES users (user_id),
    network   TEXT NOT NULL,
    seen_at   TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, user_id, network)
) CLUSTERED;
CREATE INDEX known_networks_seen ON known_networks (seen_at);

-- Links mailed at registration, which prove the address.
CREATE TABLE email_verifications (
    token_hash BYTES NOT NULL PRIMARY KEY,
    tenant_id  UUID NOT NULL,
    user_id    UUID NOT NULL REFERENCES users (user_id),
    expires_at TIMESTAMP NOT NULL
) STRICT;
CREATE INDEX email_verifications_of_user ON email_verifications (user_id);
CREATE INDEX email_verifications_expired ON email_verifications (expires_at);

-- Who made a row: a person in the console, somebody with an API key, or the operator; not known of rows from before these
-- columns. `created_by_user` is the person behind it, also behind a key, and behind a key that was made with a key.
ALTER TABLE api_keys ADD COLUMN created_by TEXT CHECK (created_by IN ('user', 'key', 'operator'));
ALTER TABLE api_keys ADD COLUMN created_by_user UUID;
ALTER TABLE api_keys ADD COLUMN created_by_key UUID;
ALTER TABLE webhook_endpoints ADD COLUMN created_by TEXT CHECK (created_by IN ('user', 'key', 'operator'));
ALTER TABLE webhook_endpoints ADD COLUMN created_by_user UUID;
ALTER TABLE webhook_endpoints ADD COLUMN created_by_key UUID;
ALTER TABLE rules ADD COLUMN created_by TEXT CHECK (created_by IN ('user', 'key', 'operator'));
ALTER TABLE rules ADD COLUMN created_by_user UUID;
ALTER TABLE rules ADD COLUMN created_by_key UUID;

-- Why the service disabled it; none where a person did.
ALTER TABLE webhook_endpoints ADD COLUMN disabled_reason TEXT;
ALTER TABLE rules ADD COLUMN disabled_reason TEXT;
