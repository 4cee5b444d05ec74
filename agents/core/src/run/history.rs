//! The history of a session as one run meets it: what its models are shown of earlier runs, and what
//! it leaves to later ones.

use std::cmp::Reverse;

use wire::chat::estimated_tokens;
use wire::plan::Target;
use wire::run::{RunReply, Source};
use wire::{EffectClass, ErrorCode, RunStatus, SharedText};

use super::Run;
use super::budget::Prompts;
use crate::dialect::{Act, Exchange};

/// The share of what a run may read that earlier runs may take, as a divisor: half of what is left
/// beside the rest of its first prompt, so that the run has as much for its own work.
const HISTORY_SHARE: u64 = 2;

/// The share of the exchanges that fit which may be left out, as a divisor, so that those that are
/// shown begin with the same one in several runs.
const STEADY_SHARE: u64 = 4;

/// The most characters of one result, and of the arguments of one call, in the note that stands for
/// the answer of a run without one: enough to know what was done.
const NOTE_RESULT_CHARS_MAX: usize = 200;

/// The most calls of that note; the rest is counted.
const NOTE_CALLS_MAX: usize = 20;

impl Run {
    /// Decides what its models are shown of earlier runs, and takes it in. This holds for as long as
    /// the run is in work.
    ///
    /// `total` counts the exchanges of the session, those that are out of reach included.
    pub(crate) fn begin_after(&mut self, exchanges: &[Exchange], total: u64) {
        self.prompts = Prompts::of(&self.plan, self.text());
        let fitting = self.fitting(exchanges);
        self.exchanges_shown =
            if self.plan.edition >= 3 { steady(fitting, total) } else { fitting };
        self.exchanges_left_out = exchanges.len().saturating_sub(self.exchanges_shown);
        let shown = newest(exchanges, self.exchanges_shown);
        self.prompts.follow(shown);
        self.tainted |= shown.iter().any(|exchange| exchange.tainted);
    }

    /// Counts the newest exchanges that fit beside the rest of the first prompt.
    fn fitting(&self, exchanges: &[Exchange]) -> usize {
        let limits = &self.plan.limits;
        let most = usize::try_from(limits.history_messages_max / 2).unwrap_or(usize::MAX);
        let Some(tokens) = limits.history_tokens_max else { return most.min(exchanges.len()) };
        let tokens = tokens.min(self.readable() / HISTORY_SHARE);
        let mut bytes = 0_u64;
        let fits = |exchange: &&Exchange| {
            bytes = bytes.saturating_add(exchange.bytes() as u64);
            estimated_tokens(bytes) <= tokens
        };
        exchanges.iter().rev().take(most).take_while(fits).count()
    }

    /// Notes that a further message of the user ends the run.
    pub(crate) const fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Returns what later runs are shown of this one, which is over.
    pub(crate) fn remembered(&self) -> Vec<Exchange> {
        let Some(reply) = &self.reply else { return Vec::new() };
        let completed = (reply.status == RunStatus::Completed).then(|| reply.output.clone());
        let answer = completed.or_else(|| self.in_place_of_answer(reply));
        answer.map(|answer| self.exchanges(reply, answer)).unwrap_or_default()
    }

    /// Returns what stands for the answer of a run that did not complete, unless it leaves nothing.
    fn in_place_of_answer(&self, reply: &RunReply) -> Option<SharedText> {
        if !self.plan.keeps_unfinished {
            return self.is_interrupted.then(|| self.note(reply).into());
        }
        // Of what was withheld nothing is shown to a model again.
        let is_withheld = reply.status == RunStatus::Refused;
        let said = if is_withheld { String::new() } else { self.said_last() };
        let came_to_nothing = said.is_empty() && self.sources.is_empty();
        if self.turns == 0 || (came_to_nothing && is_for_the_request(reply)) {
            return None;
        }
        let note = self.note(reply);
        // An answer that a message overtook stands before that message already.
        let is_told = said.is_empty() || self.overtaken().any(|text| self.shown(text) == said);
        Some(if is_told { note } else { format!("{said}\n\n{note}") }.into())
    }

    /// Returns the answers that messages overtook.
    fn overtaken(&self) -> impl Iterator<Item = &SharedText> {
        self.steps.iter().flat_map(|step| &step.acts).filter_map(|act| match act {
            Act::Answered { text } => Some(text),
            Act::Calls { .. }
            | Act::Continued { .. }
            | Act::Steered { .. }
            | Act::Feedback { .. } => None,
        })
    }

    /// Returns what was said in the run, with its answer or what stands for it.
    fn exchanges(&self, reply: &RunReply, answer: SharedText) -> Vec<Exchange> {
        let exchange = |user, answer| Exchange { user, answer, tainted: self.tainted };
        let mut user = self.text().to_owned();
        let mut exchanges = Vec::new();
        for act in self.steps.iter().flat_map(|step| &step.acts) {
            match act {
                Act::Steered { text } => add(&mut user, text),
                Act::Answered { text } => {
                    exchanges.push(exchange(std::mem::take(&mut user), text.clone()));
                }
                Act::Calls { .. } | Act::Continued { .. } | Act::Feedback { .. } => {}
            }
        }
        // Who joined a run that completed without them is told to send the message again.
        if self.plan.keeps_unfinished && reply.status != RunStatus::Completed {
            self.joined_unseen().for_each(|text| add(&mut user, text));
        }
        exchanges.push(exchange(user, answer));
        exchanges
    }

