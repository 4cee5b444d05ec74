//! Runs: asked for, looked at and controlled, by the same messages that a NATS client sends.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header as http_header};
use axum::response::{IntoResponse as _, Response};
use bus::Bus;
use bytes::Bytes;
use node::TeamHandle;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use wire::run::INPUT_BYTES_MAX;
use wire::subject::RunVerb;
use wire::{ErrorCode, Headers, Name, RunId, RunRequest, TraceContext, WireError, header};

use crate::body;
use crate::refusal::Refusal;
use crate::state::{Doors, Query, Segments, listed, run_id, shown};

/// How long a result is waited for unless the request says otherwise.
pub const RESULT_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// How long a result is waited for at most; whoever wants to wait longer asks again.
pub const RESULT_WAIT_MAX: Duration = Duration::from_secs(600);

/// How long past the time of a run its reply is waited for; the node itself says sooner that it
/// is late.
const REPLY_GRACE: Duration = Duration::from_secs(10);

/// How long acceptance, a look at a run or an order to it may take: longer than a session has for
/// it in the node, which says what went wrong.
pub(crate) const CONTROL_TIMEOUT: Duration = Duration::from_secs(35);

/// How long is waited before a request is made again that found nobody on a connection that was
/// just made anew.
const AGAIN_PAUSE: Duration = Duration::from_millis(100);

/// The query of a request for a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    wait: Option<bool>,
}

/// The query of a request for a result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Timeout {
    timeout_ms: Option<u64>,
}

pub(crate) async fn submit(
    State(doors): State<Doors>,
    Segments((team_name, agent)): Segments<(String, String)>,
    Query(query): Query<Wait>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = body::read(&headers, body).await?;
    let team = doors.team(&team_name)?;
    let present = team.team();
    let waits = query.wait.unwrap_or_else(|| !prefers_async(&headers));
    let found = Name::new(&agent).ok().and_then(|name| present.agents.get(&name));
    let Some(plan) = found else {
        let known = Box::pin(repeated(&doors, team, &agent, &body, waits)).await?;
        let text = || format!("team {team_name} has no agent {}", shown(&agent));
        return known.ok_or_else(|| Refusal::new(ErrorCode::UnknownAgent, text()));
    };
    let request = read_request(&body)?;
    let run = request.run.clone().unwrap_or_else(RunId::fresh);
    let limit = plan.limits.deadline_ms;
    let within = request.timeout_ms.map_or(limit, |asked| asked.min(limit));
    let request = RunRequest { run: Some(run.clone()), ..request };
    let payload = serde_json::to_vec(&request).map_err(|error| {
        Refusal::new(ErrorCode::Internal, format!("write the request: {error}"))
    })?;
    let subject = team.subjects().agent_run(&present.name, &plan.agent);
    let mut passed_on = Headers::new();
    if let Some(trace) = traceparent(&headers) {
        passed_on.insert(header::TRACEPARENT, trace);
    }
    if waits {
        let wait = Duration::from_millis(within).saturating_add(REPLY_GRACE);
        let asked = Asked {
            subject,
            headers: passed_on,
            payload: payload.into(),
            within: wait,
            is_long: true,
            is_repeatable: true,
        };
        return ask(&doors, team, &run, asked).await.map(json);
    }
    passed_on.insert(header::REPLY_MODE, header::REPLY_ACCEPTED);
    let asked = Asked {
        subject,
        headers: passed_on,
        payload: payload.into(),
        within: CONTROL_TIMEOUT,
        is_long: false,
        is_repeatable: true,
    };
    let reply = ask(&doors, team, &run, asked).await?;
    Ok(accepted(&present.name, &run, reply))
}

/// Answers a request for a run that is known, in place of its agent that the team has no longer.
async fn repeated(
    doors: &Doors,
    team: &TeamHandle,
    agent: &str,
    body: &[u8],
    waits: bool,
) -> Result<Option<Response>, Refusal> {
    let (Ok(agent), Ok(request)) = (Name::new(agent), read_request(body)) else { return Ok(None) };
    let wait = request.timeout_ms.map_or(RESULT_WAIT_MAX, Duration::from_millis);
    let Some(taken) = team.accepted_before(&agent, request).await? else { return Ok(None) };
    let run = &taken.run;
    if waits {
        let reply = ask(doors, team, run, Asked::result(team, run, wait)).await?;
        return Ok(Some(json(reply)));
    }
    let body = serde_json::to_vec(&taken)
        .map_err(|error| Refusal::new(ErrorCode::Internal, format!("write the answer: {error}")))?;
    Ok(Some(accepted(&team.team().name, run, body.into())))
}

/// Says that a run is taken, and where it is found.
fn accepted(team: &Name, run: &RunId, body: Bytes) -> Response {
    let mut response = (StatusCode::ACCEPTED, json(body)).into_response();
    let location = format!("/v1/teams/{team}/runs/{run}");
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(http_header::LOCATION, location);
    }
    response
}

