//! Tools of MCP servers: programs beside the daemon and services over HTTP.
//!
//! A server says itself what its tools are, and may say something else tomorrow. So its list is
//! pinned ([`Catalog`]): agents are offered what was pinned, and a tool that is no longer what it
//! was is switched off until a person approves.

mod answer;
mod ask;
mod calls;
mod catalog;
mod dial;
pub(crate) mod draft;
mod fault;
mod look;
pub mod pin;
mod pipes;
mod posts;
mod program;
mod server;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CancelledNotificationParam,
    ClientRequest, RequestId, RequestMetaObject, RequestParamsMeta as _, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use wire::question::QUESTIONS_MAX;
use wire::{CallOutcome, EffectClass, ErrorCode, Name, ToolReply, header};

use crate::http::failure::Failure;
use crate::schema::compile;
use crate::secret::SecretRef;
use crate::tool::{Tool, ToolContext};
use answer::Reading;
use fault::{Fault, causes, read};
use server::{Server, Up};

pub use catalog::{Catalog, Change, Hints, Listed};
pub use server::{Servers, list};

/// The field of `_meta` under which a server finds the key of a call, the same on every attempt.
pub const CALL_KEY_FIELD: &str = "callboard/idempotency-key";

/// Times that a server may end one call with questions; whoever needs more asks in circles.
const ROUNDS_MAX: u32 = QUESTIONS_MAX;

/// Connections on which a call is tried that was certainly not made; a server that takes it on none
/// of them, such as one of several that do not share their sessions, takes it on no other.
const SENDS_MAX: u32 = 3;

/// How long a server that asks nothing and wants to be called again is left alone.
const ROUND_PAUSE: Duration = Duration::from_millis(500);

/// A server as a team file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// How it is reached.
    pub transport: Transport,
    /// How long it may take to start and to list its tools.
    pub start_timeout: Duration,
    /// Whether it may ask people.
    pub elicitation: bool,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A program that is started, and spoken to over its standard input and output.
    Process {
        /// The program and its arguments. A program with a slash is a path from `directory`;
        /// others are looked for in `PATH`.
        command: Vec<String>,
        /// Where it runs; relative to the directory of this process.
        directory: PathBuf,
        /// Its environment, beside the few variables that every server gets.
        env: Vec<(String, Setting)>,
    },
    /// Streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, Setting)>,
    },
}

/// The value of a variable or a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A text.
    Text(String),
    /// A secret, after a fixed text such as `Bearer `.
    Secret {
        /// What stands before the secret.
        prefix: String,
        /// The secret.
        secret: SecretRef,
    },
}

impl Setting {
    /// Returns what is wrong with it as the value of a header of this name, as far as that is known
    /// without its secret. The value is not repeated.
    pub fn header_fault(&self, name: &str) -> Option<&'static str> {
        if HeaderName::try_from(name).is_err() {
            return Some("is no name of a header");
        }
        HeaderValue::try_from(self.fixed()).err().map(|_| "has a value that cannot be sent")
    }

    /// Returns what is wrong with it as the value of a variable, as far as that is known without its
    /// secret. The value is not repeated.
    pub fn variable_fault(&self) -> Option<&'static str> {
        self.fixed().contains('\0').then_some("has a value with a NUL in it")
    }

    /// Returns what is known without its secret.
    fn fixed(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Secret { prefix, .. } => prefix,
        }
    }
}

/// One tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct McpSpec {
    /// The server.
    pub server: Name,
    /// What is pinned of the tool.
    pub listed: Arc<Listed>,
    /// What may be repeated.
    pub effect: EffectClass,
    /// Bytes of a result that are passed on; the rest is cut and marked as cut.
    pub response_bytes_max: usize,
    /// Whether its server may ask people.
    pub elicitation: bool,
}

/// A tool that is called on its server.
///
/// Every call carries its key under [`CALL_KEY_FIELD`] and its span as `traceparent`. A call that
/// was perhaps sent and was not answered is lost; the server is told when nobody waits any more.
/// A server of the current protocol that needs to know something of a person ends the call with
/// its questions, and is called again with the answers; such a call is lost if a later round cannot
/// be sent.
pub struct McpTool {
    spec: McpSpec,
    reading: Reading,
    /// Absent if the team has no such server.
    server: Option<Arc<Server>>,
}

impl McpTool {
    /// Makes the tool of a server.
    pub fn new(spec: McpSpec, servers: &Servers) -> Self {
        let output = spec.listed.output().and_then(|schema| compile(&schema).ok());
        let reading = Reading { output, bytes_max: spec.response_bytes_max };
        let server = servers.get(&spec.server);
        Self { spec, reading, server }
    }

