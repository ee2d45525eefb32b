-- Accounts: tenants, the people who sign in, and the credentials that name a tenant.
--
-- `users`, `sessions`, `password_resets`, `identities` and `api_keys` are directory tables: they are asked before
-- the tenant is known, so their keys are not the tenant's. The catalogue test names every such table.

CREATE TABLE tenants (
    tenant_id             UUID NOT NULL PRIMARY KEY,
    name                  TEXT NOT NULL,
    auto_backfill_signals BOOLEAN NOT NULL DEFAULT FALSE,
    event_retention       TEXT NOT NULL DEFAULT 'forever'
                          CHECK (event_retention IN ('forever', 'days', 'after_analysis')),
    event_retention_days  BIGINT CHECK ((event_retention = 'days') = (event_retention_days IS NOT NULL)),
    created_at            TIMESTAMP NOT NULL
) STRICT;

CREATE TABLE users (
    user_id           UUID NOT NULL PRIMARY KEY,
    tenant_id         UUID NOT NULL REFERENCES tenants (tenant_id),
    email             TEXT NOT NULL,
    -- The address in lower case: emails compare without case.
    email_key         TEXT NOT NULL UNIQUE,
    email_verified_at TIMESTAMP,
    password_hash     TEXT,
    role              TEXT NOT NULL,
    onboarded         BOOLEAN NOT NULL DEFAULT FALSE,
    -- Sealed. Set by two-factor setup; it counts only once `totp_enabled_at` is set.
    totp_secret       BYTES,
    totp_enabled_at   TIMESTAMP,
    -- The newest TOTP step that signed in: a step is accepted once.
    totp_last_step    BIGINT NOT NULL DEFAULT 0,
    created_at        TIMESTAMP NOT NULL
) STRICT;
CREATE INDEX users_of_tenant ON users (tenant_id, created_at);

CREATE TABLE recovery_codes (
    tenant_id UUID NOT NULL,
    user_id   UUID NOT NULL REFERENCES users (user_id),
    code_hash BYTES NOT NULL,
    PRIMARY KEY (tenant_id, user_id, code_hash)
) CLUSTERED;

CREATE TABLE sessions (
    token_hash BYTES NOT NULL PRIMARY KEY,
    tenant_id  UUID NOT NULL REFERENCES tenants (tenant_id),
    kind       TEXT NOT NULL CHECK (kind IN ('console', 'tenant')),
    -- Whose session it is: a person's, or (a tenant token) the legacy key's that was exchanged for it.
    user_id    UUID REFERENCES users (user_id),
    key_id     UUID,
    created_at TIMESTAMP NOT NULL,
    expires_at TIMESTAMP NOT NULL,
    CHECK ((kind = 'console') = (user_id IS NOT NULL)),
    CHECK ((kind = 'tenant') = (key_id IS NOT NULL))
) STRICT;
CREATE INDEX sessions_of_user ON sessions (user_id);
CREATE INDEX sessions_of_key ON sessions (key_id);
CREATE INDEX sessions_expired ON sessions (expires_at);

CREATE TABLE password_resets (
    token_hash BYTES NOT NULL PRIMARY KEY,
    tenant_id  UUID NOT NULL,
    user_id    UUID NOT NULL REFERENCES users (user_id),
    expires_at TIMESTAMP NOT NULL
) STRICT;
CREATE INDEX password_resets_of_user ON password_resets (user_id);
CREATE INDEX password_resets_expired ON password_resets (expires_at);

CREATE TABLE identities (
    provider   TEXT NOT NULL,
    subject    TEXT NOT NULL,
    tenant_id  UUID NOT NULL,
    user_id    UUID NOT NULL REFERENCES users (user_id),
    email      TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    PRIMARY KEY (provider, subject),
    UNIQUE (user_id, provider)
) STRICT;

CREATE TABLE notification_optouts (
    tenant_id UUID NOT NULL,
    user_id   UUID NOT NULL REFERENCES users (user_id),
    event     TEXT NOT NULL,
    PRIMARY KEY (tenant_id, user_id, event)
) CLUSTERED;

CREATE TABLE api_keys (
    key_id         UUID NOT NULL PRIMARY KEY,
    -- What requests name the key by. Kept after revocation, so that it is never issued again.
    public_id      TEXT NOT NULL UNIQUE,
    tenant_id      UUID NOT NULL REFERENCES tenants (tenant_id),
    name           TEXT NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('active', 'inactive', 'revoked')),
    -- Sealed. A legacy key has none until it is rotated.
    secret         BYTES,
    legacy_hash    BYTES UNIQUE,
    legacy_preview TEXT,
    created_at     TIMESTAMP NOT NULL,
    last_used_at   TIMESTAMP,
    legacy_used_at TIMESTAMP
) STRICT;
CREATE INDEX api_keys_of_tenant ON api_keys (tenant_id, created_at);
