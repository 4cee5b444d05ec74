//! Dialect `react`: thought, action and observation as text, asked for by a prompt alone.

use wire::chat::Head;
use wire::entry::{Feedback, Reason};
use wire::{ModelReply, ModelRole, Reading};

use super::calls::{self, Arguments, Written};
use super::form::{FINAL_ANSWER, REACT_ENDINGS, STOP};
use super::{Prompt, Transcript, thinking, told};
use crate::validate::{Catalogue, Toolbox};

mod action;
mod label;

use action::{Action, Sought};
use label::Answer;

/// Renders the conversation: each call as thought and action, each result as an observation.
pub(super) fn prompt(catalogue: &Catalogue, transcript: &Transcript<'_>) -> Prompt {
    let head = catalogue
        .head(ModelRole::Actor, |_| Head { stop: vec![STOP.to_owned()], ..Head::default() });
    told::prompt(catalogue, transcript, head)
}

/// Reads the first action of a reply, or else its final answer.
pub(super) fn read(toolbox: &Toolbox, reply: &ModelReply) -> Reading {
    let spoken = thinking::removed(&reply.content);
    if spoken.cut {
        return calls::fault(Reason::Cut, reply);
    }
    if spoken.text.is_empty() {
        return if calls::is_cut(reply) {
            calls::fault(Reason::Cut, reply)
        } else {
            calls::fault(Reason::Empty, reply)
        };
    }
    let (text, is_stopped) = stopped(&spoken.text, calls::is_cut(reply));
    // Beyond a stop nothing was wanted, so that an end that is missing there is no loss.
    let is_cut = calls::is_cut(reply) && !is_stopped;
    let answer = label::answer(text);
    let spoken = |answer: Answer, to: usize| {
        let answer = text.get(answer.start..answer.end.min(to)).unwrap_or_default();
        said(label::unfenced(answer), reply)
    };
    // What precedes a question that the model asks itself is over; what follows it is invented.
    let is_over = |answer: Answer, at: usize| answer.at < at && answer.end <= at;
    match (action::find(text, toolbox), answer) {
        (Sought::None, Some(_)) if is_cut => calls::fault(Reason::Cut, reply),
        (Sought::None, Some(answer)) => spoken(answer, text.len()),
        (Sought::None, None) => unlabelled(text, toolbox, reply, is_cut),
        (Sought::Broken { at, .. } | Sought::Action { at, .. }, Some(answer))
            if is_over(answer, at) =>
        {
            spoken(answer, at)
        }
        (Sought::Broken { fault, .. }, _) if fault.is_cut || is_cut => {
            calls::fault(Reason::Cut, reply)
        }
        (Sought::Broken { fault, .. }, _) => fault_of(fault.why, toolbox, reply),
        (Sought::Action { action: Action::Nothing, at, .. }, Some(answer)) => {
            let to =
                if answer.at < at { label::before_action(text, answer, at) } else { text.len() };
            spoken(answer, to)
        }
        (Sought::Action { action: Action::Nothing, .. }, None) => {
            fault_of("the action names no tool, and there is no answer", toolbox, reply)
        }
        (Sought::Action { at, .. }, Some(answer)) if answer.at < at => {
            let why = "an answer and an action stand in one reply; give one of them";
            fault_of(why, toolbox, reply)
        }
        (Sought::Action { end, .. }, _) if is_cut && calls::is_cut_at(reply, text.get(end..)) => {
            calls::fault(Reason::Cut, reply)
        }
        // Where free text ends is told by what follows it, which is not all there.
        (Sought::Action { action: Action::Call { arguments: Arguments::Input(_), .. }, .. }, _)
            if is_cut =>
        {
            calls::fault(Reason::Cut, reply)
        }
        (Sought::Action { action: Action::Final(answer), .. }, _) => said(&answer, reply),
        (Sought::Action { at, end, action: Action::Call { name, arguments } }, _) => {
            let written = Written { id: String::new(), name, arguments };
            let said = label::thought(text, at);
            calls::worded(calls::reading(toolbox, &REACT_ENDINGS, said, vec![written]), text, end)
        }
    }
}

