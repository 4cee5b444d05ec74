//! Dialect `native`: calls by the provider's own means.

use std::collections::HashSet;

use serde_json::{Value, json};
use wire::chat::Head;
use wire::entry::Reason;
use wire::id::NAME_CHARS_MAX;
use wire::plan::{Audience, Offer};
use wire::{FinishReason, Message, ModelReply, ModelRole, Name, Reading, SharedText, ToolCall};

use super::calls::{self, Arguments, RESPOND, Written};
use super::told::{Place, Told, places};
use super::written::{self, Holds};
use super::{Act, Called, Kept, Prompt, Step, Transcript, Whole, thinking};
use crate::validate::{Catalogue, Toolbox};

/// Renders the conversation as it was led: every reply in its place, every call answered.
///
/// The tools describe themselves, so that the system text is usually the agent's own. Replies with
/// their answers that are among `before` are not told again.
pub(super) fn prompt(catalogue: &Catalogue, transcript: &Transcript<'_>, before: &Kept) -> Prompt {
    let mut told = Told::begin_after(Audience::Actor, catalogue, transcript, &before.messages);
    let acts = || transcript.steps.iter().flat_map(|step| &step.acts);
    let is_told = |act: &&Act| match act {
        Act::Feedback { .. }
        | Act::Continued { .. }
        | Act::Answered { .. }
        | Act::Steered { .. } => true,
        Act::Calls { .. } => act.settled().is_some(),
    };
    let last_told = acts().rfind(is_told);
    told.request(last_told.is_none());
    let known = told.go_on(before);
    let mut ids = if known == Whole::default() { Ids::default() } else { Ids::after(&before.ids) };
    let mut is_whole = true;
    for (place, act) in acts_after(transcript.steps, known.acts) {
        let last = last_told.is_some_and(|last_told| std::ptr::eq(act, last_told));
        match act {
            Act::Feedback { .. } => told.unusable(act, Place { first: true, last, again: true }),
            Act::Continued { text } => told.continued("", text),
            Act::Answered { text } => told.said("", text),
            Act::Steered { text } => told.steered(text, last),
            Act::Calls { calls, .. } => {
                // A call that waits for its answer is not told, but takes its id.
                let ids: Vec<String> = calls.iter().map(|call| ids.next(call)).collect();
                if act.settled().is_none() {
                    is_whole = false;
                    continue;
                }
                called(act, ids, last, &mut told);
            }
        }
        if is_whole {
            told.end_act(place);
        }
    }
    told.ask(catalogue.head(ModelRole::Actor, |plan| {
        let tools = plan.tools.iter().map(|offer| offer.spec.clone()).collect();
        Head { tools, ..Head::default() }
    }))
}

/// Returns the acts after those of so many steps and so many of the next one, each with what it is
/// the end of, counted in the same way.
fn acts_after(
    steps: &[Step],
    (before, begun): (usize, usize),
) -> impl Iterator<Item = ((usize, usize), &Act)> {
    let later = steps.iter().enumerate().skip(before);
    later.flat_map(move |(step, Step { acts, .. })| {
        let known = if step == before { begun } else { 0 };
        acts.iter().enumerate().skip(known).map(move |(act, it)| ((step, act + 1), it))
    })
}

/// Shows a reply with its calls and their answers, as the provider has it, with the reasoning that
/// it wants back.
pub(super) fn called(act: &Act, ids: Vec<String>, last: bool, told: &mut Told<'_>) {
    let Act::Calls { text, calls, reasoning } = act else { return };
    let written = calls.iter().zip(&ids).map(|(call, id)| ToolCall {
        id: id.clone(),
        name: told_name(&call.read.name),
        arguments: call.read.raw.clone(),
    });
    told.push(Message::Assistant {
        content: text.clone(),
        calls: written.collect(),
        reasoning: reasoning.clone(),
    });
    let places = places(calls, Place { last, again: true, ..Place::default() });
    for ((place, call), call_id) in places.zip(ids) {
        let content = told.answer(call, place);
        told.push(Message::Tool { call_id, name: told_name(&call.read.name), content });
    }
}

/// Returns a name as it can be told again: providers refuse a whole conversation over a name that
/// a model made up and that no tool could have.
fn told_name(name: &str) -> String {
    let mut cleaned = Name::cleaned(name);
    cleaned.truncate(NAME_CHARS_MAX);
    if cleaned.is_empty() { "unknown".to_owned() } else { cleaned }
}

/// Writes an offer in the OpenAI form.
pub(super) fn offered(offer: &Offer) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": offer.spec.name,
            "description": offer.spec.description,
            "parameters": offer.spec.parameters,
        },
    })
}

