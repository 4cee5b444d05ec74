//! Tools that are requests to an HTTP server, made from a template.

mod address;
mod request;
pub(crate) mod response;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::error::Error as _;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::time::timeout;
use wire::{CallOutcome, EffectClass, ErrorCode, ToolReply};

use crate::secret::SecretRef;
use crate::tool::{Tool, ToolContext};
use request::Blueprint;
use response::Received;

pub use address::ADDRESS_BYTES_MAX;
pub(crate) use request::write_body;

/// A request template. `{name}` in a text stands for the argument of that name.
///
/// A name consists of letters, digits, `_` and `-`; braces around anything else stand for
/// themselves. A string argument goes in without quotes, any other value as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSpec {
    /// `GET`, `HEAD`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The address; arguments are percent-encoded as path segments.
    pub url: String,
    /// Query parameters; one whose argument is absent or null is left out.
    pub query: Vec<(String, String)>,
    /// Headers; one whose argument is absent or null is left out.
    pub headers: Vec<(String, HeaderSource)>,
    /// The body.
    pub body: Option<BodyTemplate>,
    /// Bytes of a response that are read; the rest is cut and marked as cut.
    pub response_bytes_max: usize,
}

/// Where the value of a header comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderSource {
    /// A text, with `{name}` for arguments.
    Template(String),
    /// A secret, after a fixed text such as `Bearer `.
    Secret {
        /// What stands before the secret.
        prefix: String,
        /// The secret.
        secret: SecretRef,
    },
}

/// What is sent as the body.
#[derive(Clone, Debug, PartialEq)]
pub enum BodyTemplate {
    /// All arguments that appear nowhere else in the template, as a JSON object.
    Arguments,
    /// A JSON value in which a text that is exactly `{name}` becomes the argument itself. Members
    /// and items whose argument is absent are left out.
    Json(Value),
    /// A text, with `{name}` for arguments; an absent one is nothing.
    Text(String),
}

impl HttpSpec {
    /// Returns what may be repeated, as far as the method tells.
    pub fn effect(&self) -> EffectClass {
        match self.method.as_str() {
            "GET" | "HEAD" => EffectClass::Read,
            "PUT" | "DELETE" => EffectClass::Idempotent,
            _ => EffectClass::Once,
        }
    }

    /// Returns the faults of the template, also against the JSON Schema of its parameters.
    pub fn check(&self, parameters: &Value) -> Vec<String> {
        let mut faults = Blueprint::new(self).err().unwrap_or_default();
        let properties = parameters.get("properties").and_then(Value::as_object);
        let known: BTreeSet<&str> =
            properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let used = request::names(self);
        for name in used.iter().filter(|name| !known.contains(name.as_str())) {
            faults.push(format!("{{{name}}} stands for a parameter that is not declared"));
        }
        if self.body != Some(BodyTemplate::Arguments) {
            for name in known.into_iter().filter(|name| !used.contains(*name)) {
                faults.push(format!("parameter {name:?} appears nowhere in the request"));
            }
        }
        faults
    }
}

/// A tool that makes the request of its template.
///
/// Every request carries the call's key as `Idempotency-Key` and its span as `traceparent`. A
/// request that was perhaps sent and of which no whole answer came is lost.
pub struct HttpTool {
    /// The template, or why it cannot be used.
    blueprint: Result<Blueprint, String>,
    response_bytes_max: usize,
    client: reqwest::Client,
}

impl HttpTool {
    /// Makes the tool; a template with faults answers every call with them.
    #[expect(clippy::needless_pass_by_value, reason = "the tool belongs to its template")]
    pub fn new(spec: HttpSpec, client: reqwest::Client) -> Self {
        Self {
            blueprint: Blueprint::new(&spec).map_err(|faults| faults.join("; ")),
            response_bytes_max: spec.response_bytes_max,
            client,
        }
    }

    async fn exchange(&self, context: &ToolContext, arguments: &Value) -> ToolReply {
        let blueprint = match &self.blueprint {
            Ok(blueprint) => blueprint,
            Err(faults) => {
                return ToolReply::settled(CallOutcome::error(
                    ErrorCode::ToolUnavailable,
                    format!("the request template of the tool has faults: {faults}"),
                ));
            }
        };
        let none = Map::new();
        let arguments = arguments.as_object().unwrap_or(&none);
        let prepared = match blueprint.prepare(&self.client, context, arguments) {
            Ok(prepared) => prepared,
            Err(outcome) => return ToolReply::settled(outcome),
        };
        let host = blueprint.address.host();
        let exchange = async {
            let response = prepared.request.send().await?;
            Received::read(response, self.response_bytes_max).await
        };
        let time = context.answer_time();
        match timeout(time, exchange).await {
            Ok(Ok(received)) => ToolReply::settled(received.outcome(&prepared.secrets)),
            Ok(Err(error)) => unsent(&host, &error),
            Err(_) => {
                let lost = format!("{host} did not answer within {} ms", time.as_millis());
                ToolReply::lost(ErrorCode::ToolTimeout, lost)
            }
        }
    }
}

/// Says what a request means that had no whole answer: whether anything was sent.
pub(crate) fn unsent(host: &str, error: &reqwest::Error) -> ToolReply {
    // The outer errors only say that a request failed, and one of them shows the whole URL.
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(|cause| cause.source()) {
        cause = Some(deeper);
    }
    let cause = cause.map_or_else(|| "no cause given".to_owned(), ToString::to_string);
    if error.is_builder() {
        let message = format!("make the request: {cause}");
        return ToolReply::settled(CallOutcome::error(ErrorCode::ToolFailed, message));
    }
    if error.is_connect() {
        let message = format!("connect to {host}: {cause}");
        return ToolReply::settled(CallOutcome::error(ErrorCode::ToolUnavailable, message));
    }
    let lost = format!("the connection to {host} broke before the answer was complete: {cause}");
    ToolReply::lost(ErrorCode::ToolUnavailable, lost)
}

impl Tool for HttpTool {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(self.exchange(context, arguments))
    }
}
