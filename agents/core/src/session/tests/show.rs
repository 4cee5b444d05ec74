//! Effects as lines that can be read in a table.

use wire::entry::Input;
use wire::{CallKey, Event, EventKind, OpenCall};

use super::team;
use crate::effect::{CallEffect, Earlier, Effect};

/// Which effects become lines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Those that have a consequence.
    Acts,
    /// What is opened for people, and closed, too.
    ActsAndOpen,
    /// Events and spans too.
    Everything,
}

pub(super) fn show(effect: &Effect, shown: Shown) -> Option<String> {
    let line = match effect {
        Effect::AskModel { run, turn, step, role, model, max_tokens, deadline, trace: _ } => {
            format!(
                "ask {model} as {} for {run}, turn {turn}, step {step}, {max_tokens} tokens, by {}",
                role.as_str(),
                deadline.as_micros() / 1000
            )
        }
        Effect::Call(call) => show_call(call),
        Effect::Probe { of, number, call } => {
            format!("probe {number} of {of}: {}", show_call(call))
        }
        Effect::Expire { call, at, .. } => {
            format!("expire {call} at {}", at.as_micros() / 1000)
        }
        Effect::Say { call, question, said, deadline, .. } => {
            let said = serde_json::to_string(said).unwrap();
            format!("say {said} to {question} of {call}, by {}", deadline.as_micros() / 1000)
        }
        Effect::Opened(_) | Effect::Closed { .. } if shown == Shown::Acts => return None,
        Effect::Opened(open) => {
            let waits = if open.waits { "waits" } else { "told" };
            let (kind, OpenCall { call, attempt, .. }) = (open.kind.as_str(), &**open);
            assert!(open.question.starts_with(&open.notice), "{open:?}");
            let notice = if open.notice.is_empty() { "" } else { ", with a notice" };
            format!("open {kind} {call} {waits}, attempt {attempt}{notice}")
        }
        Effect::Closed { call, .. } => format!("close {call}"),
        Effect::Abort { run, calls } => {
            let calls: Vec<&str> = calls.iter().map(|aborted| aborted.call.as_str()).collect();
            format!("abort {run} [{}]", calls.join(", "))
        }
        Effect::Publish { reply } => {
            let end = match &reply.error {
                Some(error) => error.code.to_string(),
                None => format!("{:?}", reply.output),
            };
            let sources: Vec<String> = reply
                .sources
                .iter()
                .map(|source| format!(" {}={}", source.tool, source.status))
                .collect();
            let used = reply.usage.total();
            let status = reply.status.as_str();
            let joined = reply.joined.as_ref().map(|run| format!(", joined {run}"));
            let joined = joined.unwrap_or_default();
            let tainted = if reply.tainted { ", tainted" } else { "" };
            let sources = sources.concat();
            format!("publish {} {status} {end}, {used} used{joined}{tainted}{sources}", reply.run)
        }
        Effect::SetTimer { run, at } => format!("timer {run} at {}", at.as_micros() / 1000),
        Effect::Tell(_) | Effect::Span(_) if shown != Shown::Everything => return None,
        Effect::Tell(event) => show_event(event),
        Effect::Span(span) => match &span.record.error {
            Some(error) => format!("span {}: {error}", span.record.name),
            None => format!("span {}", span.record.name),
        },
    };
    Some(keys(&line))
}

fn show_call(call: &CallEffect) -> String {
    let told = |limit: Option<String>| limit.map_or(String::new(), |limit| format!(", {limit}"));
    let tokens = call.budget.tokens.map(|tokens| format!("{tokens} tokens"));
    let cost = call.budget.cost_nano_usd.map(wire::money::usd);
    // The team of the tables does not bound calls unless that is the subject.
    let calls = call.budget.calls.filter(|calls| *calls < u64::from(u32::MAX));
    let calls = calls.map(|calls| format!("{calls} calls"));
    let steps = call.budget.steps.map(|steps| format!("{steps} steps"));
    let budget = [told(tokens), told(cost), told(calls), told(steps)].concat();
    let again = match call.earlier {
        Earlier::Awaited { doubtful: false } => "waited for",
        Earlier::Awaited { doubtful: true } => "waited for in doubt",
        Earlier::Doubtful => "again",
        Earlier::Nothing => "after all",
    };
    let attempt =
        if call.attempt > 1 { format!(" {again} {}", call.attempt) } else { String::new() };
    let tainted = if call.tainted { ", tainted" } else { "" };
    format!(
        "call {} {} {}{attempt} {}, depth {}{tainted}{budget}, by {}",
        call.name,
        call.call,
        call.effect.as_str(),
        call.arguments,
        call.depth,
        call.deadline.as_micros() / 1000
    )
}

fn show_event(event: &Event) -> String {
    let what = match &event.kind {
        EventKind::RunAccepted { input } => format!("accepted {input:?}"),
        EventKind::RunJoined { joined } => format!("joins {joined}"),
        EventKind::Steered { by, input, .. } => format!("steered by {by} {input:?}"),
        EventKind::RunStarted => "started".to_owned(),
        EventKind::ModelAsked { model, .. } => format!("asked {model}"),
        EventKind::Delta { text, .. } => format!("delta {text:?}"),
        EventKind::ModelRetried { model, .. } => format!("retried {model}"),
        EventKind::ModelSwitched { from, to, .. } => format!("switched {from} {to}"),
        EventKind::Thought { text, .. } => format!("thought {text:?}"),
        EventKind::Planned { tool, task, .. } => format!("planned {tool}: {task}"),
        EventKind::FeedbackGiven { feedback, .. } => format!("feedback {}", feedback.code.as_str()),
        EventKind::CallStarted { call, tool, .. } => format!("call {tool} {call}"),
        EventKind::CallSuspended { call, question, kind, .. } => {
            format!("suspended {call} {} {question:?}", kind.as_str())
        }
        EventKind::QuestionEnded { call, end } => format!("{} {call}", end.as_str()),
        EventKind::CallProgress { call, .. } => format!("progress {call}"),
        EventKind::CallRepeated { call, attempt, reason } => {
            format!("repeated {call} {attempt} {reason:?}")
        }
        EventKind::CallResolved { call, done } => format!("resolved {call} {done}"),
        EventKind::CallEnded { call, status, output, duration_us, .. } => {
            format!("ended {call} {status} {output:?} after {}", duration_us / 1000)
        }
        EventKind::RunResumed => "resumed".to_owned(),
        EventKind::RunEnded { status, .. } => format!("over {}", status.as_str()),
    };
    let id = event.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    format!("tell {id} {what}")
}

/// Writes the keys of calls as `slot/index`.
pub(super) fn keys(line: &str) -> String {
    (0..40).flat_map(|slot| (0..6).map(move |index| (slot, index))).fold(
        line.to_owned(),
        |line, (slot, index)| {
            let line = line.replace(team::call(slot, index).as_str(), &format!("{slot}/{index}"));
            let probes = 1..=if line.starts_with("probe") { 9 } else { 0 };
            probes.fold(line, |line, number| {
                let probe = CallKey::of_probe(&team::call(slot, index), number);
                line.replace(probe.as_str(), &format!("{slot}/{index}?{number}"))
            })
        },
    )
}

pub(super) fn input(input: &Input) -> String {
    keys(&format!("{input:?}"))
}