/// Returns what follows the action of a reply, or the answer that was read.
pub(super) fn rest<'t>(text: &'t str, toolbox: &Toolbox, answer: Option<&str>) -> &'t str {
    let from = match answer {
        Some(answer) => text.rfind(answer).map(|at| at + answer.len()),
        None => match action::find(text, toolbox) {
            Sought::Action { end, .. } => Some(end),
            Sought::Broken { .. } | Sought::None => None,
        },
    };
    from.and_then(|from| text.get(from..)).unwrap_or_default()
}

fn said(answer: &str, reply: &ModelReply) -> Reading {
    let answer = answer.trim();
    if answer.is_empty() {
        return calls::fault(Reason::Empty, reply);
    }
    Reading::Final { text: reply.content.part(answer) }
}

/// Reads a text without action and answer. Plain prose is the answer of a model that talks; prose
/// that names a tool is a plan.
fn unlabelled(text: &str, toolbox: &Toolbox, reply: &ModelReply, is_cut: bool) -> Reading {
    if is_cut {
        return calls::fault(Reason::Cut, reply);
    }
    let names_tool = toolbox.names().iter().any(|name| text.contains(name.as_str()));
    if label::any(text) || names_tool || text.contains(['{', '`']) {
        let why = format!("there is neither an action nor a line that begins with {FINAL_ANSWER}:");
        return fault_of(why, toolbox, reply);
    }
    Reading::Final { text: reply.content.part(text) }
}

fn fault_of(why: impl Into<String>, toolbox: &Toolbox, reply: &ModelReply) -> Reading {
    let feedback = calls::feedback(Reason::NotOfForm);
    let feedback = Feedback { faults: vec![why.into()], valid_names: toolbox.names(), ..feedback };
    Reading::Fault { feedback, raw: calls::raw(reply) }
}

