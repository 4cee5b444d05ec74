//! Messages that come while a run is in work, as the models of every dialect are shown them.

use std::sync::Arc;

use serde_json::json;
use wire::ModelRole::{Actor, Thinker};
use wire::entry::{Feedback, FeedbackCode, ReadCall};
use wire::plan::{Dialect, Text};
use wire::{Message, ModelRole, Plan};

use super::fixture::{plan, planning};
use super::{Act, Called, Step, Transcript, prompt};
use crate::validate::Catalogue;

const FRENCH: &str = "In French, please.";

fn looked() -> Act {
    let read = ReadCall {
        id: "c1".to_owned(),
        name: "search".to_owned(),
        arguments: json!({"query": "x"}).into(),
        raw: "{\"query\":\"x\"}".to_owned(),
        written: String::new(),
        fault: None,
    };
    let called = Called { read, key: None, result: Some("found".to_owned()) };
    Act::Calls { text: String::new(), calls: vec![called], reasoning: None }
}

fn unusable() -> Act {
    let feedback = Feedback {
        code: FeedbackCode::MalformedReply,
        reason: None,
        message: "no".to_owned(),
        faults: Vec::new(),
        schema: None,
        valid_names: Vec::new(),
    };
    Act::Feedback { raw: "hm".to_owned(), feedback }
}

fn steered() -> Act {
    Act::Steered { text: FRENCH.to_owned() }
}

/// Returns the messages of a prompt by who says them, the system text left out.
fn told(plan: &Plan, role: ModelRole, steps: &[Step]) -> Vec<(&'static str, String)> {
    let catalogue = Catalogue::new(Arc::new(plan.clone()));
    let transcript = Transcript { plan, history: &[], request: "Who?", steps };
    let prompt = prompt(role, &catalogue, &transcript);
    assert_eq!(prompt.faults, []);
    let said = |message: &Arc<Message>| match &**message {
        Message::System { .. } => None,
        Message::User { content } => Some(("user", content.clone())),
        Message::Assistant { content, calls, .. } if calls.is_empty() => {
            Some(("model", content.clone()))
        }
        Message::Assistant { .. } => Some(("call", String::new())),
        Message::Tool { content, .. } => Some(("result", content.clone())),
    };
    prompt.messages.iter().filter_map(said).collect()
}

fn at(told: &[(&str, String)], part: &str) -> usize {
    let found = told.iter().position(|(_, text)| text.contains(part));
    found.unwrap_or_else(|| panic!("no {part:?} in {told:?}"))
}

#[test]
fn every_dialect_shows_the_message_after_what_it_overtook() {
    for dialect in [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React] {
        for thinker in [false, true] {
            let plan = plan(dialect, thinker);
            let thought = |text: &str| thinker.then(|| text.to_owned());
            let step = |said: &str, acts| Step { thought: thought(said), planned: None, acts };
            let answered = Act::Answered { text: "It is 42.".into() };
            let steps = [
                step("Look.", vec![looked()]),
                step("Say it.", vec![answered]),
                step("Translate.", vec![steered()]),
            ];
            for role in [Actor].into_iter().chain(thinker.then_some(Thinker)) {
                let case = format!("{dialect:?} {role:?} beside a thinker: {thinker}");
                let mut steps = steps.clone();
                if role == Thinker {
                    steps[2].thought = None;
                }
                let told = told(&plan, role, &steps);
                let (result, answer, message) =
                    (at(&told, "found"), at(&told, "It is 42."), at(&told, FRENCH));
                assert!(result < answer && answer + 1 == message, "{case}: {told:?}");
                assert_eq!((told[answer].0, told[message].0), ("model", "user"), "{case}");
                let (who, text) = (role, told[message].1.as_str());
                let marked = who == Thinker || matches!(dialect, Dialect::Schema | Dialect::React);
                let expected = if marked { "The user adds: In French, please." } else { FRENCH };
                assert_eq!(text, expected, "{case}");
                // What follows is the thought on it, and the question.
                let after = &told[message + 1..];
                let first = after.first().map(|(who, _)| *who);
                let thinks = role == Actor && thinker && dialect == Dialect::Schema;
                assert_eq!(first == Some("model"), thinks, "{case}: {after:?}");
                assert!(after.iter().all(|(_, text)| text != "Go on."), "{case}: {after:?}");
                let begins = told.iter().filter(|(_, text)| text.contains("Who?")).count();
                assert_eq!(begins, 1, "{case}");
            }
        }
    }
}

