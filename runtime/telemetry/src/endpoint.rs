//! Where OTLP is sent to, and who sends.

use std::thread;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use reqwest::Url;
use wire::WireError;

/// How long one request may take, its retries included.
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

/// An address of OTLP over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint(Url);

impl Endpoint {
    /// Reads an address; one without a path is the root of all that OTLP takes.
    pub(crate) fn read(endpoint: &str) -> Result<Self, Error> {
        let failed = |reason: String| Error::Endpoint { endpoint: endpoint.to_owned(), reason };
        let url = Url::parse(endpoint).map_err(|error| failed(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(failed(format!("its scheme is {:?}", url.scheme())));
        }
        Ok(Self(url))
    }

    /// Returns where traces go.
    pub(crate) fn traces(&self) -> String {
        let mut url = self.0.clone();
        if url.path() == "/" {
            url.set_path(TRACES_PATH);
        }
        url.into()
    }

    /// Returns where measures go; nowhere, if the path is one of something else.
    pub(crate) fn metrics(&self) -> Option<String> {
        let mut url = self.0.clone();
        let root = match url.path() {
            "/" => "",
            path => path.strip_suffix(TRACES_PATH)?,
        };
        let path = format!("{root}{METRICS_PATH}");
        url.set_path(&path);
        Some(url.into())
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
                Some(("http://localhost:4318/v1/traces", Some("http://localhost:4318/v1/metrics"))),
            ),
            (
                "http://localhost:4318/",
                Some(("http://localhost:4318/v1/traces", Some("http://localhost:4318/v1/metrics"))),
            ),
            (
                "https://x/otlp/v1/traces?k=1",
                Some(("https://x/otlp/v1/traces?k=1", Some("https://x/otlp/v1/metrics?k=1"))),
            ),
            ("https://x/spans", Some(("https://x/spans", None))),
            ("localhost:4318", None),
            ("grpc://localhost:4317", None),
            ("", None),
        ];
        for (endpoint, expected) in cases {
            let read = Endpoint::read(endpoint).ok().map(|to| (to.traces(), to.metrics()));
            let read = read.as_ref().map(|(traces, metrics)| (traces.as_str(), metrics.as_deref()));
            assert_eq!(read, expected, "{endpoint:?}");
        }
    }
}
