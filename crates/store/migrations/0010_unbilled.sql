-- How many of the analyses have no line in the ledger, because nothing was billed. Not known of days before this was counted.
ALTER TABLE usage_days ADD COLUMN unbilled BIGINT;
