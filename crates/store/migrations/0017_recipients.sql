-- Endpoint addresses are sealed, since they may carry tokens, and rules mail strangers only with their consent.

-- Sealed. The service seals the plain `url` of older rows when it starts, and leaves it empty from then on.
ALTER TABLE webhook_endpoints ADD COLUMN sealed_url BYTES;

-- At most 4 characters of a legacy key are shown.
UPDATE api_keys SET legacy_preview = substr(legacy_preview, 1, 4) || '…' WHERE legacy_preview IS NOT NULL;

-- The recipients of rule mails, for each account. The id is derived from the address, which is not stored here.
CREATE TABLE mail_recipients (
    tenant_id    UUID NOT NULL,
    recipient_id UUID NOT NULL,
    -- Sealed. The links in mails are derived from it.
    secret       BYTES NOT NULL,
    -- When a confirmation was last mailed.
    asked_at     TIMESTAMP,
    confirmed_at TIMESTAMP,
    withdrawn_at TIMESTAMP,
    created_at   TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, recipient_id)
) CLUSTERED;

-- A firing may also wait for its recipient's consent. SQLite cannot change a check, so the table is copied.
CREATE TABLE checked_firings (
    tenant_id     UUID NOT NULL,
    firing_id     UUID NOT NULL,
    rule_id       UUID NOT NULL,
    object_id     TEXT NOT NULL,
    matched_when  TEXT NOT NULL,
    signal_values TEXT NOT NULL,
    action_type   TEXT NOT NULL,
    status        TEXT NOT NULL CHECK (status IN ('dispatched', 'error', 'unconfirmed')),
    detail        TEXT,
    fired_at      TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, firing_id)
) STRICT;
INSERT INTO checked_firings
SELECT tenant_id, firing_id, rule_id, object_id, matched_when, signal_values, action_type, status, detail, fired_at
FROM rule_firings;
DROP TABLE rule_firings;
ALTER TABLE checked_firings RENAME TO rule_firings;
POSTGRES_ONLY ALTER INDEX checked_firings_pkey RENAME TO rule_firings_pkey;
CREATE INDEX rule_firings_newest ON rule_firings (tenant_id, fired_at DESC, firing_id DESC);
CREATE INDEX rule_firings_of_rule ON rule_firings (tenant_id, rule_id, fired_at DESC, firing_id DESC);
CREATE INDEX rule_firings_of_object ON rule_firings (tenant_id, object_id, fired_at DESC, firing_id DESC);
