//! Makes the requests of one call and says what comes of them.

use std::collections::BTreeSet;
use std::error::Error as _;

use reqwest::{Request, StatusCode};
use serde_json::{Map, Value};
use tokio::time::timeout;
use wire::{CallOutcome, ErrorCode, ToolReply};

use super::failure::Failure;
use super::pages::{Gathered, Pages};
use super::request::{Blueprint, IDEMPOTENCY_KEY};
use super::response::{Head, Received, Said};
use super::{HttpTool, Output, address};
use crate::client::{SendError, retarget};
use crate::json;
use crate::output::excerpt;
use crate::schema::faults;
use crate::tool::{HopLog, ToolContext};

impl HttpTool {
    pub(super) async fn exchange(&self, context: &ToolContext, arguments: &Value) -> ToolReply {
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
        let request = match blueprint.prepare(context, arguments) {
            Ok(request) => request,
            Err(outcome) => return ToolReply::settled(outcome),
        };
        let host = address::host(request.url());
        let exchange = self.answer(context, request, blueprint);
        let time = context.answer_time();
        match timeout(time, exchange).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => unanswered(&host, error).into_reply(),
            Err(_) => {
                let lost = format!("{host} did not answer within {} ms", time.as_millis());
                ToolReply::lost(ErrorCode::ToolTimeout, lost)
            }
        }
    }

    /// Sends a request, and those for further pages, and says what comes of it.
    async fn answer(
        &self,
        context: &ToolContext,
        request: Request,
        blueprint: &Blueprint,
    ) -> Result<ToolReply, SendError> {
        let again = self.pages.as_ref().zip(request.try_clone());
        let received = self.ask(&context.hop, request, self.response_bytes_max).await?;
        let (said, head) = match received.said() {
            Ok(said) => said,
            Err(failure) => return Ok(failure.into_reply()),
        };
        let status = head.status;
        let (value, cut) = match (said, again) {
            (Said::Text(text), _) => return Ok(ToolReply::settled(self.text(text))),
            (Said::Json(value), None) => (value, None),
            (Said::Json(value), Some((pages, first))) => {
                let ask = Asked { hop: &context.hop, pages, first: &first, blueprint };
                match self.further(value, head, ask).await {
                    Ok(gathered) => gathered.into_parts(),
                    Err(failure) => return Ok(failure.into_reply()),
                }
            }
        };
        Ok(ToolReply::settled(self.checked(value, cut, status)))
    }

    async fn ask(
        &self,
        hop: &HopLog,
        request: Request,
        bytes_max: usize,
    ) -> Result<Received, SendError> {
        hop.goes_to(request.url());
        let answered = self.client.send(&self.reach, request).await?;
        hop.answered(&answered.response);
        Received::read(answered, bytes_max).await
    }

    /// Asks for the pages that follow one.
    async fn further(
        &self,
        value: Value,
        mut head: Head,
        ask: Asked<'_>,
    ) -> Result<Gathered, Failure> {
        let Asked { hop, pages, first, blueprint } = ask;
        let mut room = self.response_bytes_max.saturating_sub(head.bytes);
        let mut gathered = Gathered::new(value.clone());
        let mut page = value;
        let mut visited = BTreeSet::from([first.url().clone()]);
        while let Some(next) = pages.next(&page, &head.headers, &head.url, first.url()) {
            let mut url = next.map_err(|why| {
                Failure::settled(ErrorCode::ToolFailed, why).of_page(gathered.pages() + 1)
            })?;
            blueprint.complete(&mut url, first.url());
            if gathered.pages() >= pages.pages_max
                || !gathered.has_items(pages)
                || !visited.insert(url.clone())
            {
                gathered.stop();
                break;
            }
            let Some(mut request) = first.try_clone() else { break };
            request.headers_mut().remove(IDEMPOTENCY_KEY);
            let host = address::host(&url);
            retarget(&mut request, url);
            let asked = self.ask(hop, request, room).await;
            (page, head) =
                match asked.map_err(|error| unanswered(&host, error)).and_then(Received::said) {
                    Ok((Said::Json(value), head)) => (value, head),
                    // What does not fit, or is no page, is left out as a whole.
                    Ok((Said::Text(_), _)) => {
                        gathered.stop();
                        break;
                    }
                    Err(failure) => return Err(failure.of_page(gathered.pages() + 1)),
                };
            room = room.saturating_sub(head.bytes);
            gathered.add(page.clone(), pages);
        }
        Ok(gathered)
    }

    /// Makes the outcome of an answer that is no whole JSON.
    fn text(&self, text: String) -> CallOutcome {
        if self.output.as_ref().is_some_and(Output::is_strict) {
            let text = format!(
                "the answer is no whole JSON, which the tool is to return: {}",
                excerpt(&text)
            );
            return CallOutcome::error(ErrorCode::ToolFailed, text);
        }
        CallOutcome::text(text)
    }

    /// Makes the outcome of an answer, held to the schema that it is to obey.
    fn checked(&self, value: Value, cut: Option<String>, status: StatusCode) -> CallOutcome {
        let found = self.output.as_ref().and_then(|output| {
            let schema = output.of(status)?;
            let found = faults(schema, &value)?;
            // A large whole number is a text only here.
            faults(schema, &json::rounded(&value))?;
            Some((excerpt(&found).to_owned(), output.is_strict()))
        });
        let note = match found {
            Some((faults, true)) => {
                let text = format!(
                    "the call was made, but its answer does not obey `output_schema`: {faults}"
                );
                return CallOutcome::error(ErrorCode::ToolFailed, text);
            }
            Some((faults, false)) => {
                Some(format!("[this is not of the form that the interface promises: {faults}]"))
            }
            None => None,
        };
        let notes: Vec<String> = cut.into_iter().chain(note).collect();
        if notes.is_empty() {
            return CallOutcome::Ok { output: value };
        }
        CallOutcome::text(format!("{value}\n{}", notes.join("\n")))
    }
}

