//! Look-ups: the node, its teams, and what their stores hold.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use node::{TeamHandle, Unready};
use serde::Deserialize;
use store::Store;
use tokio::task::spawn_blocking;
use wire::{ErrorCode, SessionId, Timestamp};

use crate::filter::TraceFilter;
use crate::nodes::Format;
use crate::refusal::Refusal;
use crate::sign_in::Known;
use crate::state::{Doors, Query, Segments, shown};
use crate::view;
use crate::view::{
    AgentView, FactList, Readiness, RunList, SessionList, SessionView, StoreCheck, TeamList,
    TeamView, ToolView, TraceList, UsageList,
};

/// How many rows a list has unless the request says otherwise: what fits on a screen or two.
pub const LIST_DEFAULT: usize = 50;

/// How many days are told of unless the request says otherwise.
pub const USAGE_DAYS_DEFAULT: u64 = 30;

/// The length of a day, in milliseconds.
const DAY_MS: u64 = 86_400_000;

/// The query of a look at usage.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Days {
    days: Option<u64>,
}

/// The query of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limit {
    limit: Option<usize>,
}

impl Limit {
    fn rows(&self) -> usize {
        self.limit.unwrap_or(LIST_DEFAULT)
    }
}

/// The query of a search.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    #[serde(default)]
    query: String,
    limit: Option<usize>,
}

pub(crate) async fn health() -> &'static str {
    "ok\n"
}

pub(crate) async fn ready(
    State(doors): State<Doors>,
    request: Request,
) -> (StatusCode, Json<Readiness>) {
    let node = &doors.node;
    // Whoever may not come in is told whether runs are taken, and not of whom.
    let is_known = request.extensions().get::<Known>().is_some();
    let teams = node.teams().filter(|_| is_known);
    let is_closing = doors.closing.is_cancelled();
    let reason = node.unready().or_else(|| is_closing.then_some(Unready::Draining));
    let readiness = Readiness {
        ready: reason.is_none(),
        reason,
        draining: node.is_draining() || is_closing,
        bus_connected: node.bus().is_connected(),
        teams: teams.map(|team| team.team().name.clone()).collect(),
    };
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness))
}

pub(crate) async fn metrics(State(doors): State<Doors>) -> Result<impl IntoResponse, Refusal> {
    let node = doors.node.clone();
    let written = spawn_blocking(move || node.metrics()).await;
    let failed = |error: String| Refusal::new(ErrorCode::Internal, error);
    let text = written.map_err(|error| failed(error.to_string()))?;
    let text = text.map_err(|error| failed(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, node::METRICS_TYPE)], text))
}

pub(crate) async fn teams(State(doors): State<Doors>) -> Json<TeamList> {
    Json(TeamList { teams: doors.node.teams().map(team_view).collect() })
}

pub(crate) async fn runs(
    State(doors): State<Doors>,
    Segments(team): Segments<String>,
    Query(limit): Query<Limit>,
) -> Result<Json<RunList>, Refusal> {
    doors.look_up(&team, move |store| view::runs(store, limit.rows())).await.map(Json)
}

pub(crate) async fn sessions(
    State(doors): State<Doors>,
    Segments(team): Segments<String>,
    Query(limit): Query<Limit>,
) -> Result<Json<SessionList>, Refusal> {
    doors.look_up(&team, move |store| view::sessions(store, limit.rows())).await.map(Json)
}

pub(crate) async fn session(
    State(doors): State<Doors>,
    Segments((team, session)): Segments<(String, String)>,
) -> Result<Json<SessionView>, Refusal> {
    let team = doors.team(&team)?;
    let unknown = || {
        let text = format!("no session {} is known", shown(&session));
        Refusal::new(ErrorCode::UnknownSession, text)
    };
    let id = SessionId::new(&session).map_err(|_| unknown())?;
    let found = doors.looks.look_at(team, move |team| {
        let Some(mut found) = view::session(team.store(), &id)? else { return Ok(None) };
        found.complete(|take| team.each_event(&id, take))?;
        Ok(Some(found))
    });
    found.await?.ok_or_else(unknown).map(Json)
}

pub(crate) async fn traces(
    State(doors): State<Doors>,
    Segments(team): Segments<String>,
    Query(filter): Query<TraceFilter>,
) -> Result<Json<TraceList>, Refusal> {
    let query = filter.query().map_err(|text| Refusal::new(ErrorCode::BadRequest, text))?;
    let limit = filter.limit.unwrap_or(LIST_DEFAULT);
    doors.look_up(&team, move |store| view::traces(store, &query, limit)).await.map(Json)
}

pub(crate) async fn trace(
    State(doors): State<Doors>,
    Segments((team, trace)): Segments<(String, String)>,
    Query(format): Query<Format>,
) -> Result<Response, Refusal> {
    let asked = trace.clone();
    let found = doors.look_up(&team, move |store| view::trace(store, &asked)).await?;
    format.write(found.ok_or_else(|| {
        let text = format!("no trace, and no run with a trace, is known as {}", shown(&trace));
        Refusal::new(ErrorCode::UnknownRun, text)
    })?)
}

pub(crate) async fn memory(
    State(doors): State<Doors>,
    Segments(team): Segments<String>,
    Query(search): Query<Search>,
) -> Result<Json<FactList>, Refusal> {
    let limit = search.limit.unwrap_or(LIST_DEFAULT);
    let found = move |store: &Store| view::memory(store, &search.query, limit);
    doors.look_up(&team, found).await.map(Json)
}

pub(crate) async fn usage(
    State(doors): State<Doors>,
    Segments(team): Segments<String>,
    Query(days): Query<Days>,
) -> Result<Json<UsageList>, Refusal> {
    let before = days.days.unwrap_or(USAGE_DAYS_DEFAULT).saturating_sub(1);
    let micros = before.saturating_mul(DAY_MS).saturating_mul(1000);
    let since = Timestamp::from_micros(node::now().as_micros().saturating_sub(micros));
    doors.look_up(&team, move |store| view::usage(store, since)).await.map(Json)
}

pub(crate) async fn verify(
    State(doors): State<Doors>,
    Segments(team): Segments<String>,
) -> Result<Json<StoreCheck>, Refusal> {
    let damaged = doors.team(&team)?.journal().damaged();
    let damaged = damaged.into_iter().map(|(session, _)| session).collect();
    doors.look_up(&team, move |store| view::check(store, damaged)).await.map(Json)
}

fn team_view(handle: &TeamHandle) -> TeamView {
    let team = handle.team();
    let tools = team.tools.values().map(|tool| ToolView {
        name: tool.offer.spec.name.clone(),
        description: tool.offer.spec.description.clone(),
        effect: tool.offer.effect,
        parameters: tool.offer.spec.parameters.clone(),
    });
    TeamView {
        name: team.name.clone(),
        description: team.description.clone(),
        entry: team.entry.clone(),
        agents: team.agents.values().map(AgentView::from).collect(),
        tools: tools.collect(),
        models: team.models.keys().cloned().collect(),
        left_out: team.left_out.clone(),
        fault: handle.fault(),
    }
}
