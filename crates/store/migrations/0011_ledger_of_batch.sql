-- Most lines belong to no batch, and have no place in the index of batches.
CREATE INDEX ledger_entries_batched ON ledger_entries (tenant_id, batch_id, seq DESC) WHERE batch_id IS NOT NULL;
DROP INDEX ledger_entries_of_batch;
