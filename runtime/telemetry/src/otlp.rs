//! Exports spans over OTLP/HTTP, in batches, from a thread of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
use crate::span::{span_context, span_data};

/// The most spans that wait to be exported or are on their way; further ones are dropped and
/// counted. At some 2 KiB a span this is 8 MiB, and half a minute of a busy node.
pub const QUEUE_SPANS_MAX: usize = 4_096;
/// The most spans of one request; the default of the conventions.
const BATCH_SPANS_MAX: usize = 512;
/// How long spans wait for others to travel with.
const BATCH_DELAY: Duration = Duration::from_secs(1);
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
    /// Spans that will never arrive.
    dropped: AtomicU64,
    /// Whether the last request failed, so that a dead endpoint is reported once.
    failing: AtomicBool,
    /// Set when no more spans are taken.
    closed: AtomicBool,
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

    /// Hands in a finished span. It is dropped and counted where the queue is full; a span of a
    /// trace that its caller did not sample is ignored.
    pub fn export(&self, span: &SpanRecord) {
        let tally = &self.tally;
        let own = span_context(&span.context);
        if !own.is_sampled() {
            return;
        }
        let taken = |queued| (queued < QUEUE_SPANS_MAX).then_some(queued + 1);
        if tally.closed.load(Ordering::Acquire)
            || tally.queued.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).is_err()
        {
            tally.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.processor.on_end(span_data(span, own, self.scope.clone()));
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

    /// Exports what waits, within a time limit, and stops. Blocks; not for async threads.
    pub fn shutdown(&self, limit: Duration) -> Result<(), Error> {
        if self.tally.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
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

impl SpanExporter for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (spans, tally) = (batch.len(), &self.tally);
        let closed = tally.closed.load(Ordering::Acquire);
        let result = if closed && tally.failing.load(Ordering::Relaxed) {
            // The time that is left at the end is not spent on an endpoint that does not answer.
            Err(OTelSdkError::InternalFailure("the endpoint does not answer".to_owned()))
        } else {
            self.inner.export(batch).await
        };
        if let Err(error) = &result {
            tally.dropped.fetch_add(spans as u64, Ordering::Relaxed);
            if !tally.failing.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "cannot export spans, dropping them until the endpoint answers");
            }
        } else if tally.failing.swap(false, Ordering::Relaxed) {
            let dropped = tally.dropped.load(Ordering::Relaxed);
            tracing::info!(dropped, "spans are exported again");
        }
        tally.queued.fetch_sub(spans, Ordering::AcqRel);
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
