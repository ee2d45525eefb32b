//! The service from outside: the real thing on a random port, with a test's clock, on both databases.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]
#![expect(
    clippy::unchecked_time_subtraction,
    reason = "durations of a test are constants, and the larger comes first"
)]

mod access;
mod admin;
mod answer_history;
mod app;
mod audit_chain;
mod audit_log;
mod audit_sign_ins;
mod backup;
mod billing;
mod body;
mod books;
mod born_leased;
mod bulk_runs;
mod clocks;
mod conditions;
#[cfg(feature = "console")]
mod console;
mod cookies;
mod counts;
mod database_down;
mod demo;
mod deployments;
mod docs;
mod docs_examples;
#[cfg(feature = "embedded")]
mod embedded_model;
mod erasure;
mod escalation;
mod explanations;
mod exports;
mod first_proof;
mod frozen;
mod guide;
mod identities;
mod idle;
mod import;
mod ingest;
mod install_health;
mod key_refusals;
mod keys;
mod labels;
mod leaving;
mod legacy_keys;
mod limits;
mod log_watch;
mod login;
mod machine_login;
mod mcp;
mod members;
mod memory;
mod metrics;
mod model_eval;
mod moderation;
mod nodes;
mod nonsense;
mod notifications;
mod openapi;
mod operators;
mod outages;
mod own_issuer;
mod panics;
mod passkeys;
mod passwords;
mod payments;
mod process;
mod promises;
mod provider_peers;
mod quality;
mod rate_limited_analyzer;
mod rate_limits;
mod receiver;
mod recent_proof;
mod refusals;
mod registration;
mod rekey;
mod retention;
mod reviews;
mod rules;
mod rust_client;
mod scheduler;
mod scripted_analyzer;
mod search;
mod secrets_in_logs;
mod sessions;
mod settings;
mod shell;
mod signal_versions;
mod signer;
mod signing;
mod storage;
mod supervision;
mod sweeps;
mod tenancy;
mod timeline;
mod traces;
mod trials;
mod two_factor;
mod upgrade;
mod verdicts;
mod webhooks;
