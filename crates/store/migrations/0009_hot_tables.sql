-- Rows that change all the time, on PostgreSQL: room in their pages, so that a change stays in its page and no index hears
-- of it; and cleaning as soon as there is something to clean, also in a table that has grown large.
POSTGRES_ONLY ALTER TABLE balances SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
POSTGRES_ONLY ALTER TABLE object_tallies SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
POSTGRES_ONLY ALTER TABLE signal_tallies SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
POSTGRES_ONLY ALTER TABLE event_tallies SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
POSTGRES_ONLY ALTER TABLE hourly_event_tallies SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
POSTGRES_ONLY ALTER TABLE usage_days SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
POSTGRES_ONLY ALTER TABLE usage_signal_days SET (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05);
-- Rows that come and go: what is gone must not be walked through by whoever looks for the next.
POSTGRES_ONLY ALTER TABLE sync_leases SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
POSTGRES_ONLY ALTER TABLE jobs SET (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0.02);
