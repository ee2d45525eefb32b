//! Export of traces to a collector over OTLP and HTTP, if one is configured.
//!
//! Spans are buffered in a bounded queue and sent in batches by a separate thread. While the collector is unavailable they
//! are dropped: no request waits for it, and memory does not grow. The usual variables of OpenTelemetry apply as well
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

/// How long the collector may take for a batch, and for the last ones at shutdown.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The path for traces, below the collector's URL.
const PATH: &str = "/v1/traces";

/// The exporter of traces.
pub(crate) struct Collector(SdkTracerProvider);

impl Collector {
    /// Starts exporting to the configured collector; without one, nothing is traced.
    pub(crate) fn start(config: &Config, clock: &Clock) -> Result<(Traces, Option<Self>), StartError> {
        let Some(endpoint) = &config.otlp_endpoint else { return Ok((Traces::default(), None)) };
        install_tls();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(traces_url(endpoint))
            .with_timeout(TIMEOUT)
            .build()
            .map_err(|reason| config.invalid("otlp_endpoint", &reason))?;
        let provider =
            SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter).build();
        let scope = InstrumentationScope::builder("auspex").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = BoxedTracer::new(Box::new(provider.tracer_with_scope(scope)));
        Ok((Traces::to(tracer, clock.clone()), Some(Self(provider))))
    }

    /// Sends the spans that are still buffered.
    pub(crate) async fn stop(self) {
        let stopped = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(TIMEOUT)).await;
        if !matches!(stopped, Ok(Ok(()))) {
            warn!("the last traces could not be sent to the collector");
        }
    }
}

/// The collector's URL for traces: the standard path is added unless it is already there.
fn traces_url(endpoint: &Url) -> String {
    let base = endpoint.as_str().trim_end_matches('/');
    if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") }
}

/// The resource attributes of this process; the standard variables override the defaults.
fn resource() -> Resource {
    Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", "auspex"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ])
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())])
        .build()
}
