-- Few rows, which come and go with every verdict: what has run out is found by reading them all, and a tenant's are found by
-- their key.
DROP INDEX sync_leases_expired;
