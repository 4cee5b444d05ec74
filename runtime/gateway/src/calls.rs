//! Open calls: listed, looked at, and decided by people.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use serde::Deserialize;
use wire::open::OpenCallList;
use wire::subject::CallVerb;
use wire::{CallKey, ErrorCode, Headers, OpenCall, OpenKind};

use crate::body;
use crate::look::LIST_DEFAULT;
use crate::looks::in_time;
use crate::refusal::Refusal;
use crate::runs::{CONTROL_TIMEOUT, json, refusal_in};
use crate::state::{Doors, Query, Segments, shown};

/// The query of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    kind: Option<OpenKind>,
    limit: Option<usize>,
}

pub(crate) async fn list(
    State(doors): State<Doors>,
    Segments(team): Segments<String>,
    Query(which): Query<Which>,
) -> Result<Json<OpenCallList>, Refusal> {
    let limit = which.limit.unwrap_or(LIST_DEFAULT);
    let team = doors.team(&team)?;
    in_time(async { Ok(team.open_calls(which.kind, limit).await?) }).await.map(Json)
}

pub(crate) async fn show(
    State(doors): State<Doors>,
    Segments((team, call)): Segments<(String, String)>,
) -> Result<Json<OpenCall>, Refusal> {
    let key = call_key(&call)?;
    let team = doors.team(&team)?;
    let found = in_time(async { Ok(team.open_call(key).await?) }).await?;
    found.map(Json).ok_or_else(|| {
        Refusal::new(ErrorCode::UnknownCall, format!("call {} is not open", shown(&call)))
    })
}

pub(crate) async fn approve(
    State(doors): State<Doors>,
    Segments((team, call)): Segments<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    decide(&doors, &team, &call, CallVerb::Approve, body::read(&headers, body).await?).await
}

pub(crate) async fn deny(
    State(doors): State<Doors>,
    Segments((team, call)): Segments<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    decide(&doors, &team, &call, CallVerb::Deny, body::read(&headers, body).await?).await
}

pub(crate) async fn resolve(
    State(doors): State<Doors>,
    Segments((team, call)): Segments<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    decide(&doors, &team, &call, CallVerb::Resolve, body::read(&headers, body).await?).await
}

/// Passes a decision on to the node, which answers with the state of the run after it.
async fn decide(
    doors: &Doors,
    team: &str,
    call: &str,
    verb: CallVerb,
    body: Bytes,
) -> Result<Response, Refusal> {
    let team = doors.team(team)?;
    let call = call_key(call)?;
    let subject = team.subjects().call(&team.team().name, &call, verb);
    let answer = doors.node.bus().request(&subject, Headers::new(), body, CONTROL_TIMEOUT).await?;
    match refusal_in(&answer) {
        Some(error) => Err(error.into()),
        None => Ok(json(answer.payload)),
    }
}

fn call_key(text: &str) -> Result<CallKey, Refusal> {
    CallKey::new(text).map_err(|error| {
        Refusal::new(ErrorCode::BadRequest, format!("{} is no key of a call: {error}", shown(text)))
    })
}
