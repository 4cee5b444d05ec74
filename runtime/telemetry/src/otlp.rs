//! Exports spans over OTLP/HTTP, in batches, from a thread of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor,
};
use wire::SpanRecord;

use crate::endpoint::{EXPORT_TIMEOUT, Endpoint, Error, Service, apart, resource};
use crate::headers;
use crate::span::{bytes, span_context, span_data};

/// The most spans that wait to be exported or are on their way; further ones are dropped and
/// counted. At some 2 KiB a span this is 8 MiB, and half a minute of a busy node.
pub const QUEUE_SPANS_MAX: usize = 4_096;
/// The most bytes of these, so that few spans that hold much of what was said do not fill the
/// memory.
const QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The most spans of one request; the default of the conventions.
const BATCH_SPANS_MAX: usize = 512;
/// The most bytes of one request, if it has more than one span: a fifth of what a collector takes
/// by default.
const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long spans wait for others to travel with.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// How long is waited before spans that did not arrive are sent once more, until they are given up:
/// half a minute in all, in which a collector is started anew. The client tries four times within a
/// second each time. What comes meanwhile waits in the queue, whose bounds are the backpressure.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(15),
];
/// How the client ends its sentence of a failure that may pass: that nothing came back, or one of
/// the statuses after which OTLP has a request made again. It tells the kind in no other way.
const PASSING: [&str; 5] = ["network error", "code: 429", "code: 502", "code: 503", "code: 504"];

/// Exports spans. Never blocks and never fails those who hand spans in.
#[derive(Debug)]
pub struct Exporter {
    processor: BatchSpanProcessor,
    tally: Arc<Tally>,
    scope: InstrumentationScope,
}

/// What became of the spans.
#[derive(Debug, Default)]
struct Tally {
    /// Spans that wait or are on their way.
    queued: AtomicUsize,
    /// Bytes of these.
    queued_bytes: AtomicUsize,
    /// Spans that will never arrive.
    dropped: AtomicU64,
    /// Whether the last request failed, so that a dead endpoint is reported once.
    failing: AtomicBool,
    /// Whether it failed for want of an endpoint that answers, and not for what was sent.
    away: AtomicBool,
    /// Set when no more spans are taken.
    closed: Mutex<bool>,
    /// Wakes who pauses when it is set.
    closing: Condvar,
}

impl Tally {
    fn closed(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, but not beyond the end.
    fn pause(&self, pause: Duration) {
        drop(self.closing.wait_timeout_while(self.closed(), pause, |closed| !*closed));
    }

    fn drop_spans(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }
}

/// Adds to a count unless it would be above its limit.
fn take(count: &AtomicUsize, more: usize, limit: usize) -> bool {
    let taken = |held: usize| held.checked_add(more).filter(|sum| *sum <= limit);
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).is_ok()
}

impl Exporter {
    /// Starts exporting to an OTLP/HTTP endpoint. Nothing is sent until there are spans, so an
    /// endpoint that is down is no error.
    ///
    /// The endpoint is a base address, to which `/v1/traces` is added. The headers may hold secrets;
    /// they are not logged and not sent along redirects.
    pub fn start(
        endpoint: &str,
        service: &Service,
        headers: &[(String, String)],
    ) -> Result<Self, Error> {
        let endpoint = Endpoint::read(endpoint)?.traces();
        headers::learn();
        let headers: HashMap<String, String> = headers.iter().cloned().collect();
        let tally = Arc::new(Tally::default());
        let (resource, counted) = (resource(service), Arc::clone(&tally));
        let processor = apart(move || processor(endpoint, headers, &resource, counted))?;
        let scope = InstrumentationScope::builder("callboard")
            .with_version(service.version.clone())
            .build();
        Ok(Self { processor, tally, scope })
    }

    /// Hands in a finished span. It is dropped and counted where the queue is full, by spans or
    /// by bytes; a span of a trace that its caller did not sample is ignored.
    pub fn export(&self, span: &SpanRecord) {
        let tally = &self.tally;
        let own = span_context(&span.context);
        if !own.is_sampled() {
            return;
        }
        if *tally.closed() || !take(&tally.queued, 1, QUEUE_SPANS_MAX) {
            tally.drop_spans(1);
            return;
        }
        let data = span_data(span, own, self.scope.clone());
        if take(&tally.queued_bytes, bytes(&data), QUEUE_BYTES_MAX) {
            self.processor.on_end(data);
        } else {
            tally.queued.fetch_sub(1, Ordering::AcqRel);
            tally.drop_spans(1);
        }
    }

