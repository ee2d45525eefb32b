//! Metrics: one recorder for the process, a description of every metric, and the page that a scraper reads.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use service::{Clock, Service, Supervision, Workers};
use tracing::warn;

use crate::config::Secret;

/// How often histograms are compacted: they keep every value until then, even if nothing scrapes.
const UPKEEP: Duration = Duration::from_secs(5);
/// How long counting the queues may take; after that the page is served without them.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);
/// Buckets from a cached read to the longest analyzer call.
const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0];
/// Few buckets, because every route has them.
const ROUTE_SECONDS: [f64; 4] = [0.01, 0.1, 1.0, 10.0];
/// Finer buckets for transactions, which are short.
const TRANSACTION_SECONDS: [f64; 12] =
    [0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
/// Buckets for the number of requests or analyses in one commit.
const BATCH: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The metrics of a service, and the token that protects them.
#[derive(Clone)]
pub(crate) struct Meters {
    recorded: PrometheusHandle,
    token: Option<Secret>,
    started_s: i64,
}

impl Meters {
    /// Starts recording. Services in one process share the recorder.
    pub(crate) fn start(token: Option<Secret>, clock: &Clock, workers: &Workers) -> Self {
        let recorded = recorder();
        let compacted = recorded.clone();
        workers.supervise("meters", move |Supervision { stop, .. }| {
            let compacted = compacted.clone();
            async move {
                while tokio::time::timeout(UPKEEP, stop.cancelled()).await.is_err() {
                    compacted.run_upkeep();
                }
            }
        });
        Self { recorded, token, started_s: clock.now().seconds() }
    }

    /// The token that a scraper must present, if one is configured.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(Secret::expose)
    }

    /// The page that a scraper reads.
    pub(crate) async fn page(&self, service: &Service) -> String {
        let mut page = Page(self.recorded.render());
        page.gauge("auspex_build_info", "The version that runs; always 1.");
        page.sample("auspex_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        page.gauge("process_start_time_seconds", "When the process started, in Unix seconds.");
        page.sample("process_start_time_seconds", &[], self.started_s);
        page.process();
        page.running(service);
        let counted = tokio::time::timeout(COUNT_TIMEOUT, service.gauges.queues()).await;
        let queues = match counted {
            Ok(Ok(queues)) => Some(queues),
            Ok(Err(error)) => {
                warn!(%error, "the queues cannot be counted");
                None
            }
            Err(_) => {
                warn!("the queues were not counted in time");
                None
            }
        };
        page.gauge("auspex_database_up", "1 if the queues could be counted in the database, otherwise 0.");
        page.sample("auspex_database_up", &[], u8::from(queues.is_some()));
        if let Some(queues) = queues {
            page.queues(&queues);
        }
        page.0
    }
}

/// The recorder of this process, installed once.
fn recorder() -> PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    let install = || {
        // The builder refuses only empty buckets, which these constants are not.
        let recorder = with_buckets().unwrap_or_else(|_| PrometheusBuilder::new()).build_recorder();
        let handle = recorder.handle();
        // If another recorder is installed, it stays; the page then shows only gauges.
        let _ = metrics::set_global_recorder(recorder);
        describe();
        handle
    };
    RECORDER.get_or_init(install).clone()
}

fn with_buckets() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(
            Matcher::Full("auspex_http_request_duration_seconds".to_owned()),
            &ROUTE_SECONDS,
        )?
        .set_buckets_for_metric(
            Matcher::Full("auspex_store_transaction_seconds".to_owned()),
            &TRANSACTION_SECONDS,
        )?
        .set_buckets_for_metric(Matcher::Full("auspex_recorder_batch_requests".to_owned()), &BATCH)?
        .set_buckets_for_metric(Matcher::Full("auspex_concluder_batch_analyses".to_owned()), &BATCH)
}

