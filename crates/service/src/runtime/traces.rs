//! Traces: what happens and for how long, told to a collector where one is configured.
//!
//! A trace outlives requests and processes. Within a task its context is that of OpenTelemetry; where work waits in the
//! database the context waits in the same row, as a W3C `traceparent`. Without a collector nothing of this is made.

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

/// Where steps are told to, if anywhere. Cheap to clone.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Told>>);

struct Told {
    tracer: BoxedTracer,
    clock: Clock,
}

/// Something that takes time. It ends when it is dropped.
#[derive(Default)]
#[must_use]
pub struct Step(Option<Begun>);

struct Begun {
    context: Context,
    told: Arc<Told>,
}

impl Traces {
    /// Tells of every step, by this clock.
    pub fn to(tracer: BoxedTracer, clock: Clock) -> Self {
        Self(Some(Arc::new(Told { tracer, clock })))
    }

    /// A request that is being answered; its trace is that of its caller, if it names one.
    pub fn request(&self, method: &'static str, route: Option<&str>, traceparent: Option<&str>) -> Step {
        self.begin(traceparent, || {
            let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
            let route = route.map(|route| KeyValue::new("http.route", route.to_owned()));
            let method = KeyValue::new("http.request.method", method);
            SpanBuilder::from_name(name)
                .with_kind(SpanKind::Server)
                .with_attributes(std::iter::once(method).chain(route))
        })
    }

    /// Work that waited in a row, whose trace goes on where the row's contexts say.
    pub(crate) fn resume(&self, name: &'static str, kind: SpanKind, traceparents: Option<&str>) -> Step {
        self.begin(traceparents, || SpanBuilder::from_name(name).with_kind(kind))
    }

    /// A part of what is going on.
    pub(crate) fn part(&self, name: &'static str, kind: SpanKind) -> Step {
        let Some(told) = &self.0 else { return Step(None) };
        Step::begin(told, SpanBuilder::from_name(name).with_kind(kind), &Context::current())
    }

    /// Begins after the first of these contexts, and links to the others.
    fn begin(&self, traceparents: Option<&str>, span: impl FnOnce() -> SpanBuilder) -> Step {
        let Some(told) = &self.0 else { return Step(None) };
        let mut contexts = traceparents.unwrap_or_default().split(' ').filter_map(parse);
        let parent = contexts.next().map(|newest| Context::new().with_remote_span_context(newest));
        let links = contexts.map(Link::with_context).collect();
        Step::begin(told, span().with_links(links), &parent.unwrap_or_default())
    }
}

impl Step {
    fn begin(told: &Arc<Told>, span: SpanBuilder, parent: &Context) -> Self {
        let span = span.with_start_time(system_time(told.clock.now()));
        let span = told.tracer.build_with_context(span, parent);
        Self(Some(Begun { context: parent.with_span(span), told: Arc::clone(told) }))
    }

    /// Does the work as this step: what it begins is part of it.
    pub async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.0 {
            Some(begun) => work.with_context(begun.context.clone()).await,
            None => work.await,
        }
    }

    /// Notes something about it. Never a secret, nor what events say, nor an id that may be somebody's name.
    pub fn note(&self, name: &'static str, value: impl Into<Value>) {
        if let Some(begun) = &self.0 {
            begun.context.span().set_attribute(KeyValue::new(name, value));
        }
    }

    /// Says that it failed, by a short name of the kind of failure.
    pub fn fail(&self, kind: impl Into<Cow<'static, str>>) {
        if let Some(begun) = &self.0 {
            begun.context.span().set_attribute(KeyValue::new("error.type", kind.into()));
            begun.context.span().set_status(Status::error(""));
        }
    }

    /// Its context, for others to go on from.
    pub fn traceparent(&self) -> Option<String> {
        traceparent(&self.0.as_ref()?.context)
    }

    /// The id of its trace, for log lines.
    pub fn trace_id(&self) -> Option<String> {
        Some(self.0.as_ref()?.context.span().span_context().trace_id().to_string())
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(begun) = &self.0 {
            begun.context.span().end_with_timestamp(system_time(begun.told.clock.now()));
        }
    }
}

/// The context of what is going on, to be kept in a row that work waits in. None without a collector.
pub(crate) fn current() -> Option<String> {
    Context::map_current(traceparent)
}

/// Notes something about what is going on.
pub fn note(name: &'static str, value: impl FnOnce() -> String) {
    Context::map_current(|context| {
        if context.span().is_recording() {
            context.span().set_attribute(KeyValue::new(name, value()));
        }
    });
}

/// As <https://www.w3.org/TR/trace-context/#traceparent-header> has it.
fn traceparent(context: &Context) -> Option<String> {
    let span = context.span();
    let context = span.span_context();
    context.is_valid().then(|| {
        let flags = context.trace_flags().to_u8() & TraceFlags::SAMPLED.to_u8();
        format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id())
    })
}

/// None for anything else than a context: whoever sends it begins a trace of its own then.
fn parse(traceparent: &str) -> Option<SpanContext> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = traceparent.split('-').collect();
    let [version, trace, span, flags, rest @ ..] = parts.as_slice() else { return None };
    let lengths = [version.len(), trace.len(), span.len(), flags.len()];
    // A later version may say more, after what this one says.
    let is_known = *version == "00" && rest.is_empty() || *version != "00" && *version != "ff";
    if lengths != [2, 32, 16, 2]
        || !is_known
        || ![version, trace, span, flags].iter().all(|part| is_hex(part))
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
    fn a_context_is_read_as_the_standard_writes_it_and_nothing_else_is() {
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
    async fn without_a_collector_there_is_nothing() {
        let traces = Traces::default();
        let caller = format!("00-{TRACE}-{SPAN}-01");
        let step = traces.request("GET", Some("/v1/me"), Some(&caller));
        step.note("a", 1);
        let seen =
            step.around(async { (current(), traces.part("part", SpanKind::Internal).traceparent()) }).await;
        assert_eq!((step.traceparent(), seen), (None, (None, None)));
    }
}
