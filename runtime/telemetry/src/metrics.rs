//! Measures: what finished spans say about time, tokens and money, and what stands in queues.
//!
//! There is one set of instruments for each team, and one for what the teams of a node share, read by
//! two: Prometheus, which comes for it, and an OTLP endpoint, to which it is sent. Durations are those
//! of the spans, so the two agree.

mod bound;
mod labels;
mod names;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Counter, Histogram, Meter, MeterProvider as _};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};
use prometheus::proto::MetricFamily;
use prometheus::{Encoder as _, Registry, TextEncoder};
use wire::{Attributes, Name, SpanRecord, Timestamp, semconv};

use bound::Bound;
use labels::Labels;

use crate::endpoint::{EXPORT_TIMEOUT, Endpoint, Error, Service, apart, resource};
use crate::headers;

/// The media type of [`text`].
pub const TEXT_TYPE: &str = prometheus::TEXT_FORMAT;

/// The time between two exports, the default of the conventions.
const EXPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Bounds of the times of models, in seconds, as the conventions advise.
const MODEL_SECONDS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// Bounds of counts of tokens, as the conventions advise.
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Bounds of the times of calls and runs, in seconds: from a computation to a person's answer.
const CALL_SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0,
];

/// Bounds of the times of a sync, in seconds: from a fast disk to one in trouble.
const SYNC_SECONDS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

/// What is measured of a team, or of a node apart from its teams.
pub struct Metrics {
    provider: SdkMeterProvider,
    registry: Registry,
    meter: Meter,
    /// The label of the team, if it is one.
    team: Vec<KeyValue>,
    model_time: Histogram<f64>,
    tokens: Histogram<u64>,
    call_time: Histogram<f64>,
    run_time: Histogram<f64>,
    cost: Counter<f64>,
    feedback: Counter<u64>,
    sync_time: Bound<Histogram<f64>>,
    entries: Bound<Counter<u64>>,
    bytes: Bound<Counter<u64>>,
    restarts: Counter<u64>,
    calls: Labels<Bound<Histogram<f64>>>,
    runs: Labels<Bound<Histogram<f64>>>,
    turns: Labels<OfTurns>,
    /// Of calls of tools that ask a model.
    tool_models: Labels<UseMeters>,
}

/// What the turns of a model with the same labels are counted in.
#[derive(Debug)]
struct OfTurns {
    time: Bound<Histogram<f64>>,
    meters: UseMeters,
}

/// What is counted in that models used.
#[derive(Debug)]
struct UseMeters {
    /// Tokens that were read.
    input: Bound<Histogram<u64>>,
    /// Tokens that were written.
    output: Bound<Histogram<u64>>,
    cost: Bound<Counter<f64>>,
}