    async fn exchange(&self, context: &ToolContext, arguments: &Value) -> ToolReply {
        let Some(server) = &self.server else {
            let text = format!("the team has no MCP server {}", self.spec.server);
            return ToolReply::settled(CallOutcome::error(ErrorCode::ToolUnavailable, text));
        };
        let end = Instant::now() + context.answer_time();
        let (mut after, mut why) = (0, String::new());
        for _ in 0..SENDS_MAX {
            let up = match server.up(after, end).await {
                Ok(up) => up,
                Err(error) => return ToolReply::settled(CallOutcome::Error { error }),
            };
            if let Some(off) = up.off(&self.spec.listed) {
                return ToolReply::settled(CallOutcome::Error {
                    error: off.to_error(&self.spec.server, &self.spec.listed.name),
                });
            }
            match self.ask(&up, context, arguments).await {
                Ok(reply) => return reply,
                // The call may wait for the server to come back.
                Err(Fault::NotSent(text)) => {
                    server.suspect(up.serial);
                    (after, why) = (up.serial, text);
                }
                Err(Fault::Doubtful(failure)) => {
                    server.suspect(up.serial);
                    return failure.into_reply();
                }
            }
        }
        let text = format!(
            "MCP server {} takes no call, and this one was not made: {why}",
            self.spec.server
        );
        ToolReply::settled(CallOutcome::error(ErrorCode::ToolUnavailable, text))
    }

    async fn ask(
        &self,
        up: &Up,
        context: &ToolContext,
        arguments: &Value,
    ) -> Result<ToolReply, Fault> {
        let server = &self.spec.server;
        let mut params = CallToolRequestParams::new(self.spec.listed.name.clone());
        params.arguments = arguments.as_object().cloned();
        let mut meta = RequestMetaObject::new();
        meta.insert(CALL_KEY_FIELD.to_owned(), Value::from(context.call.to_string()));
        meta.insert(header::TRACEPARENT.to_owned(), Value::from(context.trace.to_string()));
        params.set_meta(meta);
        let info = up.peer.peer_info();
        let version = info.map(|info| info.protocol_version.to_string());
        context.hop.note(|report| report.version = version);
        for round in 0..=ROUNDS_MAX {
            let asked = tokio::select! {
                asked = send(server, up, context, params.clone()) => asked,
                () = context.answer_time_over() => {
                    let text = format!("MCP server {server} did not answer the call in time");
                    return Err(Fault::Doubtful(Failure::lost(ErrorCode::ToolTimeout, text)));
                }
            };
            let response = match asked {
                Ok(Ok(response)) => response,
                Ok(Err(failure)) => return Ok(failure.into_reply()),
                // Begun anew, the call would ask again, and do again what it has done so far.
                Err(Fault::NotSent(why)) if round > 0 => {
                    let text = format!(
                        "MCP server {server} went away during the call, between two rounds: {why}"
                    );
                    let failure = Failure::lost(ErrorCode::ToolUnavailable, text);
                    return Err(Fault::Doubtful(failure));
                }
                Err(fault) => return Err(fault),
            };
            let needed = match response {
                CallToolResponse::InputRequired(needed) if self.spec.elicitation => needed,
                response => return Ok(self.reading.reply(response)),
            };
            let requests = needed.input_requests.unwrap_or_default();
            if requests.is_empty() {
                // It wants to be called again, and nothing else.
                sleep(ROUND_PAUSE).await;
            }
            match ask::fulfil(server, &context.interim, requests).await {
                Ok(responses) => params.input_responses = Some(responses),
                Err(text) => {
                    let outcome = CallOutcome::error(ErrorCode::ToolFailed, text);
                    return Ok(ToolReply::settled(outcome));
                }
            }
            params.request_state = needed.request_state;
        }
        let text = format!("MCP server {server} asked {ROUNDS_MAX} times and did not go on");
        Ok(ToolReply::settled(CallOutcome::error(ErrorCode::ToolFailed, text)))
    }
}

/// Sends a request of a call. Dropped before the answer, it tells the server that it is cancelled.
async fn send(
    server: &Name,
    up: &Up,
    context: &ToolContext,
    params: CallToolRequestParams,
) -> Result<Result<CallToolResponse, Failure>, Fault> {
    let begun = up.calls.begin(&context.run, &context.interim);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let options = PeerRequestOptions::no_options();
    let sent = up.peer.send_request_with_option(request, options).await;
    // The request was not even queued.
    let sent = sent.map_err(|error| Fault::NotSent(causes(&error)))?;
    begun.sent(sent.id.clone(), sent.progress_token.clone());
    let mut waiting = Waiting { peer: up.peer.clone(), request: Some(sent.id.clone()) };
    let answered = sent.await_response().await;
    waiting.request = None;
    let outcome = match answered {
        Ok(ServerResult::CallToolResult(result)) => Ok(Ok(CallToolResponse::Complete(result))),
        Ok(ServerResult::InputRequiredResult(result)) => {
            Ok(Ok(CallToolResponse::InputRequired(result)))
        }
        Ok(ServerResult::CreateTaskResult(result)) => Ok(Ok(CallToolResponse::Task(result))),
        Ok(_) => read(server, &ServiceError::UnexpectedResponse).map(Err),
        Err(error) => read(server, &error).map(Err),
    };
    if !matches!(outcome, Ok(Err(Failure::Lost(_))) | Err(Fault::Doubtful(Failure::Lost(_)))) {
        begun.over();
    }
    outcome
}

/// A request whose answer is waited for; its drop tells the server if that is over before.
struct Waiting {
    peer: Peer<RoleClient>,
    request: Option<RequestId>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let (Some(request), Ok(runtime)) = (self.request.take(), Handle::try_current()) else {
            return;
        };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let told = CancelledNotificationParam::new(Some(request), None);
            // A server that is away needs not to be told.
            drop(peer.notify_cancelled(told).await);
        });
    }
}

impl Tool for McpTool {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(self.exchange(context, arguments))
    }
}
