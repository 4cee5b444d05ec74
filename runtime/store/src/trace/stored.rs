//! The row of a trace as it stands in the database: there are more of these than of anything else, so
//! what its key says, what is nothing, and what follows from the rest are left out.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use wire::{Name, RunId, SessionId, Timestamp, TraceId, Usage};

use crate::error::Error;
use crate::key;
use crate::page;
use crate::trace::ended::Told;
use crate::trace::row::{Part, Rank, SpanNumber, Summary, TraceRow, TraceStatus};

/// A row on its way into the database, or out of it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stored<'s> {
    #[serde(rename = "n")]
    name: Cow<'s, str>,
    #[serde(rename = "r")]
    run: RunId,
    #[serde(rename = "a")]
    agent: Name,
    #[serde(rename = "s")]
    session: SessionId,
    #[serde(rename = "st")]
    status: TraceStatus,
    #[serde(rename = "b")]
    start: Timestamp,
    #[serde(rename = "e")]
    end: Timestamp,
    #[serde(rename = "c")]
    spans: u32,
    #[serde(rename = "ce", default, skip_serializing_if = "is_zero")]
    errors: u32,
    #[serde(rename = "cd", default, skip_serializing_if = "is_zero")]
    spans_dropped: u32,
    #[serde(rename = "er", default, skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'s, str>>,
    /// Tokens that were read and written, what they cost, and calls.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    usage: Option<(u64, u64, u64, u64)>,
    #[serde(rename = "id")]
    span: SpanNumber,
    #[serde(rename = "p", default, skip_serializing_if = "std::ops::Not::not")]
    has_parent: bool,
    /// When the root began and ended, unless the trace did with it.
    #[serde(rename = "rt", default, skip_serializing_if = "Option::is_none")]
    root: Option<(Timestamp, Timestamp)>,
    /// Who tells of it: the session, unless it is that of the root, its first slot, and what it told
    /// last.
    #[serde(rename = "w")]
    parts: Vec<(Option<SessionId>, u64, u64, u32)>,
    /// These are left out where there is none but the root's.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    agents: Option<Cow<'s, BTreeSet<String>>>,
    #[serde(rename = "ss", default, skip_serializing_if = "Option::is_none")]
    sessions: Option<Cow<'s, BTreeSet<String>>>,
    #[serde(rename = "ov", default, skip_serializing_if = "Option::is_none")]
    over: Option<Cow<'s, BTreeSet<RunId>>>,
    /// And these where there are none.
    #[serde(rename = "ts", default, skip_serializing_if = "is_empty")]
    tools: Cow<'s, BTreeSet<String>>,
    #[serde(rename = "op", default, skip_serializing_if = "is_empty")]
    open: Cow<'s, BTreeSet<RunId>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_empty<T: Clone>(noted: &BTreeSet<T>) -> bool {
    noted.is_empty()
}

/// Returns what is noted, unless that is the root's own and nothing else.
fn unless_own<T: Clone>(
    noted: &BTreeSet<T>,
    is_own: impl Fn(&T) -> bool,
) -> Option<Cow<'_, BTreeSet<T>>> {
    let mut all = noted.iter();
    let is_own = all.next().is_some_and(is_own) && all.next().is_none();
    (!is_own).then_some(Cow::Borrowed(noted))
}

/// Returns what was noted, which is the root's own where nothing is stored.
fn or_own<T: Clone + Ord>(stored: Option<Cow<'_, BTreeSet<T>>>, own: T) -> BTreeSet<T> {
    stored.map_or_else(|| BTreeSet::from([own]), Cow::into_owned)
}

impl<'s> Stored<'s> {
    /// Returns what is stored of a trace.
    pub(crate) fn of(summary: &'s Summary) -> Self {
        let Summary { row, root, parts, agents, tools, sessions, open, over } = summary;
        let Reverse(root_end) = root.end;
        let part = |(session, part): (&SessionId, &Part)| {
            let Told { slot, number } = part.last;
            ((*session != row.session).then(|| session.clone()), part.first_slot, slot, number)
        };
        let Usage { input_tokens, output_tokens, cost_nano_usd, calls } = row.usage;
        Self {
            name: Cow::Borrowed(&row.name),
            run: row.run.clone(),
            agent: row.agent.clone(),
            session: row.session.clone(),
            status: row.status,
            start: row.start,
            end: row.end,
            spans: row.spans,
            errors: row.errors,
            spans_dropped: row.spans_dropped,
            error: row.error.as_deref().map(Cow::Borrowed),
            usage: (row.usage != Usage::default()).then_some((
                input_tokens,
                output_tokens,
                cost_nano_usd,
                calls,
            )),
            span: root.span,
            has_parent: root.has_parent,
            root: ((root.start, root_end) != (row.start, row.end))
                .then_some((root.start, root_end)),
            parts: parts.iter().map(part).collect(),
            agents: unless_own(agents, |agent| agent == row.agent.as_str()),
            sessions: unless_own(sessions, |session| session == row.session.as_str()),
            over: unless_own(over, |run| *run == row.run),
            tools: Cow::Borrowed(tools),
            open: Cow::Borrowed(open),
        }
    }