/// The letters and digits of an id that is made here: so many is what Mistral's servers take.
const ID_CHARS: usize = 9;

/// Gives every call of a conversation an id of its own, the same in every later prompt.
#[derive(Default)]
pub(super) struct Ids<'a> {
    /// Those of calls that were told before.
    known: Option<&'a HashSet<String>>,
    taken: HashSet<String>,
    calls: usize,
}

impl<'a> Ids<'a> {
    /// Begins after calls that were told before.
    fn after(known: &'a HashSet<String>) -> Self {
        Self { known: Some(known), taken: HashSet::new(), calls: known.len() }
    }

    fn is_taken(&self, id: &str) -> bool {
        self.taken.contains(id) || self.known.is_some_and(|known| known.contains(id))
    }

    /// Keeps the provider's id where it is one; some providers leave it empty or repeat it.
    pub(super) fn next(&mut self, call: &Called) -> String {
        self.calls += 1;
        let given = Some(call.read.id.as_str()).filter(|id| !id.is_empty());
        let key = call.key.as_ref().map(wire::CallKey::as_str);
        // Ours have the only form that all servers take.
        let short = key.and_then(|key| key.get(..ID_CHARS));
        let free = [given, short, key].into_iter().flatten().find(|id| !self.is_taken(id));
        let mut id = free.map_or_else(|| format!("call{:05}", self.calls), str::to_owned);
        while self.is_taken(&id) {
            id.push('0');
        }
        self.taken.insert(id.clone());
        id
    }
}

/// Reads the calls that the provider reports, or those in the text, or else the text as the answer,
/// which may be cut.
pub(super) fn read(toolbox: &Toolbox, reply: &ModelReply) -> Reading {
    let spoken = thinking::removed(&reply.content);
    if reply.calls.is_empty() {
        if spoken.cut && reply.finish != FinishReason::Length {
            return calls::fault(Reason::Cut, reply);
        }
        return match reply.finish {
            _ if !spoken.text.is_empty() => text(toolbox, &spoken.text, reply),
            // All tokens went into thinking, and they would again.
            FinishReason::Length => Reading::Cut { text: SharedText::default() },
            FinishReason::ContentFilter => calls::fault(Reason::Cut, reply),
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other => {
                calls::fault(Reason::Empty, reply)
            }
        };
    }
    if calls::is_cut(reply) && !reply.calls.iter().all(is_whole) {
        return cut_inside(reply);
    }
    let written: Vec<_> = reply
        .calls
        .iter()
        .map(|call| Written {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: Arguments::Text(call.arguments.clone()),
        })
        .collect();
    calls::reading(toolbox, &[RESPOND], spoken.text.into_owned(), written)
}

/// Reads a reply whose calls, if any, stand in its text.
fn text(toolbox: &Toolbox, text: &str, reply: &ModelReply) -> Reading {
    match written::calls(text, toolbox) {
        Holds::Prose if reply.finish == FinishReason::Length => {
            Reading::Cut { text: reply.content.part(text) }
        }
        Holds::Prose => Reading::Final { text: reply.content.part(text) },
        // Where a call in a text ends cannot be told, so a cut text has none that is whole.
        Holds::Calls { .. } if calls::is_cut(reply) => cut_inside(reply),
        Holds::Calls { text, calls: written } => calls::reading(toolbox, &[RESPOND], text, written),
        Holds::Broken { is_cut, .. } if is_cut || calls::is_cut(reply) => cut_inside(reply),
        Holds::Broken { why, .. } => {
            let mut feedback = calls::feedback(Reason::UnreadableCall);
            feedback.faults = vec![why];
            feedback.valid_names = toolbox.names();
            Reading::Fault { feedback, raw: calls::raw(reply) }
        }
    }
}

fn cut_inside(reply: &ModelReply) -> Reading {
    calls::fault(Reason::CutInCall, reply)
}