/// Tells how much there is of something, for each value of the labels.
pub type Tell<'a> = &'a dyn Fn(u64, &[(&'static str, &str)]);

/// What is asked whenever somebody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The name, `callboard.` before it.
    pub name: &'static str,
    /// What it counts, such as `{run}`, or `By`.
    pub unit: &'static str,
    /// What it means.
    pub description: &'static str,
    /// Whether it only ever grows.
    pub is_total: bool,
}

impl Metrics {
    /// Begins to measure a team, or without one what belongs to the node; what is measured is sent to
    /// the endpoints of OTLP as well.
    pub fn start<'e>(
        team: Option<&Name>,
        service: &Service,
        otlp: impl IntoIterator<Item = &'e str>,
    ) -> Result<Self, Error> {
        let registry = Registry::new();
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .without_target_info()
            .build()
            .map_err(Error::Metrics)?;
        let mut provider =
            SdkMeterProvider::builder().with_resource(resource(service)).with_reader(reader);
        for endpoint in otlp {
            let url = Endpoint::read(endpoint)?.metrics();
            headers::learn();
            let exporter = Reported::new(apart(move || exporter(&url))?);
            let reader = PeriodicReader::builder(exporter).with_interval(EXPORT_INTERVAL).build();
            provider = provider.with_reader(reader);
        }
        let provider = provider.build();
        let meter = provider.meter("callboard");
        let time = |(name, description): (&'static str, &'static str), bounds: &[f64]| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(description);
            histogram.with_boundaries(bounds.to_vec()).build()
        };
        let counter = |(name, description): (&'static str, &'static str), unit: &'static str| {
            meter.u64_counter(name).with_unit(unit).with_description(description).build()
        };
        let team: Vec<KeyValue> =
            team.iter().map(|team| KeyValue::new(semconv::TEAM, team.to_string())).collect();
        let (tokens, tokens_told) = names::TOKENS;
        let (cost, cost_told) = names::COST;
        Ok(Self {
            model_time: time(names::MODEL_TIME, MODEL_SECONDS),
            tokens: meter
                .u64_histogram(tokens)
                .with_unit("{token}")
                .with_description(tokens_told)
                .with_boundaries(TOKENS.to_vec())
                .build(),
            call_time: time(names::CALL_TIME, CALL_SECONDS),
            run_time: time(names::RUN_TIME, CALL_SECONDS),
            cost: meter.f64_counter(cost).with_unit("USD").with_description(cost_told).build(),
            feedback: counter(names::FEEDBACK, "{reply}"),
            sync_time: Bound::new(time(names::SYNC_TIME, SYNC_SECONDS), team.clone()),
            entries: Bound::new(counter(names::ENTRIES, "{entry}"), team.clone()),
            bytes: Bound::new(counter(names::BYTES, "By"), team.clone()),
            restarts: counter(names::RESTARTS, "{restart}"),
            team,
            calls: Labels::default(),
            runs: Labels::default(),
            turns: Labels::default(),
            tool_models: Labels::default(),
            meter,
            registry,
            provider,
        })
    }

    /// Counts a span that has finished.
    pub fn observe(&self, span: &SpanRecord) {
        let took = seconds(span.start, span.end);
        let count = |all: &Labels<Bound<Histogram<f64>>>, names: &[_], time: &Histogram<f64>| {
            let bound = |told: &[_]| Bound::new(time.clone(), [told, &self.team].concat());
            all.of(&span.attributes, names, bound).made.get().record(took);
        };
        match span.attributes.text(semconv::OPERATION_NAME) {
            Some(semconv::operation::CHAT) => self.observe_turn(span, took),
            Some(semconv::operation::EXECUTE_TOOL) => {
                count(&self.calls, names::OF_CALLS, &self.call_time);
                if span.model_usage().is_some() {
                    let of_tokens = |told: &[_]| self.use_meters(told);
                    let meters = self.tool_models.of(&span.attributes, names::OF_TOKENS, of_tokens);
                    meters.made.count(&span.attributes);
                }
            }
            Some(semconv::operation::INVOKE_AGENT) => {
                count(&self.runs, names::OF_RUNS, &self.run_time);
            }
            _ => {}
        }
    }

    fn observe_turn(&self, span: &SpanRecord, took: f64) {
        let turns = self.turns.of(&span.attributes, names::OF_MODELS, |told| {
            let is_of_tokens = |label: &&KeyValue| names::OF_TOKENS.contains(&label.key.as_str());
            let of_tokens: Vec<KeyValue> = told.iter().filter(is_of_tokens).cloned().collect();
            OfTurns {
                time: Bound::new(self.model_time.clone(), [told, &self.team].concat()),
                meters: self.use_meters(&of_tokens),
            }
        });
        let OfTurns { time, meters } = &turns.made;
        time.get().record(took);
        if let Some(code) = span.attributes.text(semconv::FEEDBACK) {
            let code = [KeyValue::new(semconv::FEEDBACK, code.to_owned())];
            self.feedback.add(1, &[time.labels(), &code].concat());
        }
        meters.count(&span.attributes);
    }

    /// Makes the meters of what is used by models that share these labels.
    fn use_meters(&self, of_tokens: &[KeyValue]) -> UseMeters {
        let tokens = |kind| {
            let kind = [KeyValue::new(names::TOKEN_TYPE, kind)];
            Bound::new(self.tokens.clone(), [of_tokens, &self.team, &kind].concat())
        };
        UseMeters {
            input: tokens("input"),
            output: tokens("output"),
            cost: Bound::new(self.cost.clone(), [of_tokens, &self.team].concat()),
        }
    }

    /// Counts a commit of the journal.
    pub fn committed(&self, entries: u64, bytes: u64, sync: Duration) {
        self.sync_time.get().record(sync.as_secs_f64());
        self.entries.get().add(entries);
        self.bytes.get().add(bytes);
    }

    /// Counts the restart of a part, such as `model` or `session`.
    pub fn restarted(&self, part: &'static str) {
        let part = [KeyValue::new(names::PART, part)];
        self.restarts.add(1, &[&self.team[..], &part].concat());
    }

    /// Has something asked whenever somebody reads.
    pub fn watch(&self, what: Watched, ask: impl Fn(Tell<'_>) + Send + Sync + 'static) {
        let team = self.team.clone();
        let callback = move |observer: &dyn AsyncInstrument<u64>| {
            ask(&|value, labels| {
                let own =
                    labels.iter().map(|(name, value)| KeyValue::new(*name, (*value).to_owned()));
                let labels: Vec<KeyValue> = own.chain(team.iter().cloned()).collect();
                observer.observe(value, &labels);
            });
        };
        let Watched { name, unit, description, is_total } = what;
        // The instrument lives for as long as its provider.
        if is_total {
            let counter = self.meter.u64_observable_counter(name).with_unit(unit);
            let _counter = counter.with_description(description).with_callback(callback).build();
        } else {
            let gauge = self.meter.u64_observable_gauge(name).with_unit(unit);
            let _gauge = gauge.with_description(description).with_callback(callback).build();
        }
    }

    /// Sends what was measured since, within a time limit, and stops. Blocks; not for async threads.
    pub fn shutdown(&self, limit: Duration) -> Result<(), Error> {
        // The provider takes no limit of others: it waits 5 s for each endpoint. What it does after
        // ours is of no use, and nobody waits for its thread.
        let (provider, (ended, end)) = (self.provider.clone(), mpsc::sync_channel(1));
        let ending = thread::Builder::new().name("otlp-end".to_owned());
        let ending = ending.spawn(move || drop(ended.send(provider.shutdown())));
        ending.map_err(|_| Error::Thread)?;
        let ended = end.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => Error::Shutdown(OTelSdkError::Timeout(limit)),
            RecvTimeoutError::Disconnected => Error::Thread,
        })?;
        ended.map_err(Error::Shutdown)
    }
}

