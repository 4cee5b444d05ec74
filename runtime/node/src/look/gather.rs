//! Asks all nodes on a bus, and puts together what they tell.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use bus::{Bus, ServiceInfo, Subscription, find_services};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};
use wire::error::ErrorBody;
use wire::look::{NodeStats, TracePart};
use wire::subject::SERVICE_PREFIX;
use wire::{ErrorCode, Headers, Name, SpanRecord, Subjects, WireError};

use super::NOTHING;

/// How long nodes are given to answer. One on a busy machine does so within a second.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// The key under which the service of a team tells what the subjects of its node begin with.
pub(crate) const SUBJECTS: &str = "subjects";

/// The most spans that are put together; far more than a person can look at.
const SPANS_MAX: usize = 50_000;

/// The hex digits of a whole trace id.
const ID_DIGITS: usize = 32;

/// A trace put together from what all nodes have of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// The trace; absent if nobody knows it.
    pub trace_id: Option<String>,
    /// Its spans by their begin.
    pub spans: Vec<SpanRecord>,
    /// How many spans are missing because they were too large for a message, or too many.
    pub left_out: u64,
    /// The nodes that answered.
    pub nodes: Vec<String>,
    /// The nodes that are there and did not answer in time, each with its teams.
    pub silent: Vec<String>,
}

/// Asks all nodes for a trace by its id, by the first digits of its id, or by a run in it.
///
/// Waits until every node has answered of which a team is listed as a service, but not for ever.
pub async fn gather_trace(
    bus: &Bus,
    subjects: &Subjects,
    name: &Name,
) -> Result<Gathered, WireError> {
    let found = ask_trace(bus, subjects, name).await?;
    match &found.trace_id {
        // Nodes that know neither the run nor the digits may know the trace.
        Some(id) if name.as_str().len() != ID_DIGITS || !id.eq_ignore_ascii_case(name.as_str()) => {
            let Ok(id) = Name::new(id) else { return Ok(found) };
            ask_trace(bus, subjects, &id).await
        }
        Some(_) | None => Ok(found),
    }
}

/// Asks all nodes how they fare; returns what they say, and those that did not answer in time.
pub async fn gather_stats(
    bus: &Bus,
    subjects: &Subjects,
) -> Result<(Vec<NodeStats>, Vec<String>), WireError> {
    let mut nodes: Vec<NodeStats> = Vec::new();
    let mut asked = Asked::begin(bus, subjects, &subjects.node_stats()).await?;
    let (_, silent) = asked
        .collect(|stats: NodeStats| {
            let node = stats.node.clone();
            nodes.push(stats);
            Some(node)
        })
        .await?;
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    Ok((nodes, silent))
}

async fn ask_trace(bus: &Bus, subjects: &Subjects, name: &Name) -> Result<Gathered, WireError> {
    let mut asked = Asked::begin(bus, subjects, &subjects.node_trace(name)).await?;
    let mut found = Gathered::default();
    let mut ids = BTreeSet::new();
    let mut seen = HashSet::new();
    let take = |part: TracePart| {
        ids.extend(part.trace_id);
        found.left_out += part.left_out;
        for span in part.spans {
            if found.spans.len() >= SPANS_MAX {
                found.left_out += 1;
            } else if seen.insert(span.context.span_bytes()) {
                found.spans.push(span);
            }
        }
        (!part.more).then_some(part.node)
    };
    let (nodes, silent) = asked.collect(take).await?;
    if ids.len() > 1 {
        let text = format!("several traces are known as {name}; give the whole id of one");
        return Err(WireError::new(ErrorCode::BadRequest, text));
    }
    found.spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    Ok(Gathered { trace_id: ids.pop_first(), nodes, silent, ..found })
}

/// A question to all nodes that is being answered.
struct Asked {
    bus: Bus,
    prefix: String,
    answers: Subscription,
}

impl Asked {
    async fn begin(bus: &Bus, subjects: &Subjects, subject: &str) -> Result<Self, WireError> {
        let inbox = bus.new_inbox();
        let asking = async {
            let answers = bus.subscribe(&inbox, None).await?;
            bus.publish_with_reply(subject, &inbox, Headers::new(), NOTHING).await?;
            Ok::<_, bus::Error>(answers)
        };
        let answers = asking.await.map_err(|error| error.to_wire())?;
        Ok(Self { bus: bus.clone(), prefix: subjects.prefix().to_owned(), answers })
    }

    /// Takes answers until every node that is there has said its last; `take` returns the node
    /// whose last answer it was. Returns the nodes that answered and those that did not.
    async fn collect<T: DeserializeOwned>(
        &mut self,
        mut take: impl FnMut(T) -> Option<String>,
    ) -> Result<(Vec<String>, Vec<String>), WireError> {
        let end = Instant::now() + ANSWER_MAX;
        let mut looking = std::pin::pin!(find_services(&self.bus, None));
        let mut known: Option<BTreeMap<String, BTreeSet<String>>> = None;
        let mut answered = BTreeSet::new();
        loop {
            let is_done = known
                .as_ref()
                .is_some_and(|known| known.keys().all(|node| answered.contains(node)));
            if is_done {
                break;
            }
            tokio::select! {
                found = &mut looking, if known.is_none() => {
                    let found = found.map_err(|error| error.to_wire())?;
                    known = Some(nodes_of(&found, &self.prefix));
                }
                answer = timeout_at(end, self.answers.next()) => {
                    let Ok(Some(answer)) = answer else { break };
                    // NATS itself says without a body that nobody listens.
                    if answer.payload.is_empty() {
                        continue;
                    }
                    if let Ok(part) = serde_json::from_slice(&answer.payload) {
                        answered.extend(take(part));
                    } else if let Ok(ErrorBody { error }) = serde_json::from_slice(&answer.payload) {
                        return Err(error);
                    }
                }
            }
        }
        let known = known.unwrap_or_default().into_iter();
        let silent = known.filter(|(node, _)| !answered.contains(node)).map(|(node, teams)| {
            let teams: Vec<String> = teams.into_iter().collect();
            format!("{node} ({})", teams.join(", "))
        });
        let silent = silent.collect();
        Ok((answered.into_iter().collect(), silent))
    }
}

/// Returns the nodes whose teams are listed as services, with the names of these teams.
fn nodes_of(found: &[ServiceInfo], prefix: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut nodes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for info in found {
        let Some(team) = info.name.strip_prefix(SERVICE_PREFIX) else { continue };
        if info.metadata.get(SUBJECTS).is_some_and(|of| of == prefix) {
            nodes.entry(info.id.clone()).or_default().insert(team.to_owned());
        }
    }
    nodes
}
