//! Look-ups over all nodes of the bus: a trace with all its parts, and how nodes fare.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use node::{gather_stats, gather_trace};
use serde::Deserialize;
use telemetry::Service;
use tokio::time::timeout;
use wire::{ErrorCode, Name};

use crate::looks::LOOKUP_TIMEOUT;
use crate::refusal::Refusal;
use crate::state::{Doors, Query, Segments, shown};
use crate::view::{NodeList, TraceView};

/// In which form a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// As this runtime has it.
    #[default]
    Json,
    /// As `TracesData` of OTLP.
    Otlp,
}

/// The query of a trace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Format {
    #[serde(default)]
    format: Form,
}

/// The query of what nodes tell of themselves.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    #[serde(default)]
    all: bool,
}

impl Format {
    /// Writes a trace in the form that was asked for.
    pub(crate) fn write(&self, found: TraceView) -> Result<Response, Refusal> {
        match self.format {
            Form::Json => Ok(Json(found).into_response()),
            Form::Otlp => {
                let written = telemetry::traces_data(&found.spans, &service());
                let written = written.map_err(|error| {
                    Refusal::new(ErrorCode::Internal, format!("write a trace: {error}"))
                })?;
                Ok(Json(written).into_response())
            }
        }
    }
}

/// Names the runtime as the source of a trace that was put together.
fn service() -> Service {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Service { name: "callboard".to_owned(), version, instance: "look-up".to_owned() }
}

pub(crate) async fn trace(
    State(doors): State<Doors>,
    Segments(trace): Segments<String>,
    Query(format): Query<Format>,
) -> Result<Response, Refusal> {
    let unknown = || {
        let text = format!("no trace, and no run with a trace, is known as {}", shown(&trace));
        Refusal::new(ErrorCode::UnknownRun, text)
    };
    let name = Name::new(&trace).map_err(|_| unknown())?;
    let found = gather_trace(doors.node.bus(), doors.node.subjects(), &name);
    let found = timeout(LOOKUP_TIMEOUT, found).await.map_err(|_| late())??;
    format.write(TraceView::gathered(found).ok_or_else(unknown)?)
}

pub(crate) async fn stats(
    State(doors): State<Doors>,
    Query(which): Query<Which>,
) -> Result<Json<NodeList>, Refusal> {
    let looking = async {
        if which.all {
            let (nodes, silent) = gather_stats(doors.node.bus(), doors.node.subjects()).await?;
            return Ok(NodeList { nodes, silent });
        }
        Ok(NodeList { nodes: vec![doors.node.stats().await], silent: Vec::new() })
    };
    timeout(LOOKUP_TIMEOUT, looking).await.map_err(|_| late())?.map(Json)
}

fn late() -> Refusal {
    let text = format!("the look-up took more than {} s", LOOKUP_TIMEOUT.as_secs());
    Refusal::new(ErrorCode::DeadlineExceeded, text)
}
