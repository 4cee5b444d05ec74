//! What models used, by day, agent and model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::semconv::{MODEL, SERVED_BY, TOOL_NAME, TURN};
use wire::{Name, RunId, SpanRecord, Timestamp, Usage};

use crate::error::Error;
use crate::key;
use crate::page::LIST_MAX;
use crate::pending::{Pending, get};
use crate::record;
use crate::rows::Rows;
use crate::run::Run;

/// Days for which usage is kept: a year and a month, so that a month can be held against the same
/// one a year ago.
pub const USAGE_DAYS_MAX: u64 = 396;

/// The length of a day, in microseconds.
const DAY_US: u64 = 86_400_000_000;

/// What one agent used of one model on one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// When the day began, in UTC.
    pub day: Timestamp,
    /// The agent.
    pub agent: Name,
    /// The model that answered, by its name in the team; of failed turns the one that was asked.
    pub model: Name,
    /// Model turns, failed ones included, and calls of tools that asked the model.
    pub turns: u64,
    /// Tokens and money.
    pub usage: Usage,
}

/// A turn of a model whose span is not kept, or a call of a tool that asks one, as far as it counts
/// as used.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnUsed {
    run: RunId,
    agent: Name,
    turn: Turn,
    start: Timestamp,
    end: Timestamp,
    used: Usage,
}

/// Which turn of a run it is, and of which model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    /// Its number in the run; of a call, that of the turn before it.
    number: u64,
    /// The call whose tool asked the model, by its span's id; absent means that the agent did.
    call: Option<u64>,
    model: Name,
}

/// What a turn counts, whoever tells it.
#[derive(Clone, Copy)]
pub(crate) struct Counted<'s> {
    pub(crate) run: &'s RunId,
    pub(crate) agent: &'s Name,
    pub(crate) turn: &'s Turn,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) used: Usage,
}

impl Turn {
    /// Returns the turn that a span stands for, if it does.
    pub(crate) fn of(span: &SpanRecord) -> Option<Self> {
        let number = span.attributes.number(TURN)?;
        let answered = span.attributes.text(SERVED_BY).or_else(|| span.attributes.text(MODEL));
        let model = Name::new(answered?).ok()?;
        let id = || u64::from_be_bytes(span.context.span_bytes());
        let call = span.attributes.contains(TOOL_NAME).then(id);
        Some(Self { number, call, model })
    }
}

impl TurnUsed {
    /// Returns what a span says of a turn, if it stands for one.
    pub fn of(span: &SpanRecord) -> Option<Self> {
        let (used, turn) = (span.model_usage()?, Turn::of(span)?);
        let (run, agent) = (span.run.clone(), span.agent.clone());
        let (start, end) = (span.start, span.end);
        Some(Self { run, agent, turn, start, end, used })
    }

    pub(crate) const fn counted(&self) -> Counted<'_> {
        let Self { run, agent, turn, start, end, used } = self;
        Counted { run, agent, turn, start: *start, end: *end, used: *used }
    }
}

/// Model turns on their way into their rows. Those of many runs count for the same row, so rows are
/// read and written once for all of them.
#[derive(Default)]
pub(crate) struct Tally<'s> {
    rows: BTreeMap<(u64, &'s Name, &'s Name), (u64, Usage)>,
}

impl<'s> Tally<'s> {
    /// Counts a model turn, once: the turns of a run come in order, so the number of those that
    /// were counted tells whether this one was, and whether a call was that came before another
    /// turn. Of a run that was dropped that number is gone, but its turns ended before it did, and so
    /// did those of an earlier run of its id.
    pub(crate) fn count(
        &mut self,
        pending: &mut Pending,
        runs: &mut Rows<'s, Run>,
        counted: Counted<'s>,
    ) -> Result<(), Error> {
        let Counted { run, agent, turn, start, end, used: more } = counted;
        let Turn { number, call, model } = turn;
        let run = runs.get(pending, run)?;
        if pending.is_again() && run.row().is_some_and(|run| run.tells_earlier) {
            return Ok(());
        }
        let before = run.row().map_or(0, |run| run.turns);
        let may_be_dropped = before == 0 && Some(end) <= pending.runs_dropped_until();
        let is_over = number + u64::from(call.is_some()) < before;
        let is_counted =
            || run.row().zip(*call).is_some_and(|(run, call)| run.calls_counted.contains(&call));
        if may_be_dropped || is_over || is_counted() {
            return Ok(());
        }
        let run = run.change().get_or_insert_default();
        if let Some(call) = call {
            run.calls_counted.push(*call);
        } else {
            run.turns = number + 1;
            run.calls_counted.clear();
        }
        let day = start.as_micros() / DAY_US;
        let (turns, used) = self.rows.entry((day, agent, model)).or_default();
        *turns += 1;
        used.add(more);
        Ok(())
    }

    /// Writes what was counted.
    pub(crate) fn put(self, pending: &mut Pending) -> Result<(), Error> {
        for ((day, agent, model), (turns, used)) in self.rows {
            let key = key::usage(day, agent, model);
            let mut row = pending.row::<UsageRow>(&key)?.unwrap_or_else(|| UsageRow {
                day: Timestamp::from_micros(day * DAY_US),
                agent: agent.clone(),
                model: model.clone(),
                turns: 0,
                usage: Usage::default(),
            });
            row.turns = row.turns.saturating_add(turns);
            row.usage.add(used);
            pending.put_row(key, &row)?;
        }
        Ok(())
    }
}

/// Drops the rows of days that are too long ago, as seen from the newest that is not to come; a few
/// at once.
pub(crate) fn drop_old(
    tree: &sled::Tree,
    pending: &mut Pending,
    now: Timestamp,
) -> Result<(), Error> {
    let newest = tree.range(key::usage_since(0)).keys().next_back().transpose();
    let newest = newest.map_err(|error| Error::engine("drop old usage", error))?;
    let Some(newest) = newest.as_deref().and_then(key::time_of) else { return Ok(()) };
    let today = now.as_micros() / DAY_US;
    let first = newest.as_micros().min(today).saturating_sub(USAGE_DAYS_MAX);
    for entry in tree.range(key::usage_until(first)).keys().take(DROPPED_AT_ONCE_MAX) {
        pending.remove(&entry.map_err(|error| Error::engine("drop old usage", error))?)?;
    }
    Ok(())
}

/// The most rows that are dropped at once, so that no batch waits long for it.
const DROPPED_AT_ONCE_MAX: usize = 200;

/// Lists the rows from a time on, the oldest day first, at most the [`LIST_MAX`] newest of them.
pub(crate) fn since(tree: &sled::Tree, since: Timestamp) -> Result<Vec<UsageRow>, Error> {
    let mut rows = Vec::new();
    for entry in tree.range(key::usage_since(since.as_micros() / DAY_US)).rev().take(LIST_MAX) {
        let (key, _) = entry.map_err(|error| Error::engine("read usage", error))?;
        if let Some(bytes) = get(tree, &key)? {
            rows.push(record::from_json(&bytes)?);
        }
    }
    rows.reverse();
    Ok(rows)
}
