-- Money, in integer micro-dollars. The ledger is append-only and its sum is the balance.

CREATE TABLE balances (
    tenant_id       UUID NOT NULL PRIMARY KEY,
    balance_micros  BIGINT NOT NULL,
    -- The ledger's order: taken together with the balance, so both are locked by one row.
    ledger_seq      BIGINT NOT NULL,
    -- Set by the mail that warned of a low balance, cleared when the balance is back above: one mail a crossing.
    low_mailed      BOOLEAN NOT NULL DEFAULT FALSE
) STRICT;

CREATE TABLE ledger_entries (
    tenant_id            UUID NOT NULL,
    seq                  BIGINT NOT NULL,
    entry_id             UUID NOT NULL,
    kind                 TEXT NOT NULL CHECK (kind IN ('credit', 'charge')),
    reason               TEXT NOT NULL CHECK (reason IN ('signup_credit', 'topup', 'analysis', 'adjustment')),
    delta_micros         BIGINT NOT NULL,
    balance_after_micros BIGINT NOT NULL,
    model                TEXT,
    object_id            TEXT,
    -- As they were when the charge was made, in decimal text: binary fractions have no place beside money.
    cost_usd             TEXT,
    cost_margin          TEXT,
    input_tokens         BIGINT,
    output_tokens        BIGINT,
    batch_id             UUID,
    payment_ref          TEXT,
    -- What the operator said about an adjustment.
    note                 TEXT,
    created_at           TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, seq),
    UNIQUE (tenant_id, entry_id)
) STRICT;
CREATE INDEX ledger_entries_by_kind ON ledger_entries (tenant_id, kind, seq DESC);
CREATE INDEX ledger_entries_of_batch ON ledger_entries (tenant_id, batch_id, seq DESC);
CREATE INDEX ledger_entries_single ON ledger_entries (tenant_id, kind, seq DESC) WHERE batch_id IS NULL;

-- One line a bulk run, for the ledger grouped by batch; it stands where its newest entry stands.
CREATE TABLE ledger_batches (
    tenant_id     UUID NOT NULL,
    batch_id      UUID NOT NULL,
    last_seq      BIGINT NOT NULL,
    entries       BIGINT NOT NULL,
    delta_micros  BIGINT NOT NULL,
    input_tokens  BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    models        JSON NOT NULL,
    first_at      TIMESTAMP NOT NULL,
    PRIMARY KEY (tenant_id, batch_id),
    UNIQUE (tenant_id, last_seq)
) STRICT;

-- A directory table: the payment provider's webhook names the checkout, not the tenant.
CREATE TABLE checkouts (
    checkout_id         UUID NOT NULL PRIMARY KEY,
    provider_session_id TEXT UNIQUE,
    tenant_id           UUID NOT NULL REFERENCES tenants (tenant_id),
    amount_cents        BIGINT NOT NULL,
    currency            TEXT NOT NULL,
    status              TEXT NOT NULL CHECK (status IN ('pending', 'credited')),
    ledger_seq          BIGINT,
    created_at          TIMESTAMP NOT NULL,
    -- When the provider was last asked how far it is: who polls us must not make us poll the provider.
    asked_at            TIMESTAMP,
    credited_at         TIMESTAMP
) STRICT;
CREATE INDEX checkouts_of_tenant ON checkouts (tenant_id, created_at);

CREATE TABLE usage_days (
    tenant_id     UUID NOT NULL,
    day           DATE NOT NULL,
    source        TEXT NOT NULL CHECK (source IN ('async', 'sync')),
    model         TEXT NOT NULL,
    shard         BIGINT NOT NULL,
    analyses      BIGINT NOT NULL,
    spend_micros  BIGINT NOT NULL,
    input_tokens  BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day, source, model, shard)
) CLUSTERED;

CREATE TABLE usage_signal_days (
    tenant_id  UUID NOT NULL,
    day        DATE NOT NULL,
    signal_key TEXT NOT NULL,
    shard      BIGINT NOT NULL,
    analyses   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day, signal_key, shard)
) CLUSTERED;
