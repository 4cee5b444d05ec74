//! What the handlers of all routes share.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::HeaderMap;
use axum::http::header::AsHeaderName;
use axum::http::request::Parts;
use node::{Node, TeamHandle};
use serde::de::DeserializeOwned;
use store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use wire::{ErrorCode, RunId};

use crate::events::STREAMS_MAX;
use crate::looks::Looks;
use crate::refusal::Refusal;
use crate::room::Room;
use crate::sign_in::Porter;

/// The node behind the doors, and what bounds the way to it.
#[derive(Clone)]
pub(crate) struct Doors {
    pub(crate) node: Arc<Node>,
    /// Places for event streams.
    pub(crate) streams: Arc<Semaphore>,
    /// Room for the events that are held for them.
    pub(crate) room: Room,
    pub(crate) looks: Looks,
    /// Cancelled when the doors close.
    pub(crate) closing: CancellationToken,
    pub(crate) porter: Arc<Porter>,
}

impl Doors {
    pub(crate) fn new(node: Arc<Node>, closing: CancellationToken, porter: Porter) -> Self {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let (room, looks) = (Room::default(), Looks::default());
        Self { node, streams, room, looks, closing, porter: Arc::new(porter) }
    }

    /// Takes a place for an event stream.
    pub(crate) fn stream_place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.streams.clone().try_acquire_owned().map_err(|_| {
            let text = format!("{STREAMS_MAX} event streams are open, which is all there may be");
            Refusal::new(ErrorCode::Overloaded, text).retry_after(1000)
        })
    }

    /// Looks something up in the store of a team.
    pub(crate) async fn look_up<T: Send + 'static>(
        &self,
        team: &str,
        read: impl FnOnce(&Store) -> Result<T, store::Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.looks.look_at(self.team(team)?, move |team| Ok(read(team.store())?)).await
    }

    /// Returns a team by the name in a path.
    pub(crate) fn team(&self, name: &str) -> Result<&TeamHandle, Refusal> {
        self.node.team(name).ok_or_else(|| {
            let text = format!("no team {} is served here; GET /v1/teams lists them", shown(name));
            Refusal::new(ErrorCode::UnknownAgent, text)
        })
    }
}

/// Reads a run id out of a path.
pub(crate) fn run_id(text: &str) -> Result<RunId, Refusal> {
    RunId::new(text).map_err(|error| {
        Refusal::new(ErrorCode::BadRequest, format!("{} is no run id: {error}", shown(text)))
    })
}

/// Quotes a text of the client's, cut to what fits into a message.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}

/// Returns what the headers of a name list, in all of them together.
pub(crate) fn listed(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &str> {
    let lists = headers.get_all(name).into_iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim)
}

/// The parameters in a path; unlike axum's own, it refuses in our form.
pub(crate) struct Segments<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Segments<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(values) = Path::<T>::from_request_parts(parts, state).await.map_err(|error| {
            Refusal::new(ErrorCode::BadRequest, format!("the path cannot be read: {error}"))
        })?;
        Ok(Self(values))
    }
}

/// The query of a request; unlike axum's own, it refuses in our form.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let axum::extract::Query(values) = query.map_err(|error| {
            let text = format!("the query cannot be read: {}", error.body_text());
            Refusal::new(ErrorCode::BadRequest, text)
        })?;
        Ok(Self(values))
    }
}
