-- Accounts that the operator has suspended or is deleting, and what is left of one that was deleted.

-- While set, nobody gets in and its jobs and deliveries wait.
ALTER TABLE tenants ADD COLUMN suspended_at TIMESTAMP;
-- Set when its deletion has begun: from then on only the deletion goes on.
ALTER TABLE tenants ADD COLUMN deleting_at TIMESTAMP;
CREATE INDEX tenants_suspended ON tenants (tenant_id) WHERE suspended_at IS NOT NULL;

-- The sums of a deleted account's ledger, for the operator's own books: no names, no objects, no days.
CREATE TABLE ledger_sums (
    tenant_id      UUID NOT NULL PRIMARY KEY,
    entries        BIGINT NOT NULL,
    credit_micros  BIGINT NOT NULL,
    charge_micros  BIGINT NOT NULL,
    -- The balance at the end; null while the deletion goes on.
    balance_micros BIGINT,
    deleted_at     TIMESTAMP
) STRICT;
