//! Where traces go: a collector that speaks OTLP over HTTP, if one is configured.
//!
//! Spans wait in a bounded queue and are sent in batches by a thread of its own. While the collector is away they are
//! dropped: no request waits for it, and memory does not grow. The usual variables of OpenTelemetry apply beside ours
//! (`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_BSP_*`).

use std::time::Duration;

use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use service::{Clock, Traces};
use tracing::warn;
use url::Url;

use crate::assembly::{StartError, install_tls};
use crate::config::Config;

/// How long the collector may take for a batch, and for the last ones when the service stops.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where a collector takes traces, below its address.
const PATH: &str = "/v1/traces";

/// The way to the collector.
pub(crate) struct Collector(SdkTracerProvider);

impl Collector {
    /// Starts telling the configured collector; without one nothing is told.
    pub(crate) fn start(config: &Config, clock: &Clock) -> Result<(Traces, Option<Self>), StartError> {
        let Some(endpoint) = &config.otlp_endpoint else { return Ok((Traces::default(), None)) };
        install_tls();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(traces_at(endpoint))
            .with_timeout(PATIENCE)
            .build()
            .map_err(|reason| config.refuse("otlp_endpoint", &reason))?;
        let provider =
            SdkTracerProvider::builder().with_resource(ourselves()).with_batch_exporter(exporter).build();
        let scope = InstrumentationScope::builder("auspex").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = BoxedTracer::new(Box::new(provider.tracer_with_scope(scope)));
        Ok((Traces::to(tracer, clock.clone()), Some(Self(provider))))
    }

    /// Sends what still waits.
    pub(crate) async fn stop(self) {
        let stopped = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(PATIENCE)).await;
        if !matches!(stopped, Ok(Ok(()))) {
            warn!("the collector of traces did not take the last ones");
        }
    }
}

/// The collector's address, as it is or with the path that the standard adds to one.
fn traces_at(endpoint: &Url) -> String {
    let base = endpoint.as_str().trim_end_matches('/');
    if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") }
}

/// Who tells: what the operator says of this process, and our name where nothing is said.
fn ourselves() -> Resource {
    Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", "auspex"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ])
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())])
        .build()
}
