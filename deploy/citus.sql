-- Divides a migrated database among the nodes of a Citus cluster, by tenant (docs/scale.md, "A distributed PostgreSQL").
--
--     auspex migrate
--     psql -v ON_ERROR_STOP=1 -f deploy/citus.sql "$AUSPEX_DATABASE_URL"
--
-- Run it on the coordinator while no process of Auspex runs, on a database that has the extension and knows its workers; run it again
-- after every migration. What is divided already stays as it is, so it may be run at any time. It creates no table: a name that is
-- not there fails. A test keeps it complete.

-- How many shards: fixed by the first run. A shard is the least that can move to another worker. Eight for every worker that the
-- cluster may ever have is plenty.
-- SET citus.shard_count = 32;

DO $$
DECLARE
    name text;
BEGIN
    -- On every node, whole: what is asked before the tenant is known, and what it refers to. Each change of a row is made on all nodes
    -- in one transaction. In this order, because references lead upwards.
    FOREACH name IN ARRAY ARRAY[
        'tenants',
        'users',
        'api_keys',
        'checkouts',
        'email_verifications',
        'identities',
        'invitations',
        'passkeys',
        'password_resets',
        'sessions'
    ] LOOP
        IF NOT EXISTS (SELECT FROM pg_dist_partition
                       WHERE logicalrelid = name::regclass AND partmethod = 'n' AND repmodel = 't') THEN
            PERFORM create_reference_table(name::regclass);
        END IF;
    END LOOP;

    -- In shards: what belongs to a tenant. All rows of a tenant, of all these tables, are on one worker.
    FOREACH name IN ARRAY ARRAY[
        'objects',
        'answer_history',
        'answers',
        'audit_chains',
        'audit_log',
        'balances',
        'bulk_runs',
        'calibrations',
        'escalation_days',
        'escalation_signal_days',
        'event_counters',
        'event_tallies',
        'events',
        'firing_days',
        'hourly_event_tallies',
        'idempotency_keys',
        'ingest_budgets',
        'jobs',
        'key_refusals',
        'known_networks',
        'labels',
        'ledger_batches',
        'ledger_entries',
        'ledger_sums',
        'mail_recipients',
        'notification_optouts',
        'object_days',
        'object_grams',
        'object_tallies',
        'outbox',
        'rate_budgets',
        'recovery_codes',
        'retired_conditions',
        'reviews',
        'rule_firings',
        'rule_mail_tallies',
        'rule_replay_examples',
        'rule_replays',
        'rule_states',
        'rules',
        'signal_tallies',
        'signal_versions',
        'signals',
        'storage_tallies',
        'summaries',
        'sync_leases',
        'trial_objects',
        'trials',
        'usage_days',
        'usage_signal_days',
        'webhook_deliveries',
        'webhook_endpoints',
        'webhook_outcomes',
        'webhook_queue'
    ] LOOP
        IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = name::regclass AND partmethod = 'h') THEN
            PERFORM create_distributed_table(name::regclass, 'tenant_id',
                colocate_with => CASE name WHEN 'objects' THEN 'none' ELSE 'objects' END);
        END IF;
    END LOOP;

    -- On the coordinator alone: what belongs to the deployment, and is never read together with anything else. They stay ordinary
    -- tables:
    --   'deployment', 'migrations', 'nodes', 'passkey_challenges', 'throttles'

    -- The workers plan as the service's own sessions do (docs/adr/0010-plans-by-index.md), and give up what waits for a lock as they do
    -- (docs/adr/0017-limits-on-database-work.md): what a session sets on the coordinator does not reach them. This does.
    EXECUTE format('ALTER DATABASE %I SET enable_seqscan = off', current_database());
    EXECUTE format('ALTER DATABASE %I SET jit = off', current_database());
    EXECUTE format('ALTER DATABASE %I SET lock_timeout = %L', current_database(), '2s');
END $$;
