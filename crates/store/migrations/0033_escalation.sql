-- A second analyzer for answers of which the first is unsure.

-- JSON: which answers are unsure; none without.
ALTER TABLE signals ADD COLUMN escalation TEXT;
-- Whether the second analyzer answered, where the first was unsure.
ALTER TABLE answers ADD COLUMN escalated BOOLEAN;
-- JSON: what the first analyzer said, where the second one answered.
ALTER TABLE answers ADD COLUMN first TEXT;
-- How many of the analyses are the second stage of another one: each has a line of its own in the ledger.
ALTER TABLE usage_days ADD COLUMN second_stages BIGINT NOT NULL DEFAULT 0;

-- What a tenant has escalated on a day. Whoever adds to it locks the row, so that caps hold over all nodes.
CREATE TABLE escalation_days (
    tenant_id UUID NOT NULL,
    day       DATE NOT NULL,
    answers   BIGINT NOT NULL,
    micros    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day)
) STRICT;

-- The same by question.
CREATE TABLE escalation_signal_days (
    tenant_id UUID NOT NULL,
    day       DATE NOT NULL,
    signal_id UUID NOT NULL,
    answers   BIGINT NOT NULL,
    micros    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day, signal_id)
) STRICT;
