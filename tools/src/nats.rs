//! Tools that are requests on a subject of NATS, made from a template.

mod request;
mod service;
mod subject;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use wire::{CallOutcome, EffectClass, ErrorCode, Name, ToolReply, WireError, header};

use crate::http::{BodyTemplate, FieldSource};
use crate::messenger::{Letter, Messenger, Missed, is_refusal, may_pass};
use crate::output::{Body, cut_mark, excerpt, value};
use crate::tool::{Tool, ToolContext};
use request::Blueprint;

pub use service::Described;
pub use subject::{SUBJECT_BYTES_MAX, TOKEN_BYTES_MAX};

/// How long a call waits for somebody to listen before it is told that nobody does: a service that
/// is restarted is back by then, and one that is gone holds up no run.
const AWAY_MAX: Duration = Duration::from_secs(2);

/// The first pause before a request is made again that nobody took; each is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// A request template. `{name}` in a text stands for the argument of that name.
#[derive(Clone, Debug, PartialEq)]
pub struct NatsSpec {
    /// The source that found the tool; its subject is taken as it is. Absent for one of the team's
    /// own text.
    pub source: Option<Name>,
    /// Where is asked; an argument stands for one whole token, and not for the first.
    pub subject: String,
    /// Headers; one whose argument is absent or null is left out.
    pub headers: Vec<(String, FieldSource)>,
    /// The body.
    pub body: BodyTemplate,
    /// Bytes of an answer that are read; the rest is cut and marked as cut.
    pub response_bytes_max: usize,
}

impl NatsSpec {
    /// Returns what may be repeated: nothing, unless somebody who knows the service says so.
    pub const fn effect(&self) -> EffectClass {
        EffectClass::Once
    }

    /// Returns the faults of the template, also against the JSON Schema of its parameters.
    pub fn check(&self, parameters: &Value) -> Vec<String> {
        let mut faults = Blueprint::new(self).err().unwrap_or_default();
        faults.extend(request::misfits(self, parameters));
        faults
    }
}

/// A tool that makes the request of its template.
///
/// Every request carries the call's key as `Idempotency-Key` and `Nats-Msg-Id`, its span as
/// `traceparent`, and the time that is left. A request that nobody took is made again for a little
/// while; one that was perhaps taken and is not answered is lost.
pub struct NatsTool {
    /// The template, or why it cannot be used.
    blueprint: Result<Blueprint, String>,
    response_bytes_max: usize,
    messenger: Arc<dyn Messenger>,
}

impl NatsTool {
    /// Makes the tool; a template with faults answers every call with them.
    pub fn new(spec: &NatsSpec, messenger: Arc<dyn Messenger>) -> Self {
        Self {
            blueprint: Blueprint::new(spec).map_err(|faults| faults.join("; ")),
            response_bytes_max: spec.response_bytes_max,
            messenger,
        }
    }

    async fn exchange(&self, context: &ToolContext, arguments: &Value) -> ToolReply {
        let none = Map::new();
        let arguments = arguments.as_object().unwrap_or(&none);
        let prepared = match &self.blueprint {
            Ok(blueprint) => blueprint.prepare(context, arguments, self.messenger.as_ref()),
            Err(faults) => Err(CallOutcome::error(
                ErrorCode::ToolUnavailable,
                format!("the request template of the tool has faults: {faults}"),
            )),
        };
        let letter = match prepared {
            Ok(letter) => letter,
            Err(outcome) => return ToolReply::settled(outcome),
        };
        let time = context.answer_time();
        let subject = letter.subject.clone();
        let answer = match ask(self.messenger.as_ref(), letter, Instant::now() + time).await {
            Ok(answer) => answer,
            Err(Missed::NotDelivered(error)) => return ToolReply::settled(not_made(&error)),
            Err(Missed::Unanswered(error)) if error.code != ErrorCode::DeadlineExceeded => {
                let text = format!("no answer came from {subject}: {}", error.message);
                return ToolReply::lost(ErrorCode::ToolUnavailable, text);
            }
            Err(Missed::Unanswered(_)) => {
                let text = format!("{subject} did not answer within {} ms", time.as_millis());
                return ToolReply::lost(ErrorCode::ToolTimeout, text);
            }
        };
        let whole = &answer.payload;
        let kept = whole.get(..self.response_bytes_max).unwrap_or(whole);
        let is_cut = kept.len() < whole.len();
        let body = Body::read(kept, answer.headers.get(header::CONTENT_TYPE).as_deref(), is_cut);
        let cut = is_cut.then_some(kept.len());
        ToolReply::settled(outcome(&subject, &answer, body, cut))
    }
}