/// What is known of the pages that follow.
struct Asked<'a> {
    hop: &'a HopLog,
    pages: &'a Pages,
    /// The request for the first one.
    first: &'a Request,
    blueprint: &'a Blueprint,
}

/// Says what it means for a call that there is no answer.
pub(crate) fn unanswered(host: &str, error: SendError) -> Failure {
    match error {
        SendError::Forbidden(forbidden) => Failure::Settled(forbidden.into()),
        SendError::Client(error) => Failure::Settled(error),
        SendError::Redirects | SendError::Target(_) => {
            Failure::settled(ErrorCode::ToolFailed, error.to_string())
        }
        SendError::Redirected(error) => {
            let failure = unanswered("the place that it names", *error);
            let what = "took the request, but its redirect could not be followed";
            let failure = failure.told(|message| format!("{host} {what}: {message}"));
            Failure::Lost(failure.into_error())
        }
        SendError::Idle(_) => {
            Failure::lost(ErrorCode::ToolTimeout, format!("{host} went silent: {error}"))
        }
        SendError::Http(error) => broken(host, &error),
    }
}

fn broken(host: &str, error: &reqwest::Error) -> Failure {
    // The outer errors only say that a request failed, and one of them shows the whole URL.
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(|cause| cause.source()) {
        cause = Some(deeper);
    }
    let cause = cause.map_or_else(|| "no cause given".to_owned(), ToString::to_string);
    if error.is_builder() {
        return Failure::settled(ErrorCode::ToolFailed, format!("make the request: {cause}"));
    }
    if error.is_connect() {
        let message = format!("connect to {host}: {cause}");
        return Failure::settled(ErrorCode::ToolUnavailable, message);
    }
    let lost = format!("the connection to {host} broke before the answer was complete: {cause}");
    Failure::lost(ErrorCode::ToolUnavailable, lost)
}