#[test]
fn a_message_beside_feedback_and_results_keeps_its_place() {
    for dialect in [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React] {
        let plan = plan(dialect, false);
        let step = |acts| Step { acts, ..Step::default() };
        let again = told(&plan, Actor, &[step(vec![looked()]), step(vec![unusable(), steered()])]);
        let (result, raw, message) = (at(&again, "found"), at(&again, "hm"), at(&again, FRENCH));
        assert!(result < raw && raw + 2 == message, "{dialect:?}: {again:?}");
        // Once the step is over it stands before what the step came to.
        let over = told(&plan, Actor, &[step(vec![steered(), looked()]), step(vec![])]);
        assert!(at(&over, FRENCH) < at(&over, "found"), "{dialect:?}: {over:?}");
    }
}

#[test]
fn a_team_words_the_message_by_its_text_of_the_request() {
    let text = "{% if first %}Asked{% else %}Added{% endif %}: {{ request }}\
        {% if last %} (last){% endif %}";
    for dialect in [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React] {
        let mut plan = plan(dialect, false);
        plan.prompts.actor.insert(Text::Request, text.to_owned());
        let step = |acts| Step { acts, ..Step::default() };
        let told = told(&plan, Actor, &[step(vec![looked()]), step(vec![steered()])]);
        assert_eq!(told[0].1, "Asked: Who?", "{dialect:?}");
        assert_eq!(told[at(&told, FRENCH)].1, format!("Added: {FRENCH} (last)"), "{dialect:?}");
    }
}

#[test]
fn a_planner_and_who_answers_for_it_are_told_of_the_message_in_its_place() {
    let plan = planning(Dialect::Native);
    let planned = |tool: &str, task: &str| {
        Some(wire::Planned {
            tool: tool.to_owned(),
            task: task.to_owned(),
            thoughts: String::new(),
            summary: String::new(),
        })
    };
    let answered = Act::Answered { text: "It is 42.".into() };
    let mut steps = vec![
        Step { planned: planned("search", "find it"), thought: None, acts: vec![looked()] },
        Step { planned: planned("respond_to_user", "say it"), thought: None, acts: vec![answered] },
        Step { acts: vec![steered()], ..Step::default() },
    ];
    let so_far = "The user request is: Who?\n\nThe steps so far:\n\nTask: find it\nResult: \
        found\n\nTask: say it\nAnswer to the user: It is 42.\n\nThe user adds: In French, please.\n\n";
    let asked = told(&plan, Thinker, &steps);
    assert!(asked[0].1.starts_with(so_far), "{asked:?}");
    steps[2].planned = planned("respond_to_user", "translate it");
    let answer = told(&plan, Actor, &steps);
    assert!(answer[0].1.starts_with(so_far), "{answer:?}");
    // Who carries out a task is told the task, in which the planner has seen to the message.
    steps[2].planned = planned("search", "translate it");
    let call = told(&plan, Actor, &steps);
    assert!(!call[0].1.contains(FRENCH) && call[0].1.contains("translate it"), "{call:?}");

    let first = [Step { acts: vec![unusable(), steered()], ..Step::default() }];
    let asked = told(&plan, Thinker, &first);
    let begins = "The user request is: Who?\n\nThe user adds: In French, please.\n\nNo step has";
    assert!(asked[0].1.starts_with(begins) && asked.len() == 3, "{asked:?}");
}