pub(crate) async fn status(
    State(doors): State<Doors>,
    Segments((team, run)): Segments<(String, String)>,
) -> Result<Response, Refusal> {
    order(&doors, &team, &run, RunVerb::Status, Bytes::new()).await
}

pub(crate) async fn cancel(
    State(doors): State<Doors>,
    Segments((team, run)): Segments<(String, String)>,
) -> Result<Response, Refusal> {
    order(&doors, &team, &run, RunVerb::Cancel, Bytes::new()).await
}

pub(crate) async fn answer(
    State(doors): State<Doors>,
    Segments((team, run)): Segments<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = body::read(&headers, body).await?;
    order(&doors, &team, &run, RunVerb::Answer, body).await
}

pub(crate) async fn result(
    State(doors): State<Doors>,
    Segments((team, run)): Segments<(String, String)>,
    Query(query): Query<Timeout>,
) -> Result<Response, Refusal> {
    let team = doors.team(&team)?;
    let run = run_id(&run)?;
    // A run that was accepted a moment ago is known when the store has caught up.
    team.settle().await;
    let wait = query.timeout_ms.map_or(RESULT_WAIT_DEFAULT, Duration::from_millis);
    ask(&doors, team, &run, Asked::result(team, &run, wait)).await.map(json)
}

async fn order(
    doors: &Doors,
    team: &str,
    run: &str,
    verb: RunVerb,
    body: Bytes,
) -> Result<Response, Refusal> {
    let team = doors.team(team)?;
    let run = run_id(run)?;
    team.settle().await;
    let subject = team.subjects().run(&team.team().name, &run, verb);
    let asked = Asked {
        subject,
        headers: Headers::new(),
        payload: body,
        within: CONTROL_TIMEOUT,
        is_long: false,
        is_repeatable: false,
    };
    ask(doors, team, &run, asked).await.map(json)
}

/// A request that concerns a run.
struct Asked {
    subject: String,
    headers: Headers,
    payload: Bytes,
    within: Duration,
    /// Whether what is waited for is a run, which may take days.
    is_long: bool,
    /// Whether it may be made again where it may have been lost: by the run's id it is the same.
    is_repeatable: bool,
}

impl Asked {
    /// Asks for the result of a run.
    fn result(team: &TeamHandle, run: &RunId, wait: Duration) -> Self {
        let wait = wait.min(RESULT_WAIT_MAX);
        let headers = Headers::new().with(header::REMAINING_MS, wait.as_millis().to_string());
        Self {
            subject: team.subjects().run(&team.team().name, run, RunVerb::Result),
            headers,
            payload: Bytes::new(),
            within: wait.saturating_add(REPLY_GRACE),
            is_long: true,
            is_repeatable: true,
        }
    }

    /// Makes the request, and makes it again when the connection was lost meanwhile and is there
    /// again.
    async fn answer(mut self, bus: &Bus) -> Result<bus::Message, bus::Error> {
        let end = Instant::now() + self.within;
        // Until when somebody has to be found again on a connection that was made anew.
        let mut found_until = None::<Instant>;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if found_until.is_some() && self.headers.get(header::REMAINING_MS).is_some() {
                let remaining = left.saturating_sub(REPLY_GRACE).as_millis().to_string();
                self.headers.insert(header::REMAINING_MS, remaining);
            }
            let wait = if self.is_long { bus::Wait::long(left) } else { left.into() };
            let wait = wait.with_grace(REPLY_GRACE);
            let (headers, payload) = (self.headers.clone(), self.payload.clone());
            let answered = tokio::select! {
                answered = bus.request(&self.subject, headers, payload, wait) => answered,
                () = bus.mended(), if self.is_repeatable => {
                    found_until = Some((Instant::now() + CONTROL_TIMEOUT).min(end));
                    continue;
                }
            };
            // The subscriptions are made anew as well, one after the other.
            let is_early = found_until.is_some_and(|until| Instant::now() + AGAIN_PAUSE < until);
            match answered {
                Err(bus::Error::NoResponders { .. }) if is_early => sleep(AGAIN_PAUSE).await,
                answered => return answered,
            }
        }
    }
}

/// Makes a request that concerns a run and returns the body of the answer.
///
/// A reply that is too large for the bus is taken from the store.
async fn ask(
    doors: &Doors,
    team: &TeamHandle,
    run: &RunId,
    asked: Asked,
) -> Result<Bytes, Refusal> {
    let answer = asked.answer(doors.node.bus()).await.map_err(|error| match error {
        bus::Error::Timeout { .. } => {
            WireError { message: format!("run {run} may be at work: {error}"), ..error.to_wire() }
                .into()
        }
        error => Refusal::from(error),
    })?;
    let Some(error) = refusal_in(&answer) else { return Ok(answer.payload) };
    if error.code == ErrorCode::TooLarge
        && let Some(stored) = stored_reply(team, run).await
    {
        return Ok(stored);
    }
    Err(error.into())
}

