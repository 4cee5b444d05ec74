//! Replies to the events that tools sent: taken, and counted.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use node::RepliesOf;
use serde::{Deserialize, Serialize};
use wire::{ErrorCode, Headers, Name};

use crate::body;
use crate::refusal::Refusal;
use crate::runs::{CONTROL_TIMEOUT, refusal_in};
use crate::state::{Doors, Segments, shown};

/// The header that says what became of a reply. A broker that delivers one takes any body of the
/// answer for an event, and the delivery for failed where that is none.
const TAKEN: HeaderName = HeaderName::from_static("callboard-taken");

/// The sources of event types of a team whose replies are events.
#[derive(Serialize)]
pub(crate) struct Sources {
    eventtypes: Vec<RepliesOf>,
}

/// What the node says of a reply.
#[derive(Deserialize)]
struct Told {
    taken: String,
}

pub(crate) async fn list(
    State(doors): State<Doors>,
    Segments(team): Segments<String>,
) -> Result<Json<Sources>, Refusal> {
    Ok(Json(Sources { eventtypes: doors.team(&team)?.event_replies() }))
}

pub(crate) async fn take(
    State(doors): State<Doors>,
    Segments((team, source)): Segments<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = body::read(&headers, body).await?;
    let team = doors.team(&team)?;
    let asks = |known: &RepliesOf| known.name.as_str() == source;
    let known = Name::new(&source).ok().filter(|_| team.event_replies().iter().any(asks));
    let Some(name) = known else {
        let text = format!("no event types {} of the team take replies here", shown(&source));
        return Err(Refusal::new(ErrorCode::UnknownTool, text));
    };
    let mut passed = Headers::new();
    for (name, value) in &headers {
        let name = name.as_str();
        if let (true, Ok(value)) =
            (name == "content-type" || name.starts_with("ce-"), value.to_str())
        {
            passed.insert(name.to_owned(), value);
        }
    }
    let subject = team.subjects().event_reply(&team.team().name, &name);
    let answer = doors.node.bus().request(&subject, passed, body, CONTROL_TIMEOUT).await?;
    if let Some(error) = refusal_in(&answer) {
        return Err(error.into());
    }
    let told = serde_json::from_slice(&answer.payload).ok();
    let taken = told.and_then(|Told { taken }| HeaderValue::try_from(taken).ok());
    let Some(taken) = taken else {
        let text = "the node's answer to a reply cannot be read";
        return Err(Refusal::new(ErrorCode::Internal, text));
    };
    Ok((StatusCode::ACCEPTED, [(TAKEN, taken)]).into_response())
}
