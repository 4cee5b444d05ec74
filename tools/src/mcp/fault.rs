//! What is known of a call that brought no result: whether it was made, and whether the connection
//! holds.

use std::error::Error as StdError;
use std::iter::successors;

use reqwest::StatusCode;
use rmcp::ServiceError;
use rmcp::service::ClientInitializeError;
use wire::{ErrorCode, Name, WireError};

use super::posts::{HttpError, Unnamed};
use crate::http::failure::{Failure, Meaning, meaning, retry_after_ms};
use crate::output::excerpt;
use crate::secret::clean;

/// Why a call has no answer where its connection is in doubt.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// It was certainly not made, and why.
    NotSent(String),
    /// What is known of it, and the server is to be looked at, which may not be there any more or may
    /// know us no longer.
    Doubtful(Failure),
}

/// Says what an error means for a call. A failure is the word of the server, or of somebody before
/// it, so the connection holds, and other calls may be under way on it.
pub(super) fn read(server: &Name, error: &ServiceError) -> Result<Failure, Fault> {
    match error {
        // Over HTTP its status is not known: the library hands on the body alone, also that of a 502.
        ServiceError::McpError(error) => Ok(refusal(server, &error.message)),
        ServiceError::UnexpectedResponse => {
            let text = format!("MCP server {server} answered with what is no result of a call");
            Ok(Failure::lost(ErrorCode::ToolFailed, text))
        }
        ServiceError::TransportSend(error) => match error.error.downcast_ref() {
            Some(error) => read_http(server, error),
            None => Err(broken(server, &*error.error)),
        },
        error => Err(broken(server, error)),
    }
}

fn read_http(server: &Name, error: &HttpError) -> Result<Failure, Fault> {
    if let Some(refused) = Unnamed::held(error) {
        return Err(Fault::Doubtful(refusal(server, &refused.to_string())));
    }
    let (status, retry_after) = match error {
        HttpError::Client(failed) if failed.is_connect() => {
            return Err(Fault::NotSent(clean(causes(error))));
        }
        // The server knows the session no longer, and takes nothing that names it.
        HttpError::SessionExpired => return Err(Fault::NotSent(causes(error))),
        HttpError::HttpStatus(told) => (Some(told.status), told.retry_after.as_deref()),
        HttpError::AuthRequired(_) => (Some(StatusCode::UNAUTHORIZED.as_u16()), None),
        HttpError::InsufficientScope(_) => (Some(StatusCode::FORBIDDEN.as_u16()), None),
        HttpError::UnexpectedServerResponse(text) => (told_status(text), None),
        HttpError::UnexpectedContentType(_)
        | HttpError::ResponseBodyTooLarge { .. }
        | HttpError::Deserialize(_) => (None, None),
        error => return Err(broken(server, error)),
    };
    let said = clean(causes(error));
    let said = excerpt(&said);
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    // Elsewhere than among the refusals a status without a result says nothing of the call.
    let refusal = status.filter(|status| status.is_client_error() || status.is_server_error());
    let error = |code: ErrorCode, text: String| WireError {
        retry_after_ms: retry_after_ms(|name| retry_after.filter(|_| name == "retry-after")),
        ..WireError::new(code, text)
    };
    Ok(match refusal.map(meaning) {
        Some(Meaning::Failed) => {
            let text = format!("MCP server {server} refused the call: {said}");
            Failure::Settled(error(ErrorCode::ToolFailed, text))
        }
        Some(Meaning::Unknown(code)) => {
            let text = format!("nobody knows what MCP server {server} did of the call: {said}");
            Failure::Lost(error(code, text))
        }
        Some(Meaning::Done) | None => {
            let text = format!("MCP server {server} answered what cannot be read: {said}");
            Failure::lost(ErrorCode::ToolFailed, text)
        }
    })
}

/// Returns the status of a refusal that the library knows by its text alone, which begins as in
/// `HTTP 400 Bad Request: `; what the server said stands behind that.
fn told_status(text: &str) -> Option<u16> {
    text.strip_prefix("HTTP ")?.split(' ').next()?.parse().ok()
}

fn refusal(server: &Name, said: &str) -> Failure {
    let text = format!("MCP server {server} refused the call: {said}");
    Failure::settled(ErrorCode::ToolFailed, clean(text))
}

fn broken(server: &Name, error: &(dyn StdError + 'static)) -> Fault {
    let text = format!("MCP server {server} went away during the call: {}", causes(error));
    Fault::Doubtful(Failure::lost(ErrorCode::ToolUnavailable, clean(text)))
}

/// Tells whether a request failed because there was nobody to connect to.
pub(super) fn is_connect(error: &(dyn StdError + 'static)) -> bool {
    let failed = |cause: &(dyn StdError + 'static)| {
        cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect)
    };
    successors(Some(error), |error| source(*error)).any(failed)
}

/// Writes an error with what it comes from, as far as that says more.
pub(super) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for cause in successors(source(error), |error| source(*error)) {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

/// Returns what an error comes from, also where the library holds it and does not say so.
fn source<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    if let Some(ServiceError::TransportSend(held)) = error.downcast_ref() {
        return Some(held);
    }
    if let Some(HttpError::Client(held)) = error.downcast_ref() {
        return Some(held);
    }
    match error.downcast_ref() {
        Some(ClientInitializeError::TransportError { error, .. }) => Some(error),
        Some(ClientInitializeError::LegacyFallbackFailed { fallback, .. }) => Some(&**fallback),
        _ => error.source(),
    }
}
