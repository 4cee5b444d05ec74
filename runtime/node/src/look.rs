//! What a node tells of itself on the bus: what it has of a trace, and how it fares.
//!
//! Every node is asked, so nobody stands in a queue group; one with nothing to tell says that.

mod gather;
mod stats;

use std::collections::HashSet;
use std::sync::Arc;

use bus::{Bus, Message};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tracing::{debug, warn};
use wire::look::TracePart;
use wire::{ErrorCode, Headers, Name, Route, Scope, SpanRecord, Subjects, WireError};

use crate::context::Shared;
use crate::error::Error;
use crate::feed::{self, Feed};
use crate::team_handle::TeamHandle;

pub(crate) use gather::SUBJECTS;
pub use gather::{Gathered, gather_stats, gather_trace};

/// Look-ups that are answered at once; each may read thousands of spans.
const LOOKS_MAX: usize = 16;

/// When one that found no place may come again, in milliseconds.
const RETRY_MS: u64 = 200;

/// What is left of a message for all but the spans.
const PART_OVERHEAD_BYTES: usize = 4096;

/// The most bytes of spans in one message, however large messages may be.
const PART_BYTES_MAX: usize = 512 << 10;

/// Answers for the teams of a node.
#[derive(Clone)]
pub(crate) struct Look {
    pub(crate) bus: Bus,
    pub(crate) subjects: Subjects,
    pub(crate) shared: Arc<Shared>,
    pub(crate) teams: Vec<TeamHandle>,
}

impl Look {
    /// Answers until what is returned is dropped.
    pub(crate) async fn serve(self) -> Result<Vec<Feed>, bus::Error> {
        let places = Arc::new(Semaphore::new(LOOKS_MAX));
        let mut feeds = Vec::new();
        for subject in [self.subjects.all_node_traces(), self.subjects.node_stats()] {
            let (look, places) = (self.clone(), places.clone());
            let feed = self.bus.listen(&subject, None, move |message| {
                // Nobody could be told, so nothing is looked up.
                if !message.reply.as_deref().is_some_and(wire::subject::is_inbox) {
                    return;
                }
                let (look, place) = (look.clone(), places.clone().try_acquire_owned());
                tokio::spawn(async move {
                    let answered = if place.is_ok() {
                        look.answer(&message).await
                    } else {
                        let text = format!("{LOOKS_MAX} look-ups are answered already");
                        Err(WireError::overloaded(Scope::Node, text, RETRY_MS))
                    };
                    if let Err(error) = answered {
                        feed::answer_error(&look.bus, &message, &error).await;
                    }
                });
            });
            feeds.push(feed.await?);
        }
        Ok(feeds)
    }

    async fn answer(&self, message: &Message) -> Result<(), WireError> {
        match self.subjects.parse(&message.subject) {
            Some(Route::NodeTrace { trace }) => {
                let (trace_id, spans) = self.trace(&trace).await?;
                for part in self.parts(trace_id.as_deref(), spans) {
                    feed::answer(&self.bus, message, Headers::new(), &part).await;
                }
            }
            Some(Route::NodeStats) => {
                let stats = self.stats().await;
                feed::answer(&self.bus, message, Headers::new(), &stats).await;
            }
            _ => debug!(subject = %message.subject, "no look-up"),
        }
        Ok(())
    }

    /// Collects what all teams have of a trace.
    async fn trace(&self, name: &Name) -> Result<(Option<String>, Vec<SpanRecord>), WireError> {
        for team in &self.teams {
            team.settle().await;
        }
        let (teams, name) = (self.teams.clone(), name.to_string());
        let read = spawn_blocking(move || {
            let (mut trace_id, mut fault) = (None, None);
            for team in &teams {
                let spans = told(team, &name, &mut fault)?;
                trace_id = spans.first().map(|span| span.context.trace_id());
                if trace_id.is_some() {
                    break;
                }
            }
            let (mut spans, mut seen) = (Vec::new(), HashSet::new());
            for team in teams.iter().filter(|_| trace_id.is_some()) {
                let found = told(team, trace_id.as_deref().unwrap_or_default(), &mut fault)?;
                spans.extend(found.into_iter().filter(|span| seen.insert(span.context)));
            }
            match fault.filter(|_| trace_id.is_none()) {
                // Whoever could not be asked may know it.
                Some(fault) => Err(Error::Store(fault)),
                None => Ok((trace_id, spans)),
            }
        });
        read.await.map_err(|_| Error::Ending.to_wire())?.map_err(|error| match error {
            Error::Store(store::Error::AmbiguousTrace { .. }) => {
                WireError::new(ErrorCode::BadRequest, error.to_string())
            }
            error => error.to_wire(),
        })
    }

    /// Puts spans into messages that the bus takes.
    fn parts(&self, trace_id: Option<&str>, spans: Vec<SpanRecord>) -> Vec<TracePart> {
        let most = self.bus.payload_bytes_max().saturating_sub(PART_OVERHEAD_BYTES);
        let most = most.min(PART_BYTES_MAX);
        let part = || TracePart {
            node: self.shared.node.clone(),
            trace_id: trace_id.map(str::to_owned),
            spans: Vec::new(),
            left_out: 0,
            more: true,
        };
        let (mut parts, mut open, mut bytes) = (Vec::new(), part(), 0);
        for span in spans {
            let size = serde_json::to_vec(&span).map_or(usize::MAX, |bytes| bytes.len());
            if size > most {
                open.left_out += 1;
                continue;
            }
            if bytes + size > most {
                parts.push(std::mem::replace(&mut open, part()));
                bytes = 0;
            }
            bytes += size + 1;
            open.spans.push(span);
        }
        open.more = false;
        parts.push(open);
        parts
    }
}

/// Returns what a team has of a trace; nothing if its store cannot be read, which is noted.
fn told(
    team: &TeamHandle,
    name: &str,
    fault: &mut Option<store::Error>,
) -> Result<Vec<SpanRecord>, store::Error> {
    match team.store().trace(name) {
        Err(error @ store::Error::AmbiguousTrace { .. }) => Err(error),
        Err(error) => {
            warn!(team = %team.context().team.name, %error, "what a team has of a trace is left out");
            *fault = Some(error);
            Ok(Vec::new())
        }
        found => found,
    }
}

/// A request without a body.
pub(crate) const NOTHING: Bytes = Bytes::new();
