-- A row in every table, as the release with schema 12 left them. Words in braces are written for each database by upgrade.rs:
-- {uuid N}, {at SECONDS} (after the start of 2026), {sealed TABLE.COLUMN ROW TEXT}, {sha TEXT}, {grams}, {receiver}, {key}.

INSERT INTO tenants (tenant_id, name, auto_backfill_signals, event_retention, event_retention_days, created_at)
VALUES ({uuid 1}, 'Old & Söhne', FALSE, 'days', 365, {at -90000});
INSERT INTO users (user_id, tenant_id, email, email_key, email_verified_at, password_hash, role, onboarded, totp_secret, totp_enabled_at, created_at)
VALUES ({uuid 2}, {uuid 1}, 'Ann@old.example', 'ann@old.example', {at -80000},
        '$argon2id$v=19$m=19456,t=2,p=1$BOJfseVdN4DdSoU8kr6A1w$FtIxzCowaUyNao+6dgfPWzGbvhvcAntltWgMqcpGHUM',
        'admin', TRUE, {sealed users.totp_secret 2 12345678901234567890}, NULL, {at -90000});
INSERT INTO recovery_codes (tenant_id, user_id, code_hash) VALUES ({uuid 1}, {uuid 2}, {sha abcdefghij});
INSERT INTO sessions (token_hash, tenant_id, kind, user_id, created_at, expires_at)
VALUES ({sha ct_old-session}, {uuid 1}, 'console', {uuid 2}, {at -60}, {at 80000});
INSERT INTO password_resets (token_hash, tenant_id, user_id, expires_at) VALUES ({sha old-reset}, {uuid 1}, {uuid 2}, {at 600});
INSERT INTO identities (provider, subject, tenant_id, user_id, email, created_at)
VALUES ('google', '1234', {uuid 1}, {uuid 2}, 'ann@old.example', {at -80000});
INSERT INTO notification_optouts (tenant_id, user_id, event) VALUES ({uuid 1}, {uuid 2}, 'low_balance');
INSERT INTO api_keys (key_id, public_id, tenant_id, name, status, secret, created_at)
VALUES ({uuid 3}, 'ak_old', {uuid 1}, 'old key', 'active', {sealed api_keys.secret 3 sk_old}, {at -80000});

INSERT INTO objects (tenant_id, object_id, object_type, counted_type, display_name, renamed, event_count, first_seen, last_seen, last_analyzed_at, risk, trust)
VALUES ({uuid 1}, 'old-1', 'user', 'user', 'Old Ann', FALSE, 2, {at -7200}, {at -3600}, {at -3500}, 0.25, -1);
INSERT INTO object_grams (tenant_id, object_id, grams) VALUES ({uuid 1}, 'old-1', {grams});
INSERT INTO events (tenant_id, object_id, seq, type, name, content, metadata, occurred_at, received_at)
VALUES ({uuid 1}, 'old-1', 1, 'event', 'signup', NULL, '{"plan": "free", "a": 1}', {at -7200}, {at -7200}),
       ({uuid 1}, 'old-1', 2, 'message', NULL, 'Grüße, what a price!', NULL, {at -3600}, {at -3600});
INSERT INTO summaries (tenant_id, object_id, through_seq, through_time, folded_events, samples, state)
VALUES ({uuid 1}, 'old-1', 1, {at -7200}, 1, 0,
        '{"total_events": 1, "messages": 0, "actions": 1, "by_action": {"signup": 1}, "sample_messages": [], "first_seen": "2025-12-31T22:00:00Z", "updated_at": "2025-12-31T22:00:00Z"}');
INSERT INTO idempotency_keys (tenant_id, idempotency_key, object_id, kind, accepted, created_at, expires_at)
VALUES ({uuid 1}, 'old-request', 'old-1', 'async', 1, {at -3600}, {at 82800});
INSERT INTO object_tallies (tenant_id, object_type, shard, objects, analyzed, flagged) VALUES ({uuid 1}, 'user', 0, 1, 1, 0);
INSERT INTO event_tallies (tenant_id, minute, shard, events) VALUES ({uuid 1}, {at -7200}, 0, 1), ({uuid 1}, {at -3600}, 0, 1);
INSERT INTO hourly_event_tallies (tenant_id, hour, shard, events) VALUES ({uuid 1}, {at -7200}, 0, 1), ({uuid 1}, {at -3600}, 0, 1);

INSERT INTO signals (tenant_id, key, signal_id, type, instructions, criteria, enabled, created_at, updated_at)
VALUES ({uuid 1}, 'is_rude', {uuid 4}, 'noul', '"Is the author rude?"', NULL, TRUE, {at -90000}, {at -90000});
INSERT INTO answers (tenant_id, object_id, signal_id, value, confidence, model, read_seq, computed_at)
VALUES ({uuid 1}, 'old-1', {uuid 4}, 0.25, 0.75, 'old-model', 2, {at -3500});
INSERT INTO signal_tallies (tenant_id, signal_id, choice, shard, answers, high, value_micros) VALUES ({uuid 1}, {uuid 4}, '', 0, 1, 0, 250000);
INSERT INTO jobs (tenant_id, object_id, priority, run_at, deadline_at, version, attempts)
VALUES ({uuid 1}, 'old-1', 0, {at -10}, {at -5}, 1, 1);
INSERT INTO bulk_runs (tenant_id, bulk_run_id, kind, status, object_cursor, total, started_at)
VALUES ({uuid 1}, {uuid 17}, 'analyze', 'running', '', 1, {at -100});