    /// Returns the trace with an id.
    fn into_summary(self, trace: TraceId) -> Summary {
        let (run, agent, session) = (self.run, self.agent, self.session);
        let (root_start, root_end) = self.root.unwrap_or((self.start, self.end));
        let part = |(of, first_slot, slot, number): (Option<SessionId>, u64, u64, u32)| {
            let part = Part { first_slot, last: Told { slot, number } };
            (of.unwrap_or_else(|| session.clone()), part)
        };
        let (input_tokens, output_tokens, cost_nano_usd, calls) = self.usage.unwrap_or_default();
        Summary {
            root: Rank {
                has_parent: self.has_parent,
                start: root_start,
                end: Reverse(root_end),
                span: self.span,
            },
            parts: self.parts.into_iter().map(part).collect(),
            agents: or_own(self.agents, agent.as_str().to_owned()),
            tools: self.tools.into_owned(),
            sessions: or_own(self.sessions, session.as_str().to_owned()),
            open: self.open.into_owned(),
            over: or_own(self.over, run.clone()),
            row: TraceRow {
                trace_id: trace.to_string(),
                name: self.name.into_owned(),
                run,
                agent,
                session,
                status: self.status,
                start: self.start,
                end: self.end,
                spans: self.spans,
                errors: self.errors,
                error: self.error.map(Cow::into_owned),
                usage: Usage { input_tokens, output_tokens, cost_nano_usd, calls },
                spans_dropped: self.spans_dropped,
            },
        }
    }
}

/// Reads what a database knows of a trace.
pub(crate) fn read(tree: &sled::Tree, trace: &[u8]) -> Result<Option<Summary>, Error> {
    let Some(stored) = page::row::<Stored<'_>>(tree, &key::trace(trace))? else { return Ok(None) };
    let id = <[u8; 16]>::try_from(trace).ok().and_then(|id| TraceId::try_from(id).ok());
    let id = id.ok_or_else(|| Error::damaged("read a trace", "its key holds no id of one"))?;
    Ok(Some(stored.into_summary(id)))
}

#[cfg(test)]
mod tests {
    use wire::TraceContext;

    use super::*;
    use crate::record;
    use crate::trace::ended::EndedSpan;

    const ROOT: &str = "root";
    const TRACE: [u8; 16] = [7; 16];

    fn root() -> TraceContext {
        let hex = TRACE.map(|byte| format!("{byte:02x}")).concat();
        format!("00-{hex}-00000000000000ff-01").parse().unwrap()
    }

    /// Returns a span of a run in a session, both of that name.
    fn span(context: TraceContext, name: &str, agent: &str, (start, end): (u64, u64)) -> EndedSpan {
        EndedSpan {
            context,
            has_parent: true,
            name: format!("of {name}"),
            start: Timestamp::from_micros(start),
            end: Timestamp::from_micros(end),
            session: SessionId::new(name).unwrap(),
            run: RunId::new(name).unwrap(),
            agent: Name::new(agent).unwrap(),
            error: None,
            tool: None,
            turn: None,
            used: Usage::default(),
            told: Told { slot: start, number: 1 },
        }
    }

    fn cycle(summary: &Summary) -> (Summary, usize) {
        let bytes = record::to_json(&Stored::of(summary)).unwrap();
        let stored: Stored<'_> = record::from_json(&bytes).unwrap();
        (stored.into_summary(TRACE.try_into().unwrap()), bytes.len())
    }

    #[test]
    fn what_is_stored_of_a_trace_is_all_of_it() {
        let root = root();
        let run = |name: &str| root.of_run(&RunId::new(name).unwrap());
        let whole = |name: &str, agent: &str, times| span(run(name), name, agent, times);
        let part =
            |name: &str, key: &str, times| span(root.child("turn", key), name, "lead", times);
        let used = Usage { cost_nano_usd: 5, calls: 2, ..Usage::of_tokens(3, 4) };
        let tool = Some("add".to_owned());
        let error = Some("it failed".to_owned());
        let turn = EndedSpan { used, ..part(ROOT, "a", (1, 2)) };
        let call = EndedSpan { tool, ..part(ROOT, "b", (2, 3)) };
        let failed = EndedSpan { error, ..part(ROOT, "c", (3, 4)) };
        let called = [part("other", "d", (4, 5)), whole("other", "specialist", (4, 6))];
        let end = EndedSpan { has_parent: false, ..whole(ROOT, "lead", (1, 7)) };
        let late = part("third", "e", (8, 9));
        let spans: Vec<EndedSpan> =
            [turn, call, failed].into_iter().chain(called).chain([end, late]).collect();
        for chosen in 1..1_u32 << spans.len() {
            let told = (0..).zip(&spans).filter(|(bit, _)| chosen >> bit & 1 == 1);
            let told: Vec<&EndedSpan> = told.map(|(_, span)| span).collect();
            let mut summary = Summary::of(told[0]);
            for span in &told {
                assert_eq!(cycle(&summary).0, summary, "{chosen:b}");
                summary.add(span);
            }
            assert_eq!(cycle(&summary).0, summary, "{chosen:b}");
            // What there was no room to note.
            summary.row.spans_dropped = chosen;
            summary.sessions = BTreeSet::from(["fourth".to_owned()]);
            summary.parts.remove(&summary.row.session);
            assert_eq!(cycle(&summary).0, summary, "{chosen:b}");
        }
    }

    #[test]
    fn what_the_root_says_is_not_said_twice() {
        let root = root();
        let id = "a".repeat(32);
        let end = span(root.of_run(&RunId::new(&id).unwrap()), &id, "lead", (1, 7));
        let mut summary = Summary::of(&end);
        summary.add(&end);
        assert_eq!(summary.row.status, TraceStatus::Ok);
        let (read, bytes) = cycle(&summary);
        assert_eq!(read, summary);
        assert!(bytes < 250, "{bytes} bytes of a trace of one run with its ids");
    }
}