/// Makes a request, and makes it again for a little while if nobody took it.
///
/// The messenger ends the waiting: it alone knows whether the request has left by then.
pub(crate) async fn ask(
    messenger: &dyn Messenger,
    mut letter: Letter,
    end: Instant,
) -> Result<Letter, Missed> {
    let patience = end.min(Instant::now() + AWAY_MAX);
    let mut pause = PAUSE_MIN;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        letter.headers.insert(header::REMAINING_MS, left.as_millis().to_string());
        let asked = messenger.request(letter.clone(), left).await;
        match asked.and_then(answered) {
            Err(Missed::NotDelivered(error))
                if may_pass(error.code) && Instant::now() + pause < patience => {}
            asked => return asked,
        }
        sleep(pause).await;
        pause *= 2;
    }
}

/// Takes an answer, unless it is one by which a node of the runtime says that it has no reply to a
/// run: an agent of another team may have begun with it, and go on when its node is there again.
fn answered(answer: Letter) -> Result<Letter, Missed> {
    /// An error by itself; the reply to a run that failed names the run beside it.
    #[derive(Deserialize)]
    struct Told {
        error: WireError,
        #[serde(default)]
        run: Option<IgnoredAny>,
    }
    let Some(code) = answer.headers.get(header::SERVICE_ERROR_CODE) else { return Ok(answer) };
    match serde_json::from_slice(&answer.payload) {
        Ok(Told { error, run: None }) if *error.code.as_str() == *code => {
            if may_pass(error.code) || is_refusal(error.code) {
                return Err(Missed::NotDelivered(error));
            }
            // By its own code it would be told as a silence.
            Err(Missed::Unanswered(WireError::new(ErrorCode::Unavailable, error.to_string())))
        }
        _ => Ok(answer),
    }
}

/// Says that nobody took the request.
pub(crate) fn not_made(error: &WireError) -> CallOutcome {
    let code = if may_pass(error.code) { ErrorCode::ToolUnavailable } else { error.code };
    let message = format!("{}; the call was not made", error.message);
    let mut made = WireError::new(code, message);
    made.retry_after_ms = error.retry_after_ms;
    CallOutcome::Error { error: made }
}

/// Says what an answer means for the call; `cut` is how much of its body was read, if not all.
fn outcome(subject: &str, answer: &Letter, body: Body, cut: Option<usize>) -> CallOutcome {
    let code = answer.headers.get(header::SERVICE_ERROR_CODE);
    let told = answer.headers.get(header::SERVICE_ERROR);
    if code.is_some() || told.is_some() {
        let code = code.map_or_else(String::new, |code| format!(" {}", excerpt(&code)));
        let text = body.into_text();
        let parts = [told.as_deref().unwrap_or_default(), text.trim()].map(excerpt);
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let message = format!("{subject} answered with error{code}: {}", parts.join(": "));
        return CallOutcome::error(ErrorCode::ToolFailed, message);
    }
    let text = match body {
        Body::Text(text) => text,
        Body::NotShown(told) => return CallOutcome::text(told),
    };
    if let Some(bytes) = cut {
        return CallOutcome::text(text + &cut_mark(bytes));
    }
    if text.trim().is_empty() {
        return CallOutcome::text(format!("{subject} answered without a body"));
    }
    CallOutcome::Ok { output: value(&text) }
}

impl Tool for NatsTool {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(self.exchange(context, arguments))
    }
}