impl UseMeters {
    /// Counts what a span says that was used.
    fn count(&self, attributes: &Attributes) {
        let Self { input, output, cost } = self;
        for (name, used) in [(semconv::INPUT_TOKENS, input), (semconv::OUTPUT_TOKENS, output)] {
            if let Some(tokens) = attributes.number(name) {
                used.get().record(tokens);
            }
        }
        if let Some(nano_usd) = attributes.number(semconv::COST_NANO_USD) {
            #[expect(clippy::cast_precision_loss, reason = "2^53 billionths are nine million USD")]
            cost.get().add(nano_usd as f64 / 1e9);
        }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("team", &self.team).finish_non_exhaustive()
    }
}

/// Writes what several teams and their node measure in the text format of Prometheus.
pub fn text<'m>(all: impl IntoIterator<Item = &'m Metrics>) -> Result<String, Error> {
    let mut families: BTreeMap<String, MetricFamily> = BTreeMap::new();
    for family in all.into_iter().flat_map(|metrics| metrics.registry.gather()) {
        // Of each name there may be one family, whichever team it is from.
        match families.get_mut(family.name()) {
            Some(known) => known.mut_metric().extend(family.get_metric().iter().cloned()),
            None => drop(families.insert(family.name().to_owned(), family)),
        }
    }
    let families: Vec<MetricFamily> = families.into_values().collect();
    let mut text = Vec::new();
    TextEncoder::new().encode(&families, &mut text).map_err(Error::Text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn exporter(url: &str) -> Result<opentelemetry_otlp::MetricExporter, Error> {
    let client = tools::client::blocking_client(EXPORT_TIMEOUT).map_err(Error::Client)?;
    opentelemetry_otlp::MetricExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(Error::Build)
}

/// Reports when an exporter begins and ends to fail. What one export misses comes with the next,
/// since all sums run from the start: nothing is sent a second time.
struct Reported {
    inner: opentelemetry_otlp::MetricExporter,
    failing: AtomicBool,
}

impl Reported {
    const fn new(inner: opentelemetry_otlp::MetricExporter) -> Self {
        Self { inner, failing: AtomicBool::new(false) }
    }
}

impl PushMetricExporter for Reported {
    async fn export(&self, measured: &ResourceMetrics) -> OTelSdkResult {
        let result = self.inner.export(measured).await;
        let was_failing = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !was_failing => {
                tracing::warn!(%error, "cannot export measures, trying again every minute");
            }
            Ok(()) if was_failing => tracing::info!("measures are exported again"),
            Err(_) | Ok(()) => {}
        }
        result
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, limit: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(limit)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}

fn seconds(start: Timestamp, end: Timestamp) -> f64 {
    Duration::from_micros(end.as_micros().saturating_sub(start.as_micros())).as_secs_f64()
}

#[cfg(test)]
mod tests;
