//! A run as plain text, for the thinker and for actor models whose replies obey a schema.
//!
//! Replies that were mended within their step are left out once the step is over: what counts is
//! what was called.

use std::sync::Arc;

use wire::chat::Head;
use wire::plan::{Audience, Text};

use super::told::{Place, Told, places};
use super::wording::fact::Scene;
use super::{Act, Called, Prompt, Step, Transcript};
use crate::validate::Catalogue;

/// Tells the steps that are over, then asks, then shows what the model replied in this step.
pub(super) fn prompt(
    audience: Audience,
    catalogue: &Catalogue,
    transcript: &Transcript<'_>,
    head: Arc<Head>,
) -> Prompt {
    let mut told = Told::begin(audience, catalogue, transcript);
    let (finished, current) = transcript.split();
    let acts = current.map(|step| step.acts.as_slice()).unwrap_or_default();
    // What the user said before the step began to act precedes the question.
    let (before, after) =
        acts.split_at(acts.iter().take_while(|act| act.steered().is_some()).count());
    let before = before.iter().map(|act| Reply { thought: "", act });
    let replies: Vec<Reply<'_>> = finished.iter().flat_map(replies).chain(before).collect();
    told.request(replies.is_empty());
    for (index, reply) in replies.iter().enumerate() {
        reply.tell(index + 1 == replies.len(), &mut told);
    }
    told.ask_and(head, |told| {
        for (index, act) in after.iter().enumerate() {
            again(act, index + 1 == after.len(), told);
        }
    })
}

/// Shows what the model replied in the step in work, where what the user said meanwhile is told
/// with the steps.
pub(super) fn in_work(step: Option<&Step>, told: &mut Told<'_>) {
    let acts = step.map(|step| step.acts.as_slice()).unwrap_or_default();
    let acts: Vec<&Act> = acts.iter().filter(|act| act.steered().is_none()).collect();
    for (index, act) in acts.iter().enumerate() {
        again(act, index + 1 == acts.len(), told);
    }
}

/// A reply whose calls, if it made any, have their answers, or a message of the user.
struct Reply<'a> {
    /// The thought of the step, at its first reply only.
    thought: &'a str,
    act: &'a Act,
}

fn replies(step: &Step) -> impl Iterator<Item = Reply<'_>> {
    let mut thought = step.thought.as_deref();
    let told = step.acts.iter().filter(|act| match act {
        Act::Continued { .. } | Act::Answered { .. } | Act::Steered { .. } => true,
        Act::Calls { .. } | Act::Feedback { .. } => act.settled().is_some(),
    });
    told.map(move |act| {
        let thought = if act.steered().is_some() { None } else { thought.take() };
        Reply { thought: thought.unwrap_or_default(), act }
    })
}

impl Reply<'_> {
    fn tell(&self, last: bool, told: &mut Told<'_>) {
        let Self { thought, act } = *self;
        match act {
            Act::Continued { text } => told.continued(thought, text),
            Act::Answered { text } => told.said(thought, text),
            Act::Steered { text } => told.steered(text, last),
            Act::Calls { text, calls, .. } => called(thought, text, calls, last, told),
            Act::Feedback { .. } => {}
        }
    }
}

/// Tells the calls in one message and the answers in another.
fn called(thought: &str, text: &str, calls: &[Called], last: bool, told: &mut Told<'_>) {
    let first_number = told.next_call();
    let mut said = Vec::with_capacity(calls.len());
    for (index, call) in calls.iter().enumerate() {
        let (number, first) = (first_number + index, index == 0);
        let scene = Scene { thought, text, call: Some(call), number, first, ..told.scene() };
        said.push(told.render(Text::Call, &scene));
    }
    told.assistant(joined(said, "\n"));
    let places = places(calls, Place { last, ..Place::default() });
    let answers = places.map(|(place, call)| told.answer(call, place)).collect();
    told.user(joined(answers, "\n\n"));
}

/// Shows a reply of the step in work, and what was wrong with it.
pub(super) fn again(act: &Act, last: bool, told: &mut Told<'_>) {
    match act {
        Act::Feedback { .. } => told.unusable(act, Place { first: true, last, again: true }),
        Act::Continued { text } => told.continued("", text),
        Act::Answered { text } => told.said("", text),
        Act::Steered { text } => told.steered(text, last),
        Act::Calls { .. } => {
            let Some((text, calls)) = act.settled() else { return };
            let replies = calls.iter().map(|call| told.written(text, call)).collect();
            told.assistant(joined(replies, "\n"));
            let answers = places(calls, Place { last: true, ..Place::default() })
                .map(|(place, call)| {
                    // One demand for a better reply is enough for all of its calls.
                    let place = Place { again: place.last, last: last && place.last, ..place };
                    told.answer(call, place)
                })
                .collect();
            told.user(joined(answers, "\n\n"));
        }
    }
}

fn joined(parts: Vec<String>, between: &str) -> String {
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(between)
}
