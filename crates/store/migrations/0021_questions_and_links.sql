-- Counts the recipients whom an account has asked for consent within a day.
CREATE INDEX mail_recipients_asked ON mail_recipients (tenant_id, asked_at);

-- For an address without an account, a link is stored that nobody learns, so that the work is the same. It belongs to nobody:
-- a reference would lock the user that it names for everybody who asks. SQLite cannot drop a reference, so the table is copied.
CREATE TABLE unbound_resets (
    token_hash BYTES NOT NULL PRIMARY KEY,
    tenant_id  UUID NOT NULL,
    user_id    UUID NOT NULL,
    expires_at TIMESTAMP NOT NULL
) STRICT;
INSERT INTO unbound_resets SELECT token_hash, tenant_id, user_id, expires_at FROM password_resets;
DROP TABLE password_resets;
ALTER TABLE unbound_resets RENAME TO password_resets;
POSTGRES_ONLY ALTER INDEX unbound_resets_pkey RENAME TO password_resets_pkey;
CREATE INDEX password_resets_of_user ON password_resets (user_id);
CREATE INDEX password_resets_expired ON password_resets (expires_at);
