//! Traces: spans exported to an OpenTelemetry collector, if one is configured.
//!
//! A trace outlives requests and processes. Within a task its context is OpenTelemetry's current context; for queued work
//! the context is stored in the queue's row as a W3C `traceparent`. Without a collector no spans are created.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Timestamp;
use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{
    FutureExt as _, Link, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _,
    TraceFlags, TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value};

use crate::runtime::Clock;

/// Creates spans, if a collector is configured. Cheap to clone.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Exporter>>);

struct Exporter {
    tracer: BoxedTracer,
    clock: Clock,
}

/// A span. It ends when it is dropped.
#[derive(Default)]
#[must_use]
pub struct Step(Option<ActiveSpan>);

struct ActiveSpan {
    context: Context,
    exporter: Arc<Exporter>,
}

impl Traces {
    /// Exports every span, with the times of this clock.
    pub fn to(tracer: BoxedTracer, clock: Clock) -> Self {
        Self(Some(Arc::new(Exporter { tracer, clock })))
    }

    /// The span of a request; it continues the caller's trace, if the request names one.
    pub fn request(&self, method: &'static str, route: Option<&str>, traceparent: Option<&str>) -> Step {
        self.start(traceparent, || {
            let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
            let route = route.map(|route| KeyValue::new("http.route", route.to_owned()));
            let method = KeyValue::new("http.request.method", method);
            SpanBuilder::from_name(name)
                .with_kind(SpanKind::Server)
                .with_attributes(std::iter::once(method).chain(route))
        })
    }

    /// The span of queued work; it continues the traces stored in the work's row.
    pub(crate) fn resume(&self, name: &'static str, kind: SpanKind, traceparents: Option<&str>) -> Step {
        self.start(traceparents, || SpanBuilder::from_name(name).with_kind(kind))
    }

    /// A child of the current span.
    pub(crate) fn child(&self, name: &'static str, kind: SpanKind) -> Step {
        let Some(exporter) = &self.0 else { return Step(None) };
        Step::start(exporter, SpanBuilder::from_name(name).with_kind(kind), &Context::current())
    }

    /// Starts a span as a child of the first of these contexts, with links to the others.
    fn start(&self, traceparents: Option<&str>, span: impl FnOnce() -> SpanBuilder) -> Step {
        let Some(exporter) = &self.0 else { return Step(None) };
        let mut contexts = traceparents.unwrap_or_default().split(' ').filter_map(parse);
        let parent = contexts.next().map(|newest| Context::new().with_remote_span_context(newest));
        let links = contexts.map(Link::with_context).collect();
        Step::start(exporter, span().with_links(links), &parent.unwrap_or_default())
    }
}

impl Step {
    fn start(exporter: &Arc<Exporter>, span: SpanBuilder, parent: &Context) -> Self {
        let span = span.with_start_time(system_time(exporter.clock.now()));
        let span = exporter.tracer.build_with_context(span, parent);
        Self(Some(ActiveSpan { context: parent.with_span(span), exporter: Arc::clone(exporter) }))
    }

    /// Runs work inside this span: spans that the work starts are its children.
    pub async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.0 {
            Some(active) => work.with_context(active.context.clone()).await,
            None => work.await,
        }
    }

    /// Sets an attribute of the span. Never a secret, the content of an event, or an id that may identify a person.
    pub fn note(&self, name: &'static str, value: impl Into<Value>) {
        if let Some(active) = &self.0 {
            active.context.span().set_attribute(KeyValue::new(name, value));
        }
    }

    /// Marks the span as failed, with a short name for the kind of failure.
    pub fn fail(&self, kind: impl Into<Cow<'static, str>>) {
        if let Some(active) = &self.0 {
            active.context.span().set_attribute(KeyValue::new("error.type", kind.into()));
            active.context.span().set_status(Status::error(""));
        }
    }

    /// The span's context, to be continued elsewhere.
    pub fn traceparent(&self) -> Option<String> {
        traceparent(&self.0.as_ref()?.context)
    }

    /// The id of the span's trace, for log lines.
    pub fn trace_id(&self) -> Option<String> {
        Some(self.0.as_ref()?.context.span().span_context().trace_id().to_string())
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(active) = &self.0 {
            active.context.span().end_with_timestamp(system_time(active.exporter.clock.now()));
        }
    }
}

/// The context of the current span, to be stored in a row that queues work. None without a collector.
pub(crate) fn current() -> Option<String> {
    Context::map_current(traceparent)
}

/// Sets an attribute of the current span.
pub fn note(name: &'static str, value: impl FnOnce() -> String) {
    Context::map_current(|context| {
        if context.span().is_recording() {
            context.span().set_attribute(KeyValue::new(name, value()));
        }
    });
}

/// Formats a context as defined in <https://www.w3.org/TR/trace-context/#traceparent-header>.
fn traceparent(context: &Context) -> Option<String> {
    let span = context.span();
    let context = span.span_context();
    context.is_valid().then(|| {
        let flags = context.trace_flags().to_u8() & TraceFlags::SAMPLED.to_u8();
        format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id())
    })
}

/// Parses a `traceparent`. None if it is invalid: the span then starts a new trace.
fn parse(traceparent: &str) -> Option<SpanContext> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = traceparent.split('-').collect();
    let [version, trace, span, flags, rest @ ..] = parts.as_slice() else { return None };
    let lengths = [version.len(), trace.len(), span.len(), flags.len()];
    // A later version may append more fields.
    let is_known = *version == "00" && rest.is_empty() || *version != "00" && *version != "ff";
    if lengths != [2, 32, 16, 2]
        || !is_known
        || ![version, trace, span, flags].iter().all(|child| is_hex(child))
    {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

fn system_time(instant: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(instant.micros().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn only_a_standard_traceparent_is_parsed() {
        let read =
            |text: &str| parse(text).map(|context| (context.trace_id().to_string(), context.is_sampled()));
        assert_eq!(read(&format!("00-{TRACE}-{SPAN}-01")), Some((TRACE.to_owned(), true)));
        assert_eq!(read(&format!("00-{TRACE}-{SPAN}-00")), Some((TRACE.to_owned(), false)));
        assert_eq!(read(&format!("cc-{TRACE}-{SPAN}-03-more")), Some((TRACE.to_owned(), true)));
        for wrong in [
            "",
            "00",
            &format!("00-{TRACE}-{SPAN}"),
            &format!("00-{TRACE}-{SPAN}-01-more"),
            &format!("ff-{TRACE}-{SPAN}-01"),
            &format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            &format!("00-{}-{SPAN}-01", "0".repeat(32)),
            &format!("00-{TRACE}-{}-01", "0".repeat(16)),
            &format!("00-+{}-{SPAN}-01", &TRACE[1..]),
            &format!("00-{TRACE}-{SPAN}-1"),
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn without_a_collector_there_are_no_spans() {
        let traces = Traces::default();
        let caller = format!("00-{TRACE}-{SPAN}-01");
        let step = traces.request("GET", Some("/v1/me"), Some(&caller));
        step.note("a", 1);
        let inner =
            step.around(async { (current(), traces.child("child", SpanKind::Internal).traceparent()) }).await;
        assert_eq!((step.traceparent(), inner), (None, (None, None)));
    }
}
