//! Asks all nodes on a bus, and puts together what they tell.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use bus::{Bus, ServiceInfo, Subscription, find_services};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};
use tracing::debug;
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
    /// The nodes that are there and did not answer in time, or with an error, each with its teams.
    pub silent: Vec<String>,
}

/// Asks all nodes for a trace by its id, by the first digits of its id, or by a run in it.
///
/// Waits until every node has answered of which a team is listed as a service, but not for ever.
/// The error of a node is returned only if no other knows the trace.
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

/// Asks all nodes how they fare; returns what they say, and those that did not answer in time or
/// with an error. That error is returned only if no other node answered.
pub async fn gather_stats(
    bus: &Bus,
    subjects: &Subjects,
) -> Result<(Vec<NodeStats>, Vec<String>), WireError> {
    let mut nodes: Vec<NodeStats> = Vec::new();
    let mut asked = Asked::begin(bus, subjects, &subjects.node_stats()).await?;
    let Answers { silent, error, .. } = asked
        .collect(|stats: NodeStats| {
            let node = stats.node.clone();
            nodes.push(stats);
            Some(node)
        })
        .await?;
    if let Some(error) = error.filter(|_| nodes.is_empty()) {
        return Err(error);
    }
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
    let Answers { nodes, silent, error } = asked.collect(take).await?;
    if let Some(error) = error.filter(|_| ids.is_empty()) {
        return Err(error);
    }
    if ids.len() > 1 {
        let text = format!("several traces are known as {name}; give the whole id of one");
        return Err(WireError::new(ErrorCode::BadRequest, text));
    }
    found.spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    Ok(Gathered { trace_id: ids.pop_first(), nodes, silent, ..found })
}

/// What came of a question to all nodes.
struct Answers {
    /// The nodes that answered, and those that did not.
    nodes: Vec<String>,
    silent: Vec<String>,
    /// What one of those that answered with an error said. None of them says which it is.
    error: Option<WireError>,
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
    /// whose last answer it was.
    async fn collect<T: DeserializeOwned>(
        &mut self,
        mut take: impl FnMut(T) -> Option<String>,
    ) -> Result<Answers, WireError> {
        let end = Instant::now() + ANSWER_MAX;
        let mut looking = std::pin::pin!(find_services(&self.bus, None));
        let mut known: Option<BTreeMap<String, BTreeSet<String>>> = None;
        let mut answered = BTreeSet::new();
        let mut errors = Vec::new();
        loop {
            let is_done = known.as_ref().is_some_and(|known| {
                known.keys().filter(|node| !answered.contains(*node)).count() <= errors.len()
            });
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
                        debug!(%error, "a node answers with an error");
                        errors.push(error);
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
        // What the question itself is to blame for helps more than how a node fares.
        let error = errors.into_iter().min_by_key(|error| error.code != ErrorCode::BadRequest);
        Ok(Answers { nodes: answered.into_iter().collect(), silent, error })
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bus::{Listening, Service};
    use wire::trace::SpanKind;
    use wire::{Attributes, RunId, SessionId, Timestamp, TraceContext};

    use super::*;

    /// What a node answers.
    #[derive(Clone, Debug)]
    enum Says {
        Nothing,
        Trace(&'static str),
        Error(ErrorCode),
    }

    /// Has a node be listed, and answer look-ups of traces.
    async fn node(bus: &Bus, id: String, says: Says) -> (Service, Listening) {
        let subjects = Subjects::default();
        let info = ServiceInfo {
            name: format!("{SERVICE_PREFIX}crew"),
            id: id.clone(),
            version: "0.1.0".to_owned(),
            description: String::new(),
            started: String::new(),
            metadata: BTreeMap::from([(SUBJECTS.to_owned(), subjects.prefix().to_owned())]),
            endpoints: Vec::new(),
        };
        let service = Service::start(bus, info).await.unwrap();
        let (own, says) = (bus.clone(), Arc::new(says));
        let subject = subjects.all_node_traces();
        let listening = bus.listen(&subject, None, move |request| {
            let (own, says, id) = (own.clone(), says.clone(), id.clone());
            tokio::spawn(async move {
                let part = |trace_id, spans| {
                    let part = TracePart { node: id, trace_id, spans, left_out: 0, more: false };
                    serde_json::to_vec(&part).unwrap().into()
                };
                let sent = match &*says {
                    Says::Nothing => own.reply(&request, Headers::new(), part(None, vec![])).await,
                    Says::Trace(run) => {
                        let span = span(run);
                        let part = part(Some(span.context.trace_id()), vec![span]);
                        own.reply(&request, Headers::new(), part).await
                    }
                    Says::Error(code) => {
                        own.reply_error(&request, &WireError::new(*code, "no")).await
                    }
                };
                sent.unwrap();
            });
        });
        (service, listening.await.unwrap())
    }

    fn span(run: &str) -> SpanRecord {
        let run = RunId::new(run).unwrap();
        let name = Name::new("crew").unwrap();
        SpanRecord {
            context: TraceContext::root(&name, &run),
            parent: None,
            name: "a span".to_owned(),
            kind: SpanKind::Internal,
            start: Timestamp::from_micros(1),
            end: Timestamp::from_micros(2),
            session: SessionId::new("s").unwrap(),
            run,
            agent: name,
            attributes: Attributes::new(),
            error: None,
            links: Vec::new(),
            events: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_node_cannot_tell_is_told_by_the_others() {
        // What the nodes say; the run whose trace is found or the error; how many are silent.
        type Case<'a> = (&'a [Says], Result<Option<&'a str>, ErrorCode>, usize);
        let overloaded = ErrorCode::Overloaded;
        let error = Says::Error;
        let cases: [Case<'_>; 8] = [
            (&[Says::Trace("r"), Says::Nothing], Ok(Some("r")), 0),
            (&[Says::Nothing, Says::Nothing], Ok(None), 0),
            (&[error(overloaded), Says::Trace("r")], Ok(Some("r")), 1),
            (&[Says::Trace("r"), error(ErrorCode::Internal)], Ok(Some("r")), 1),
            (&[error(ErrorCode::BadRequest), Says::Trace("r")], Ok(Some("r")), 1),
            (&[Says::Nothing, error(overloaded)], Err(overloaded), 1),
            (&[error(overloaded), error(ErrorCode::BadRequest)], Err(ErrorCode::BadRequest), 2),
            (&[Says::Trace("r"), Says::Trace("other")], Err(ErrorCode::BadRequest), 0),
        ];
        for (all, expected, silent) in cases {
            let bus = Bus::local();
            let mut nodes = Vec::new();
            for (number, says) in all.iter().enumerate() {
                nodes.push(node(&bus, format!("n-{number}"), says.clone()).await);
            }
            let began = Instant::now();
            let name = Name::new("r").unwrap();
            let found = gather_trace(&bus, &Subjects::default(), &name).await;
            assert!(began.elapsed() < ANSWER_MAX, "{all:?}: all nodes have answered");
            match (found, expected) {
                (Ok(found), Ok(run)) => {
                    let runs: Vec<&str> = found.spans.iter().map(|s| s.run.as_str()).collect();
                    assert_eq!(runs, Vec::from_iter(run), "{all:?}");
                    assert_eq!(found.silent.len(), silent, "{all:?}");
                }
                (Err(error), Err(code)) => assert_eq!(error.code, code, "{all:?}"),
                (found, expected) => panic!("{all:?}: {found:?} instead of {expected:?}"),
            }
        }
    }
}