/// Cuts what a server would have cut at the stop text, and an end that begins the stop text.
/// Tells whether anything was cut.
///
/// Where the token limit cut the reply, its end may have become any other word, so that there only
/// the whole stop text counts.
///
/// A reply that begins with an observation goes on from what it was shown; it is cut only if it
/// acts, since what follows an action is invented.
fn stopped(text: &str, is_cut: bool) -> (&str, bool) {
    let word = STOP.trim_start();
    let goes_on = text.starts_with(word) && !label::acts(text);
    if goes_on {
        return (text, false);
    }
    for (at, line) in label::lines(text).skip(1) {
        let bare = line.trim_start_matches([' ', '\t', '*', '>', '#']);
        let is_labelled = bare.strip_prefix(word).is_some_and(|rest| {
            bare.len() == line.len() || rest.trim_start_matches('*').starts_with(':')
        });
        let is_end = at + line.len() == text.len();
        let begins = is_end && !is_cut && bare.len() > 1 && word.starts_with(bare.trim_end());
        if is_labelled || begins {
            return (text.get(..at).unwrap_or_default().trim_end(), true);
        }
    }
    (text, false)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::FinishReason::{self, Length, Stop};
    use wire::plan::Dialect;

    use super::super::fixture::{catalogue, outline, reply};
    use super::*;

    #[test]
    fn replies_are_read_as_one_call_answer_or_fault() {
        let blob = |action: &str, input: &str| {
            format!("Action:\n```json\n{{\"action\": {action}, \"action_input\": {input}}}\n```")
        };
        let search = blob("\"search\"", "{\"query\": \"x\"}");
        let found = json!([["search", {"query": "x"}]]);
        let cut = json!({"fault": "truncated_reply"});
        let malformed = json!({"fault": "malformed_reply"});
        let cases: Vec<(FinishReason, String, Value)> = vec![
            (Stop, search.clone(), found.clone()),
            (Stop, blob("\"search\"", "\"x\""), found.clone()),
            (Stop, "Action: search\nAction Input: x".to_owned(), found.clone()),
            (
                Stop,
                "Action: search\n```json\n{\"query\": \"x\"}\n``Action: now\nAction Input: y"
                    .to_owned(),
                found.clone(),
            ),
            (
                Stop,
                blob("\"calculate\"", "{\"expression\": \"1\", \"digits\": null}"),
                json!([["calculate", {"expression": "1"}]]),
            ),
            (
                Stop,
                blob("\"calculate\"", "\"1\""),
                json!([["calculate", null, "invalid_arguments"]]),
            ),
            (
                Stop,
                blob("\"search\"", "{\"q\": \"x\"}"),
                json!([["search", {"q": "x"}, "invalid_arguments"]]),
            ),
            (Stop, blob("\"now\"", "\"\""), json!([["now", {}]])),
            (Stop, blob("\"fly\"", "{}"), json!([["fly", {}, "unknown_tool"]])),
            (Stop, blob("\"respond_to_user\"", "{\"answer\": \"a\"}"), json!({"final": "a"})),
            (Stop, blob("null", "null"), malformed.clone()),
            (Stop, blob("[]", "{}"), malformed),
            (Length, search.clone(), cut.clone()),
            (Length, format!("{search}\nObservation: y\nThought: z"), found.clone()),
            (Stop, "Action: search\nAction Input: x\nObserv".to_owned(), found),
            (Length, "Action: search\nAction Input: x\nObserv".to_owned(), cut.clone()),
            (Length, "Action: search\nAction Input: a\n```py\nb\n```\nc".to_owned(), cut.clone()),
            (Length, "Final Answer: half of".to_owned(), cut.clone()),
            (Stop, format!("<think>{search}"), cut),
            (Stop, "Final Answer: a\nObservation: b".to_owned(), json!({"final": "a"})),
            (Stop, "Final Answer: a\n- b\n- c".to_owned(), json!({"final": "a\n- b\n- c"})),
            (Stop, "Final Answer:".to_owned(), json!({"fault": "empty_reply"})),
            (Stop, String::new(), json!({"fault": "empty_reply"})),
        ];
        let catalogue = catalogue(Dialect::React, false);
        for (finish, content, expected) in cases {
            let reading = read(catalogue.toolbox(), &reply(finish, &content));
            assert_eq!(outline(&reading), expected, "{content}");
        }
    }

    #[test]
    fn fences_that_an_input_opens_belong_to_it() {
        let code = "Fix this:\n```python\nprint(1)\n```\nand add tests.";
        let twice = format!("{code}\n```sh\nls\n```");
        let odd = format!("{code}\n```sh\nls");
        let catalogue = catalogue(Dialect::React, false);
        for (input, expected) in [
            (code.to_owned(), code),
            (format!("{code}\nThought: so"), code),
            (twice.clone(), &twice),
            (format!("{twice}\n```"), &twice),
            ("x\n```".to_owned(), "x"),
            // The last fence of an odd number is taken for the one that closes the action.
            (odd, &format!("{code}\n")),
            // What begins inside of a fence ends with it.
            ("```python\nprint(1)\n```\nand add tests.".to_owned(), "print(1)"),
            ("\n```\nprint(1)\n```".to_owned(), "print(1)"),
            ("```\nprint(1)".to_owned(), "print(1)"),
            // A word of code at the beginning is no fence.
            (format!("`ls` fails. {code}"), &format!("`ls` fails. {code}")),
            ("`ls`".to_owned(), "`ls`"),
        ] {
            let content = format!("Thought: why\nAction: search\nAction Input: {input}");
            let reading = read(catalogue.toolbox(), &reply(Stop, &content));
            assert_eq!(
                outline(&reading),
                json!([["search", {"query": expected.trim()}]]),
                "{content}"
            );
        }
    }

    #[test]
    fn the_thought_stands_beside_the_call() {
        let catalogue = catalogue(Dialect::React, false);
        let content = "Question: q\nThought: why\nAction: now\nAction Input: {}";
        let reading = read(catalogue.toolbox(), &reply(Stop, content));
        let Reading::Calls { text, .. } = reading else { panic!("not read as calls: {reading:?}") };
        assert_eq!(text, "why");
    }
}