async fn stored_reply(team: &TeamHandle, run: &RunId) -> Option<Bytes> {
    team.settle().await;
    let (store, run) = (team.store().clone(), run.clone());
    let found = spawn_blocking(move || store.reply(&run)).await;
    found.ok()?.ok()?.map(Bytes::from)
}

/// Returns the error of an answer that reports nothing else. The reply of a run that failed has
/// the same headers and is an answer like any other.
pub(crate) fn refusal_in(answer: &bus::Message) -> Option<WireError> {
    #[derive(Deserialize)]
    struct Shape {
        run: Option<IgnoredAny>,
        error: Option<WireError>,
    }
    answer.headers.get(header::SERVICE_ERROR_CODE)?;
    let unreadable =
        || WireError::new(ErrorCode::Internal, "the node's answer is an error that cannot be read");
    match serde_json::from_slice::<Shape>(&answer.payload) {
        Ok(Shape { run: Some(_), .. }) => None,
        Ok(Shape { error, .. }) => Some(error.unwrap_or_else(unreadable)),
        Err(_) => Some(unreadable()),
    }
}

fn read_request(body: &[u8]) -> Result<RunRequest, Refusal> {
    let request: RunRequest = serde_json::from_slice(body).map_err(|error| {
        Refusal::new(ErrorCode::BadRequest, format!("the body cannot be read: {error}"))
    })?;
    // Checked here as well, so that an answer of this code on the bus can only mean the reply.
    if request.input.len() > INPUT_BYTES_MAX {
        let text = format!("the input has more than {INPUT_BYTES_MAX} bytes");
        return Err(Refusal::new(ErrorCode::TooLarge, text));
    }
    if request.parent.is_some() {
        let text = "the body cannot be read: `parent` is for agents that ask, not for clients";
        return Err(Refusal::new(ErrorCode::BadRequest, text));
    }
    Ok(request)
}

fn traceparent(headers: &HeaderMap) -> Option<TraceContext> {
    headers.get(header::TRACEPARENT)?.to_str().ok()?.parse().ok()
}

/// Tells whether the client asks, by RFC 7240, not to be kept waiting.
fn prefers_async(headers: &HeaderMap) -> bool {
    listed(headers, "prefer").any(|preference| preference.eq_ignore_ascii_case("respond-async"))
}

pub(crate) fn json(body: Bytes) -> Response {
    ([(http_header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_or_refused() {
        let long = format!(r#"{{"input":"{}"}}"#, "x".repeat(INPUT_BYTES_MAX + 1));
        let deep = format!(r#"{{"input":{}"#, "[".repeat(100_000));
        let bad = Some(ErrorCode::BadRequest);
        let cases: [(&[u8], Option<ErrorCode>); 9] = [
            (br#"{"input":"x"}"#, None),
            (br#"{"input":"x","run":"r-1","budget":{"tokens":5}}"#, None),
            (b"", bad),
            (b"\xff\xfe", bad),
            (br#"{"input":7}"#, bad),
            (br#"{"input":"x","inptu":"y"}"#, bad),
            (br#"{"input":"x","parent":{"session":"s","run":"r","depth":1}}"#, bad),
            (deep.as_bytes(), bad),
            (long.as_bytes(), Some(ErrorCode::TooLarge)),
        ];
        for (body, expected) in cases {
            let read = read_request(body);
            let shown = String::from_utf8_lossy(&body[..body.len().min(60)]);
            assert_eq!(read.err().map(|refusal| refusal.code()), expected, "{shown}");
        }
    }

    #[test]
    fn a_failed_run_is_no_refusal() {
        let failed = Headers::new().with(header::SERVICE_ERROR_CODE, "E4001");
        let error = r#""error":{"code":"E4001","message":"m"}"#;
        let cases = [
            (Headers::new(), format!("{{{error}}}"), None),
            (failed.clone(), format!(r#"{{"run":"r",{error}}}"#), None),
            (failed.clone(), format!("{{{error}}}"), Some(ErrorCode::StepLimit)),
            (failed.clone(), "{}".to_owned(), Some(ErrorCode::Internal)),
            (failed, "not JSON".to_owned(), Some(ErrorCode::Internal)),
        ];
        for (headers, body, expected) in cases {
            let answer = bus::Message {
                subject: "s".to_owned(),
                reply: None,
                headers,
                payload: body.clone().into(),
            };
            assert_eq!(refusal_in(&answer).map(|error| error.code), expected, "{body}");
        }
    }

    #[test]
    fn preferences_are_read_out_of_lists() {
        for (value, expected) in
            [("respond-async", true), ("wait=5, Respond-Async", true), ("wait=5", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", HeaderValue::from_static(value));
            assert_eq!(prefers_async(&headers), expected, "{value}");
        }
    }
}
