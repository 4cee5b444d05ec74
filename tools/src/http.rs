//! Tools that are requests to an HTTP server, made from a template.

use futures_util::future::BoxFuture;
use serde_json::Value;
use wire::{CallOutcome, ErrorCode, ToolReply};

use crate::secret::SecretRef;
use crate::tool::{Tool, ToolContext};

/// A request template. `{name}` in a text stands for the argument of that name.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSpec {
    /// `GET`, `HEAD`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The address; arguments are percent-encoded as path segments.
    pub url: String,
    /// Query parameters; one whose argument is absent or null is left out.
    pub query: Vec<(String, String)>,
    /// Headers.
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
    /// A JSON value in which a text that is exactly `{name}` becomes the argument itself.
    Json(Value),
    /// A text, with `{name}` for arguments.
    Text(String),
}

/// A tool that makes the request of its template.
pub struct HttpTool;

impl HttpTool {
    /// Makes the tool.
    pub fn new(_spec: HttpSpec, _client: reqwest::Client) -> Self {
        Self
    }
}

impl Tool for HttpTool {
    fn call<'a>(&'a self, _: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolReply> {
        let outcome = CallOutcome::error(ErrorCode::ToolUnavailable, "not built");
        Box::pin(async { ToolReply::Settled { outcome } })
    }
}
