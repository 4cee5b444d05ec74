//! Counts what happens in a team, for whoever asks how it fares.
//!
//! Counted is what became durable, at the one place where a session learns of it; a replay counts
//! nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use agents_core::effect::Effect;
use store::Change;
use wire::look::Counts;
use wire::{RunId, RunStatus, SpanRecord, Usage, semconv};

/// What happened in a team since the node started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    runs_begun: AtomicU64,
    runs_ended: [AtomicU64; RunStatus::ALL.len()],
    steps: AtomicU64,
    turns: AtomicU64,
    turns_failed: AtomicU64,
    feedback: AtomicU64,
    calls: AtomicU64,
    calls_failed: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    cost_nano_usd: AtomicU64,
    restarts: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Counters {
    /// Counts what an input came to.
    pub(crate) fn note(&self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::RunBegun(_) => add(&self.runs_begun, 1),
                Change::RunEnded { status, .. } => {
                    let at = RunStatus::ALL.iter().position(|known| known == status);
                    at.and_then(|at| self.runs_ended.get(at)).iter().for_each(|n| add(n, 1));
                }
                Change::SessionSeen { .. }
                | Change::SessionForgotten(_)
                | Change::CancelOwed { .. }
                | Change::CancelDelivered { .. }
                | Change::Fact(_)
                | Change::Forgot(_)
                | Change::OnlyFacts(_)
                | Change::CallOpened(_)
                | Change::CallClosed(_)
                | Change::Span(_)
                | Change::Turn(_) => {}
            }
        }
    }

    /// Counts a span that ended.
    pub(crate) fn note_span(&self, span: &SpanRecord) {
        let is_failed = u64::from(span.error.is_some());
        match span.attributes.text(semconv::OPERATION_NAME) {
            Some(semconv::operation::CHAT) => {
                add(&self.turns, 1);
                add(&self.turns_failed, is_failed);
                add(&self.feedback, u64::from(span.attributes.contains(semconv::FEEDBACK)));
            }
            Some(semconv::operation::EXECUTE_TOOL) => {
                add(&self.calls, 1);
                add(&self.calls_failed, is_failed);
            }
            Some(_) | None => {}
        }
        if let Some(used) = span.model_usage() {
            add(&self.input_tokens, used.input_tokens);
            add(&self.output_tokens, used.output_tokens);
            add(&self.cost_nano_usd, used.cost_nano_usd);
        }
    }

    /// Counts the steps that begin with some effects; `last` is the newest that was counted.
    pub(crate) fn note_steps(&self, effects: &[Effect], last: &mut Option<(RunId, u32)>) {
        for effect in effects {
            let Effect::AskModel { run, step, .. } = effect else { continue };
            let is_counted = last.as_ref().is_some_and(|(of, known)| of == run && known >= step);
            if !is_counted {
                *last = Some((run.clone(), *step));
                add(&self.steps, 1);
            }
        }
    }

    /// Counts an actor that failed and is started again.
    pub(crate) fn note_restart(&self) {
        add(&self.restarts, 1);
    }

    /// Returns what was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let ended = RunStatus::ALL.iter().zip(&self.runs_ended);
        let runs_ended: BTreeMap<String, u64> = ended
            .map(|(status, count)| (status.as_str().to_owned(), read(count)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let tokens = Usage::of_tokens(read(&self.input_tokens), read(&self.output_tokens));
        Counts {
            runs_begun: read(&self.runs_begun),
            runs_ended,
            steps: read(&self.steps),
            turns: read(&self.turns),
            turns_failed: read(&self.turns_failed),
            feedback: read(&self.feedback),
            calls: read(&self.calls),
            calls_failed: read(&self.calls_failed),
            usage: Usage { cost_nano_usd: read(&self.cost_nano_usd), ..tokens },
            restarts: read(&self.restarts),
        }
    }
}