fn describe() {
    let counters = [
        ("auspex_http_requests_total", "Responses, by method, route template and status."),
        ("auspex_rate_limited_total", "Requests refused by a rate limit, by scope of the limit."),
        ("auspex_bodies_refused_total", "Requests refused because too many bytes of bodies are in flight."),
        ("auspex_connections_refused_total", "Connections closed because their address has too many."),
        ("auspex_analyses_total", "Analyses, by source (async, sync) and outcome."),
        ("auspex_analyzer_answers_total", "Questions sent to the analyzer, by outcome."),
        ("auspex_analyzer_throttled_total", "Calls that the analyzer refused because it is rate-limiting."),
        (
            "auspex_escalations_total",
            "Answers that the first analyzer was unsure of, by what the second one made of them.",
        ),
        ("auspex_object_cache_total", "Reads of objects, by whether they were cached (hit) or not (miss)."),
        ("auspex_webhook_deliveries_total", "Finished attempts to deliver webhooks, by outcome."),
        ("auspex_rule_firings_total", "Firings of rules, by action and status."),
        ("auspex_mails_total", "Emails, by outcome."),
        ("auspex_chat_messages_total", "Chat messages, by outcome."),
        ("auspex_payments_total", "Payments reported by the payment provider, by outcome."),
        ("auspex_store_transactions_total", "Transactions and reads, by name and outcome."),
        (
            "auspex_store_transaction_microseconds_total",
            "Total duration of transactions and reads, including retries, by name.",
        ),
        ("auspex_store_transaction_retries_total", "Transactions retried after a conflict, by name."),
        (
            "auspex_replica_reads_total",
            "Reads that a replica may answer, by who answered, or why it did not.",
        ),
        ("auspex_worker_panics_total", "Panics of background workers and their jobs, by worker."),
        ("auspex_sweep_failures_total", "Steps of sweeps that failed, by step."),
    ];
    for (name, description) in counters {
        describe_counter!(name, description);
    }
    describe_gauge!(
        "auspex_clock_offset_seconds",
        Unit::Seconds,
        "How far the host's clock is ahead of the database's, or on SQLite of the service's own time."
    );
    describe_gauge!(
        "auspex_replica_lag_seconds",
        Unit::Seconds,
        "For how long the replica has lacked something that the primary had written; at most 60."
    );
    let timed = [
        (
            "auspex_http_request_duration_seconds",
            "Time from the head of a request to the head of its response, by route template.",
        ),
        ("auspex_analyzer_seconds", "Duration of analyzer calls, by kind and outcome."),
        ("auspex_webhook_delivery_seconds", "Duration of attempts to deliver webhooks."),
        (
            "auspex_store_transaction_seconds",
            "Duration of transactions and reads, including retries, by outcome.",
        ),
    ];
    for (name, description) in timed {
        describe_histogram!(name, Unit::Seconds, description);
    }
    describe_histogram!("auspex_recorder_batch_requests", "Ingest requests per commit.");
    describe_histogram!("auspex_concluder_batch_analyses", "Finished analyses per commit.");
}

/// A page in Prometheus text. Gauges are written directly instead of recorded, so that those of deleted tenants disappear.
struct Page(String);

impl Page {
    fn gauge(&mut self, name: &str, description: &str) {
        self.head(name, "gauge", description);
    }

    fn head(&mut self, name: &str, kind: &str, description: &str) {
        let _ = writeln!(self.0, "# HELP {name} {description}\n# TYPE {name} {kind}");
    }

    /// Label values are names and ids of our own, which need no escaping.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn running(&mut self, service: &Service) {
        let name = "auspex_running_analyses";
        self.gauge(
            name,
            "Analyses running in this process, for the 20 busiest tenants and for all others together.",
        );
        let (tenants, others) = service.gauges.running_analyses();
        for (tenant, number) in tenants {
            self.sample(name, &[("tenant", &tenant.to_string())], number);
        }
        self.sample(name, &[("tenant", "other")], others);
    }

    fn queues(&mut self, queues: &service::QueueGauges) {
        let (jobs, lag) = ("auspex_queue_jobs", "auspex_queue_lag_seconds");
        self.gauge(
            jobs,
            "Analyses waiting for a worker, over all processes, by priority; counted up to 100000.",
        );
        for (priority, number, _) in &queues.analyses {
            self.sample(jobs, &[("priority", priority)], number);
        }
        self.gauge(lag, "How long the oldest waiting analysis has been due, by priority.");
        for (priority, _, waited) in &queues.analyses {
            self.sample(lag, &[("priority", priority)], waited.as_secs_f64());
        }
        let deliveries = "auspex_queue_deliveries";
        self.gauge(deliveries, "Webhook deliveries waiting for an attempt; counted up to 100000.");
        self.sample(deliveries, &[], queues.deliveries);
        let messages = "auspex_queue_messages";
        self.gauge(
            messages,
            "Emails and chat messages waiting to be sent, by channel; counted up to 100000.",
        );
        for (channel, number) in &queues.messages {
            self.sample(messages, &[("channel", channel)], number);
        }
    }

    /// Gauges of the process, on Linux only.
    fn process(&mut self) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        if let Some(kib) =
            resident.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        {
            self.gauge("process_resident_memory_bytes", "Resident memory size.");
            self.sample("process_resident_memory_bytes", &[], kib * 1024);
        }
        if let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") {
            self.gauge("process_open_fds", "Open files and sockets.");
            self.sample("process_open_fds", &[], descriptors.count());
        }
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name in the second field may contain anything; the numbers follow its last parenthesis.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>());
        let ticks = |fields: &[&str]| {
            Some(fields.get(11)?.parse::<u32>().ok()? + fields.get(12)?.parse::<u32>().ok()?)
        };
        if let Some(ticks) = fields.as_deref().and_then(ticks) {
            // Linux reports times in hundredths of a second, whatever its internal clock rate.
            self.head("process_cpu_seconds_total", "counter", "CPU time used by the process.");
            self.sample("process_cpu_seconds_total", &[], f64::from(ticks) / 100.0);
        }
    }
}
