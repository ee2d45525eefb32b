-- Passkeys: credentials of authenticators that members sign in with.

CREATE TABLE passkeys (
    -- What the authenticator calls it, in base64url.
    credential_id TEXT NOT NULL PRIMARY KEY,
    passkey_id    UUID NOT NULL,
    tenant_id     UUID NOT NULL,
    user_id       UUID NOT NULL REFERENCES users (user_id),
    -- What the authenticator calls its owner: random, and the same for all passkeys of a member.
    user_handle   UUID NOT NULL,
    -- The public key and the count of signatures, as the verifier wrote them in JSON.
    credential    TEXT NOT NULL,
    name          TEXT NOT NULL,
    created_at    TIMESTAMP NOT NULL,
    last_used_at  TIMESTAMP
) STRICT;
CREATE INDEX passkeys_of_user ON passkeys (tenant_id, user_id, created_at, passkey_id);

-- What authenticators are asked to sign. Each is answered once, by the hash of its challenge.
CREATE TABLE passkey_challenges (
    challenge_hash BYTES NOT NULL PRIMARY KEY,
    -- Who adds a passkey with it, and under which handle; none where somebody signs in.
    user_id        UUID,
    user_handle    UUID,
    -- What the verifier wants back with the answer, in JSON.
    state          TEXT NOT NULL,
    expires_at     TIMESTAMP NOT NULL
) STRICT;
CREATE INDEX passkey_challenges_expired ON passkey_challenges (expires_at);
CREATE INDEX passkey_challenges_of_user ON passkey_challenges (user_id);
