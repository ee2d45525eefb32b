-- PostgreSQL uses an index that has a condition only for statements that state the condition, whatever it believes of the
-- tables. So every index that could be mistaken for another has one, which holds for all rows that it is for
-- (docs/adr/0010-plans-by-index.md). SQLite keeps its indexes, which it does not confuse.

POSTGRES_ONLY DROP INDEX answers_by_value;
POSTGRES_ONLY DROP INDEX answers_by_choice;
POSTGRES_ONLY CREATE INDEX answers_by_value ON answers (tenant_id, signal_id, value) WHERE value IS NOT NULL;
POSTGRES_ONLY CREATE INDEX answers_by_choice ON answers (tenant_id, signal_id, choice) WHERE choice IS NOT NULL;

-- No count is negative.
POSTGRES_ONLY DROP INDEX jobs_due_by_tenant;
POSTGRES_ONLY DROP INDEX jobs_due;
POSTGRES_ONLY CREATE INDEX jobs_due_by_tenant ON jobs (priority, tenant_id, due_at) WHERE attempts <> -1;
POSTGRES_ONLY CREATE INDEX jobs_due ON jobs (due_at, priority) WHERE attempts <> -2;

POSTGRES_ONLY DROP INDEX objects_recent;
POSTGRES_ONLY DROP INDEX objects_flagged;
POSTGRES_ONLY DROP INDEX objects_trust;
POSTGRES_ONLY CREATE INDEX objects_recent ON objects (tenant_id, last_seen DESC, object_id) WHERE event_count <> -1;
POSTGRES_ONLY CREATE INDEX objects_flagged ON objects (tenant_id, risk DESC, last_seen DESC, object_id) WHERE event_count <> -2;
POSTGRES_ONLY CREATE INDEX objects_trust ON objects (tenant_id, trust DESC, last_seen DESC, object_id) WHERE event_count <> -3;

POSTGRES_ONLY DROP INDEX events_listed;
POSTGRES_ONLY DROP INDEX events_retained;
POSTGRES_ONLY CREATE INDEX events_listed ON events (tenant_id, object_id, occurred_at DESC, seq DESC) WHERE type <> 'listed';
POSTGRES_ONLY CREATE INDEX events_retained ON events (tenant_id, received_at) WHERE type <> 'retained';

-- Every event changes a total, and no index is to hear of that: the condition needs a column of its own.
ALTER TABLE event_counters ADD COLUMN by_age BOOLEAN NOT NULL DEFAULT TRUE;
POSTGRES_ONLY DROP INDEX event_counters_by_age;
POSTGRES_ONLY CREATE INDEX event_counters_by_age ON event_counters (tenant_id, hour) WHERE by_age;

POSTGRES_ONLY DROP INDEX answer_history_by_age;
POSTGRES_ONLY CREATE INDEX answer_history_by_age ON answer_history (tenant_id, analysis_id, object_id) WHERE read_seq <> -1;

POSTGRES_ONLY DROP INDEX rule_states_of_condition;
POSTGRES_ONLY CREATE INDEX rule_states_of_condition ON rule_states (tenant_id, condition_id, object_id) WHERE matched IN (TRUE, FALSE);

POSTGRES_ONLY DROP INDEX rule_firings_newest;
POSTGRES_ONLY DROP INDEX rule_firings_of_rule;
POSTGRES_ONLY DROP INDEX rule_firings_of_object;
POSTGRES_ONLY CREATE INDEX rule_firings_newest ON rule_firings (tenant_id, fired_at DESC, firing_id DESC) WHERE action_type <> 'newest';
POSTGRES_ONLY CREATE INDEX rule_firings_of_rule ON rule_firings (tenant_id, rule_id, fired_at DESC, firing_id DESC) WHERE action_type <> 'of a rule';
POSTGRES_ONLY CREATE INDEX rule_firings_of_object ON rule_firings (tenant_id, object_id, fired_at DESC, firing_id DESC) WHERE action_type <> 'of an object';

POSTGRES_ONLY DROP INDEX webhook_queue_due;
POSTGRES_ONLY CREATE INDEX webhook_queue_due ON webhook_queue (endpoint_id, due_at) WHERE attempts <> -1;
POSTGRES_ONLY ALTER TABLE webhook_queue ALTER COLUMN endpoint_id RESET (n_distinct);

POSTGRES_ONLY DROP INDEX webhook_deliveries_of_object;
POSTGRES_ONLY CREATE INDEX webhook_deliveries_of_object ON webhook_deliveries (tenant_id, object_id, created_at DESC, delivery_id DESC) WHERE object_id IS NOT NULL;

POSTGRES_ONLY DROP INDEX outbox_due;
POSTGRES_ONLY DROP INDEX outbox_of_tenant;
POSTGRES_ONLY DROP INDEX outbox_of_lane;
POSTGRES_ONLY DROP INDEX outbox_of_object;
POSTGRES_ONLY CREATE INDEX outbox_due ON outbox (channel, due_at) WHERE attempts <> -1;
POSTGRES_ONLY CREATE INDEX outbox_of_tenant ON outbox (channel, tenant_id, due_at) WHERE attempts <> -2;
POSTGRES_ONLY CREATE INDEX outbox_of_lane ON outbox (channel, tenant_id, lane, due_at) WHERE attempts <> -3;
POSTGRES_ONLY CREATE INDEX outbox_of_object ON outbox (tenant_id, object_id) WHERE object_id IS NOT NULL;