/// Tells whether a call of a cut reply is complete: a closed object is, but no arguments at all
/// may mean that they were cut off.
fn is_whole(call: &ToolCall) -> bool {
    !call.arguments.trim().is_empty() && calls::object(&call.arguments).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::FinishReason::{ContentFilter, Length, Stop, ToolCalls};
    use wire::entry::{Feedback, ReadCall};
    use wire::plan::Dialect;

    use super::super::Step;
    use super::super::fixture::{catalogue, outline, reply};
    use super::*;

    /// Why it ended, the text, the calls, and what all that is read as.
    type Case<'a> = (FinishReason, &'a str, &'a [(&'a str, &'a str)], Value);

    fn read_calls(finish: FinishReason, content: &str, calls: &[(&str, &str)]) -> Reading {
        let mut reply = reply(finish, content);
        reply.calls = calls
            .iter()
            .map(|(name, arguments)| ToolCall {
                id: "id".to_owned(),
                name: (*name).to_owned(),
                arguments: (*arguments).to_owned(),
            })
            .collect();
        read(catalogue(Dialect::Native, false).toolbox(), &reply)
    }

    #[test]
    fn replies_are_read_as_calls_answer_or_fault() {
        let query = r#"{"query":"x"}"#;
        let cases: &[Case<'_>] = &[
            (Stop, " hello ", &[], json!({"final": "hello"})),
            (Stop, "<think>hm</think>hello", &[], json!({"final": "hello"})),
            (Stop, "Write `<think>` first.", &[], json!({"final": "Write `<think>` first."})),
            (Length, "half an ans", &[], json!({"cut": "half an ans"})),
            (Length, "<think>hm</think>\nhalf", &[], json!({"cut": "half"})),
            (Length, "said <think>hm", &[], json!({"cut": "said"})),
            (Length, "<think>hm", &[], json!({"cut": ""})),
            (ContentFilter, "half an ans", &[], json!({"final": "half an ans"})),
            (Stop, "", &[], json!({"fault": "empty_reply"})),
            (Stop, "<think>hm</think>", &[], json!({"fault": "empty_reply"})),
            (Stop, "<think>hm", &[], json!({"fault": "truncated_reply"})),
            (Stop, "said <think>hm", &[], json!({"fault": "truncated_reply"})),
            (Length, "", &[], json!({"cut": ""})),
            (ContentFilter, "", &[], json!({"fault": "truncated_reply"})),
            (ToolCalls, "", &[("search", query)], json!([["search", {"query": "x"}]])),
            (Stop, "", &[("search", query)], json!([["search", {"query": "x"}]])),
            (ToolCalls, "<think>hm", &[("search", query)], json!([["search", {"query": "x"}]])),
            (
                ToolCalls,
                "",
                &[("search", query), ("search", query)],
                json!([["search", {"query": "x"}], ["search", {"query": "x"}]]),
            ),
            (Length, "", &[("search", query)], json!([["search", {"query": "x"}]])),
            (
                Length,
                "",
                &[("search", query), ("search", r#"{"query":"#)],
                json!({"fault": "truncated_reply"}),
            ),
            (Length, "", &[("now", "")], json!({"fault": "truncated_reply"})),
            (Length, "", &[("respond_to_user", r#"{"answer":"done"}"#)], json!({"final": "done"})),
            (
                ToolCalls,
                "",
                &[("search", r#"{"query":"#)],
                json!([["search", null, "invalid_arguments"]]),
            ),
            (ToolCalls, "", &[("now", "")], json!([["now", {}]])),
            (ToolCalls, "", &[("now", " ")], json!([["now", {}]])),
            (ToolCalls, "", &[("now", "null")], json!([["now", {}]])),
            (ToolCalls, "", &[("now", "\"\"")], json!([["now", {}]])),
            (
                ToolCalls,
                "",
                &[("search", r#""{\"query\":\"x\"}""#)],
                json!([["search", {"query": "x"}]]),
            ),
            (
                ToolCalls,
                "",
                &[("search", r#""\"{}\"""#)],
                json!([["search", null, "invalid_arguments"]]),
            ),
            (
                ToolCalls,
                "",
                &[("search", "print(1)")],
                json!([["search", null, "invalid_arguments"]]),
            ),
            (ToolCalls, "", &[("search", "[1]")], json!([["search", null, "invalid_arguments"]])),
            (ToolCalls, "", &[("search", "{}")], json!([["search", {}, "invalid_arguments"]])),
            (
                ToolCalls,
                "",
                &[("calculate", r#"{"expression":"1","digits":"5"}"#)],
                json!([["calculate", {"expression": "1", "digits": 5}]]),
            ),
            (
                ToolCalls,
                "",
                &[("Search", query), ("search", query)],
                json!([["Search", {"query": "x"}, "unknown_tool"], ["search", {"query": "x"}]]),
            ),
            (ToolCalls, "", &[("", "code")], json!([["", null, "unknown_tool"]])),
            (
                ToolCalls,
                "",
                &[("respond_to_user", r#"{"answer":" done "}"#)],
                json!({"final": "done"}),
            ),
            (
                ToolCalls,
                "",
                &[("respond_to_user", r#"{"answer":5}"#)],
                json!([["respond_to_user", {"answer": 5}, "invalid_arguments"]]),
            ),
            (
                ToolCalls,
                "",
                &[("search", query), ("respond_to_user", r#"{"answer":"guess"}"#)],
                json!([
                    ["search", {"query": "x"}],
                    ["respond_to_user", {"answer": "guess"}, "malformed_reply"],
                ]),
            ),
        ];
        for (finish, content, calls, expected) in cases {
            let reading = read_calls(*finish, content, calls);
            assert_eq!(outline(&reading), *expected, "{finish:?} {content:?} {calls:?}");
        }
    }

    #[test]
    fn names_that_no_tool_can_have_are_told_again_as_names() {
        let long = "x".repeat(80);
        let written = [
            ("", "unknown"),
            ("a.b c", "a_b_c"),
            ("größe", "gr__e"),
            (&long, long.get(..64).unwrap()),
            ("search", "search"),
        ];
        let calls: Vec<_> = written.iter().map(|(name, _)| (*name, "{}")).collect();
        let catalogue = catalogue(Dialect::Native, false);
        let Reading::Calls { text, calls } = read_calls(ToolCalls, "", &calls) else {
            panic!("not read as calls");
        };
        let answered = |read: ReadCall| {
            let result = read.fault.as_ref().map(Feedback::to_text);
            Called { read, key: None, result }
        };
        let calls = calls.into_iter().map(answered).collect();
        let act = Act::Calls { text, calls, reasoning: None };
        let steps = [Step { thought: None, planned: None, acts: vec![act] }];
        let transcript =
            Transcript { plan: catalogue.plan(), history: &[], request: "Q", steps: &steps };
        let prompt = prompt(&catalogue, &transcript, &Kept::default());
        let (mut called, mut answers) = (Vec::new(), Vec::new());
        for message in &prompt.messages {
            match message.as_ref() {
                Message::Assistant { calls, .. } => {
                    called.extend(calls.iter().map(|call| call.name.as_str()));
                }
                Message::Tool { name, .. } => answers.push(name.as_str()),
                Message::System { .. } | Message::User { .. } => {}
            }
        }
        assert_eq!(called, written.map(|(_, told)| told));
        assert_eq!(answers, called);
        assert!(answers.iter().all(|name| Name::new(name).is_ok()), "{answers:?}");
    }

    #[test]
    fn a_long_answer_is_the_text_of_the_reply_and_no_copy() {
        let said = "ä ".repeat(1 << 20);
        for content in [said.clone(), format!("\n{said}\n"), format!("<think>hm</think>\n{said}")] {
            let reply = reply(Stop, &content);
            let content = SharedText::from(content);
            let reply = ModelReply { content: content.clone(), ..reply };
            let toolbox = catalogue(Dialect::Native, false);
            let Reading::Final { text } = read(toolbox.toolbox(), &reply) else {
                panic!("not read as an answer");
            };
            assert_eq!(text.len(), said.trim().len());
            let range = content.as_bytes().as_ptr_range();
            assert!(range.contains(&text.as_ptr()), "it is a copy");
        }
    }

    #[test]
    fn what_the_model_wrote_is_kept_byte_for_byte() {
        let raw = "{ \"query\" :\"x\" }";
        let Reading::Calls { text, calls } = read_calls(ToolCalls, " why ", &[("search", raw)])
        else {
            panic!("not read as calls");
        };
        assert_eq!(
            (text.as_str(), calls[0].raw.as_str(), calls[0].id.as_str()),
            ("why", raw, "id")
        );
        let Reading::Fault { raw, .. } = read_calls(Length, "why", &[("search", "{\"q")]) else {
            panic!("not read as fault");
        };
        assert_eq!(raw, "why\nsearch {\"q");
    }

    #[test]
    fn feedback_names_every_fault_and_the_way_out() {
        let written = [("python", "len(x)"), ("calculate", r#"{"digits":"many","x":1}"#)];
        let Reading::Calls { calls, .. } = read_calls(ToolCalls, "", &written) else {
            panic!("not read as calls");
        };
        let [unknown, invalid] = [&calls[0], &calls[1]].map(|call| call.fault.clone().unwrap());
        assert_eq!(unknown.valid_names, ["search", "calculate", "now"]);
        assert_eq!(
            [unknown.reason, invalid.reason],
            [Some(Reason::UnknownTool), Some(Reason::InvalidArguments)]
        );
        assert!(unknown.faults[0].contains("not JSON"), "{unknown:?}");
        assert_eq!(invalid.faults.len(), 3, "{invalid:?}");
        let plan = catalogue(Dialect::Native, false).plan().clone();
        assert_eq!(invalid.schema.as_ref(), Some(&plan.tools[1].spec.parameters));
    }
}