    /// Returns what stands for the answer of a run that ended without one: a model that did not know
    /// what was done would do it again.
    fn note(&self, reply: &RunReply) -> String {
        let mut lines = vec![if self.is_interrupted {
            "(The user's next message came before there was an answer, and ended the work.)"
                .to_owned()
        } else {
            format!("(The work on this message ended before there was an answer: {}.)", why(reply))
        }];
        if !self.sources.is_empty() {
            lines.push("Calls that were made until then:".to_owned());
        }
        lines.extend(self.noted().map(|source| {
            let arguments = cut(&source.arguments.to_string());
            format!("- {} {arguments}: {}: {}", source.tool, source.status, cut(&source.output))
        }));
        if let Some(more) = self.sources.len().checked_sub(NOTE_CALLS_MAX).filter(|more| *more > 0)
        {
            lines.push(format!("- and {more} more"));
        }
        lines.join("\n")
    }

    /// Returns the calls that a note lists. Where they are too many these are the newest, those that
    /// may have changed something before all others.
    fn noted(&self) -> impl Iterator<Item = &Source> {
        let mut noted: Vec<(usize, &Source)> = self.sources.iter().enumerate().collect();
        if self.plan.keeps_unfinished {
            noted.sort_by_key(|(number, source)| (self.is_reading(source), Reverse(*number)));
        }
        noted.truncate(NOTE_CALLS_MAX);
        noted.sort_by_key(|(number, _)| *number);
        noted.into_iter().map(|(_, source)| source)
    }

    fn is_reading(&self, source: &Source) -> bool {
        let offer = self.plan.offer(source.tool.as_str());
        offer.is_some_and(|offer| offer.target == Target::Tool && offer.effect == EffectClass::Read)
    }
}

/// Returns how many of the exchanges that fit are shown: at least three quarters of them, with an
/// oldest one that stays the oldest for some runs. Servers keep what prompts have in common up to the
/// first difference, and one exchange less at the front with each run would leave nothing of it.
fn steady(fitting: usize, total: u64) -> usize {
    let fits = fitting as u64;
    let Some(first) = total.checked_sub(fits).filter(|first| *first > 0) else { return fitting };
    let last = first + fits / STEADY_SHARE;
    // Of these places, the one that most powers of two divide is the best one for the longest time.
    let bits = ((first - 1) ^ last).ilog2();
    let begin = last >> bits << bits;
    usize::try_from(total - begin).unwrap_or(fitting)
}

/// Returns the newest of the exchanges of a session.
pub(super) fn newest(exchanges: &[Exchange], count: usize) -> &[Exchange] {
    exchanges.get(exchanges.len().saturating_sub(count)..).unwrap_or_default()
}

/// Tells whether a run may have ended for what its request is, so that later runs that are shown it
/// would end so as well.
fn is_for_the_request(reply: &RunReply) -> bool {
    let codes = [ErrorCode::ModelRefused, ErrorCode::TooLarge, ErrorCode::ResumedTooOften];
    let error = reply.error.as_ref();
    reply.status == RunStatus::Refused || error.is_some_and(|error| codes.contains(&error.code))
}

fn add(user: &mut String, text: &str) {
    if !user.is_empty() {
        user.push_str("\n\n");
    }
    user.push_str(text);
}

/// Returns why there is no answer, for the models of later runs.
fn why(reply: &RunReply) -> &'static str {
    let is_cut = reply.error.as_ref().is_some_and(|error| error.code == ErrorCode::AnswerCut);
    match reply.status {
        RunStatus::Completed => "it was complete",
        RunStatus::Partial if is_cut => "the reply of the model was too long, and was cut",
        RunStatus::Partial => "it took too many steps",
        RunStatus::Refused => "the reply of the model was withheld",
        RunStatus::Failed => "it failed",
        RunStatus::Cancelled => "it was cancelled",
        RunStatus::Budget => "what it may use was used up",
        RunStatus::Deadline => "its time was over",
        RunStatus::Unknown => "nobody knows why",
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(NOTE_RESULT_CHARS_MAX) {
        Some((end, _)) => format!("{} [cut]", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::steady;

    #[test]
    fn a_history_begins_where_it_can_begin_for_longest() {
        for (fitting, total, shown) in [
            (0, 0, 0),
            (0, 5, 0),
            (1, 1, 1),
            (1, 2, 1),
            (10, 10, 10),
            (10, 11, 9),
            (10, 12, 8),
            (10, 14, 10),
            (20, 21, 17),
            (20, 24, 16),
            (20, 25, 17),
            // Where nobody counted, no more is known than what is kept.
            (3, 2, 3),
        ] {
            assert_eq!(steady(fitting, total), shown, "{fitting} of {total}");
        }
    }
}
