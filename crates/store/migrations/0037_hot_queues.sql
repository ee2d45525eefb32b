-- More rows that come and go, as in 0009: after a backlog nobody should walk through what is gone to find the next row.
POSTGRES_ONLY ALTER TABLE webhook_queue SET (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.02);
POSTGRES_ONLY ALTER TABLE outbox SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.02);
POSTGRES_ONLY ALTER TABLE idempotency_keys SET (autovacuum_vacuum_scale_factor = 0.05);
-- And rows that change all the time.
POSTGRES_ONLY ALTER TABLE rate_budgets SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
POSTGRES_ONLY ALTER TABLE ingest_budgets SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
POSTGRES_ONLY ALTER TABLE nodes SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