INSERT INTO rules (tenant_id, rule_id, condition_id, name, condition, action_type, action_config, enabled, cooldown_seconds, created_at, updated_at)
VALUES ({uuid 1}, {uuid 5}, {uuid 6}, 'rude people', 'is_rude > 0.99', 'webhook',
        {sealed rules.action_config 5 {"endpoint_id": "00000000-0000-0000-0000-000000000008"}}, TRUE, 0, {at -80000}, {at -80000});
INSERT INTO rule_states (tenant_id, object_id, condition_id, matched, fired_at) VALUES ({uuid 1}, 'old-1', {uuid 6}, FALSE, {at -5000});
INSERT INTO retired_conditions (tenant_id, condition_id, retired_at) VALUES ({uuid 1}, {uuid 20}, {at -5000});
INSERT INTO rule_firings (tenant_id, firing_id, rule_id, object_id, matched_when, signal_values, action_type, status, detail, fired_at)
VALUES ({uuid 1}, {uuid 7}, {uuid 5}, 'old-1', 'is_rude > 0.99', '{"is_rude": 1.0}', 'webhook', 'dispatched', NULL, {at -5000});
INSERT INTO rule_mail_tallies (tenant_id, day, mails, chats) VALUES ({uuid 1}, '2025-12-31', 1, 0);
INSERT INTO webhook_endpoints (tenant_id, endpoint_id, url, description, enabled, signal_keys, events, secret, consecutive_failures, created_at, updated_at)
VALUES ({uuid 1}, {uuid 8}, '{receiver}', 'old endpoint', TRUE, '[]', '["analysis.completed", "rule.triggered"]',
        {sealed webhook_endpoints.secret 8 whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}, 1, {at -80000}, {at -80000});
INSERT INTO webhook_deliveries (tenant_id, delivery_id, endpoint_id, event_type, object_id, payload, max_attempts, created_at)
VALUES ({uuid 1}, {uuid 9}, {uuid 8}, 'analysis.completed', 'old-1', '{"event": "analysis.completed", "old": "pending"}', 8, {at -3500}),
       ({uuid 1}, {uuid 10}, {uuid 8}, 'analysis.completed', 'old-1', '{"event": "analysis.completed", "old": "dead"}', 8, {at -5000});
INSERT INTO webhook_queue (tenant_id, endpoint_id, status, delivery_id, payload_bytes, attempts, run_after, last_status_code, last_error)
VALUES ({uuid 1}, {uuid 8}, 'pending', {uuid 9}, 49, 1, {at -30}, 503, 'the receiver answered 503');
INSERT INTO webhook_outcomes (tenant_id, endpoint_id, status, delivery_id, attempts, ended_at, last_status_code, last_error)
VALUES ({uuid 1}, {uuid 8}, 'dead', {uuid 10}, 8, {at -4000}, 500, 'the receiver answered 500');
INSERT INTO outbox (tenant_id, message_id, channel, message, attempts, run_after, created_at, lane)
VALUES ({uuid 1}, {uuid 11}, 'mail',
        {sealed outbox.message 11 {"event": "low_balance", "to": "ann@old.example", "subject": "From before the upgrade", "text": "old", "html": "old"}},
        0, {at -20}, {at -20}, '');

INSERT INTO balances (tenant_id, balance_micros, ledger_seq) VALUES ({uuid 1}, 14999850, 4);
INSERT INTO ledger_entries (tenant_id, seq, entry_id, kind, reason, delta_micros, balance_after_micros, model, object_id, cost_usd, cost_margin, input_tokens, output_tokens, batch_id, payment_ref, created_at)
VALUES ({uuid 1}, 1, {uuid 12}, 'credit', 'signup_credit', 5000000, 5000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {at -90000}),
       ({uuid 1}, 2, {uuid 13}, 'credit', 'topup', 10000000, 15000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'cs_old', {at -80000}),
       ({uuid 1}, 3, {uuid 14}, 'charge', 'analysis', -100, 14999900, 'old-model', 'old-1', '0.000100', '1', 900, 25, NULL, NULL, {at -3500}),
       ({uuid 1}, 4, {uuid 15}, 'charge', 'analysis', -50, 14999850, 'old-model', 'old-1', '0.000050', '1', 400, 25, {uuid 17}, NULL, {at -90});
INSERT INTO ledger_batches (tenant_id, batch_id, last_seq, entries, delta_micros, input_tokens, output_tokens, models, first_at)
VALUES ({uuid 1}, {uuid 17}, 4, 1, -50, 400, 25, '["old-model"]', {at -90});
INSERT INTO checkouts (checkout_id, provider_session_id, tenant_id, amount_cents, currency, status, ledger_seq, created_at, credited_at)
VALUES ({uuid 16}, 'cs_old', {uuid 1}, 1000, 'usd', 'credited', 2, {at -80100}, {at -80000});
INSERT INTO usage_days (tenant_id, day, source, model, shard, analyses, spend_micros, input_tokens, output_tokens, unbilled)
VALUES ({uuid 1}, '2025-12-31', 'async', 'old-model', 0, 2, 150, 1300, 50, 0);
INSERT INTO usage_signal_days (tenant_id, day, signal_key, shard, analyses) VALUES ({uuid 1}, '2025-12-31', 'is_rude', 0, 2);

INSERT INTO deployment (name, value) VALUES ('master_key', '{key}');
INSERT INTO nodes (node_id, seen_at) VALUES ({uuid 18}, {at -3600});
INSERT INTO throttles (scope, subject, attempts, window_start) VALUES ('login_email', 'ann@old.example', 1, {at -3600});
INSERT INTO rate_budgets (tenant_id, window_start, granted) VALUES ({uuid 1}, {at -3600}, 10);
INSERT INTO sync_leases (tenant_id, lease_id, expires_at) VALUES ({uuid 1}, {uuid 19}, {at -3600});