    /// Returns how many spans wait or are on their way.
    pub fn queued(&self) -> usize {
        self.tally.queued.load(Ordering::Relaxed)
    }

    /// Returns how many spans were dropped since the start: for want of room, because the endpoint
    /// did not take them, or because they came after the end.
    pub fn dropped(&self) -> u64 {
        self.tally.dropped.load(Ordering::Relaxed)
    }

    /// Exports what waits, within a time limit, and stops. What the endpoint does not take is given
    /// up at once. Blocks; not for async threads.
    pub fn shutdown(&self, limit: Duration) -> Result<(), Error> {
        if std::mem::replace(&mut *self.tally.closed(), true) {
            return Ok(());
        }
        self.tally.closing.notify_all();
        self.processor.shutdown_with_timeout(limit).map_err(Error::Shutdown)
    }
}

fn processor(
    endpoint: String,
    headers: HashMap<String, String>,
    resource: &Resource,
    tally: Arc<Tally>,
) -> Result<BatchSpanProcessor, Error> {
    let client = tools::client::blocking_client(EXPORT_TIMEOUT).map_err(Error::Client)?;
    let inner = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .with_timeout(EXPORT_TIMEOUT)
        .with_headers(headers)
        .build()
        .map_err(Error::Build)?;
    let limits = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE_SPANS_MAX)
        .with_max_export_batch_size(BATCH_SPANS_MAX)
        .with_scheduled_delay(BATCH_DELAY)
        .build();
    let mut processor = BatchSpanProcessor::new(Counted { inner, tally }, limits);
    processor.set_resource(resource);
    Ok(processor)
}

/// Counts what an exporter does with its batches, and reports when it begins and ends to fail.
#[derive(Debug)]
struct Counted {
    inner: opentelemetry_otlp::SpanExporter,
    tally: Arc<Tally>,
}

impl Counted {
    /// Sends spans in one request, again and again while that may help.
    async fn send(&self, spans: &[SpanData]) -> OTelSdkResult {
        let tally = &self.tally;
        let mut pauses = PAUSES.into_iter();
        loop {
            if *tally.closed() && tally.away.load(Ordering::Relaxed) {
                // The time that is left at the end is not spent on an endpoint that does not answer.
                let reason = "the endpoint does not answer".to_owned();
                return Err(OTelSdkError::InternalFailure(reason));
            }
            let Err(error) = self.inner.export(spans.to_vec()).await else {
                tally.away.store(false, Ordering::Relaxed);
                if tally.failing.swap(false, Ordering::Relaxed) {
                    let dropped = tally.dropped.load(Ordering::Relaxed);
                    tracing::info!(dropped, "spans are exported again");
                }
                return Ok(());
            };
            if !tally.failing.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "cannot export spans, dropping what is not taken in time");
            }
            let is_away = may_pass(&error);
            tally.away.store(is_away, Ordering::Relaxed);
            let Some(pause) = pauses.next().filter(|_| is_away) else { return Err(error) };
            tally.pause(pause);
        }
    }
}

/// Tells whether a request that failed is worth to be made again.
fn may_pass(error: &OTelSdkError) -> bool {
    let sentence = error.to_string();
    PASSING.iter().any(|end| sentence.ends_with(end))
}

impl SpanExporter for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (mut result, mut rest) = (Ok(()), batch.as_slice());
        while !rest.is_empty() {
            let mut size = 0;
            let fits = |span: &&SpanData| {
                size += bytes(span);
                size <= REQUEST_BYTES_MAX
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (spans, others) = rest.split_at(count);
            if let Err(error) = self.send(spans).await {
                self.tally.drop_spans(count);
                result = Err(error);
            }
            let size = spans.iter().map(bytes).sum();
            self.tally.queued_bytes.fetch_sub(size, Ordering::AcqRel);
            self.tally.queued.fetch_sub(count, Ordering::AcqRel);
            rest = others;
        }
        result
    }

    fn shutdown_with_timeout(&self, limit: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(limit)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
