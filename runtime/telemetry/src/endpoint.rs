//! Where OTLP is sent to, and who sends.

use std::thread;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use reqwest::Url;
use wire::WireError;

/// How long one request may take. It is also how long after the first try the client of OTLP still
/// makes a request again, so that with the last of them it may take twice as long.
pub const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The path of traces below an OTLP endpoint.
const TRACES_PATH: &str = "/v1/traces";

/// The path of measures below an OTLP endpoint.
const METRICS_PATH: &str = "/v1/metrics";

/// Who exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// What it is, as `service.name`.
    pub name: String,
    /// Its version, as `service.version`.
    pub version: String,
    /// Which one of several, as `service.instance.id`.
    pub instance: String,
}

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is no URL of HTTP.
    #[error("read OTLP endpoint {endpoint:?}: {reason}; write it like `http://localhost:4318`")]
    Endpoint {
        /// The endpoint as given.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The HTTP client could not be made.
    #[error("make the client of the OTLP endpoint: {0}")]
    Client(#[source] WireError),
    /// The exporter could not be made.
    #[error("make the OTLP exporter: {0}")]
    Build(#[source] ExporterBuildError),
    /// The thread that makes the exporter could not be started, or died.
    #[error("start the thread of the OTLP exporter")]
    Thread,
    /// Not all was exported in the time given.
    #[error("export what is left: {0}")]
    Shutdown(#[source] OTelSdkError),
    /// What is measured could not be made readable.
    #[error("set up what is measured: {0}")]
    Metrics(#[source] OTelSdkError),
    /// What is measured could not be written.
    #[error("write what is measured: {0}")]
    Text(#[source] prometheus::Error),
}

/// The base address of a receiver of OTLP over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint(Url);

impl Endpoint {
    /// Reads a base address; one of traces or of measures stands for the base that it is below.
    pub(crate) fn read(endpoint: &str) -> Result<Self, Error> {
        let failed = |reason: String| Error::Endpoint { endpoint: endpoint.to_owned(), reason };
        let mut url = Url::parse(endpoint).map_err(|error| failed(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(failed(format!("its scheme is {:?}", url.scheme())));
        }
        let path = url.path().trim_end_matches('/');
        let base = path.strip_suffix(TRACES_PATH).or_else(|| path.strip_suffix(METRICS_PATH));
        let base = base.unwrap_or(path).to_owned();
        url.set_path(&base);
        Ok(Self(url))
    }

    /// Returns where traces go.
    pub(crate) fn traces(&self) -> String {
        self.below(TRACES_PATH)
    }

    /// Returns where measures go.
    pub(crate) fn metrics(&self) -> String {
        self.below(METRICS_PATH)
    }

    fn below(&self, path: &str) -> String {
        let mut url = self.0.clone();
        let path = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url.into()
    }
}

/// Makes something on a thread of its own: a blocking client must not be made on one that runs
/// async tasks.
pub(crate) fn apart<T: Send + 'static>(
    make: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let starter = thread::Builder::new().name("otlp-start".to_owned()).spawn(make);
    starter.map_err(|_| Error::Thread)?.join().map_err(|_| Error::Thread)?
}

/// Returns what all that is exported says of its origin.
pub(crate) fn resource(service: &Service) -> Resource {
    Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", service.name.clone()),
            KeyValue::new("service.version", service.version.clone()),
            KeyValue::new("service.instance.id", service.instance.clone()),
        ])
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_read_or_refused() {
        let cases = [
            (
                "http://localhost:4318",
                Some(("http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics")),
            ),
            (
                "http://localhost:4318/",
                Some(("http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics")),
            ),
            ("https://x/otlp", Some(("https://x/otlp/v1/traces", "https://x/otlp/v1/metrics"))),
            ("https://x/otlp/", Some(("https://x/otlp/v1/traces", "https://x/otlp/v1/metrics"))),
            (
                "https://x/otlp/v1/traces?k=1",
                Some(("https://x/otlp/v1/traces?k=1", "https://x/otlp/v1/metrics?k=1")),
            ),
            ("https://x/v1/metrics", Some(("https://x/v1/traces", "https://x/v1/metrics"))),
            ("localhost:4318", None),
            ("grpc://localhost:4317", None),
            ("", None),
        ];
        for (endpoint, expected) in cases {
            let read = Endpoint::read(endpoint).ok().map(|to| (to.traces(), to.metrics()));
            let read = read.as_ref().map(|(traces, metrics)| (traces.as_str(), metrics.as_str()));
            assert_eq!(read, expected, "{endpoint:?}");
        }
    }
}
