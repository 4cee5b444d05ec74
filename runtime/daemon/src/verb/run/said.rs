//! What a person says to a question, as the node takes it.

use serde_json::{Value, json};
use wire::run::AnswerRequest;
use wire::subject::{CallVerb, RunVerb};
use wire::{Name, OpenKind, Subjects};

use crate::progress::Question;

/// Turns a form that is filled in into what is said about its question.
pub(super) fn filled(team: &Name, asked: &Question, said: AnswerRequest) -> (String, Value) {
    let (call, question_id) = (Some(asked.call.clone()), asked.id.clone());
    let said = AnswerRequest { call, question_id, ..said };
    let subject = Subjects::default().run(team, &asked.run, RunVerb::Answer);
    (subject, json!(said))
}

/// Turns a line into what is said about a question; `None` if it says nothing.
pub(super) fn reply_to(team: &Name, asked: &Question, line: &str) -> Option<(String, Value)> {
    let subjects = Subjects::default();
    let call = |verb| subjects.call(team, &asked.call, verb);
    let line = line.trim();
    match asked.kind {
        OpenKind::Question if line.is_empty() => None,
        OpenKind::Question => {
            let subject = subjects.run(team, &asked.run, RunVerb::Answer);
            Some((subject, json!({"call": asked.call, "text": line})))
        }
        OpenKind::Approval => Some(match line.to_ascii_lowercase().as_str() {
            "y" | "yes" => (call(CallVerb::Approve), json!({})),
            "" | "n" | "no" => (call(CallVerb::Deny), json!({})),
            _ => (call(CallVerb::Deny), json!({"reason": line})),
        }),
        OpenKind::Unknown => match line.split_once(' ').unwrap_or((line, "")) {
            ("not", "done") => Some((call(CallVerb::Resolve), json!({"done": false}))),
            ("done", "") => Some((call(CallVerb::Resolve), json!({"done": true}))),
            ("done", result) => {
                let result: Value =
                    serde_json::from_str(result).unwrap_or_else(|_| Value::from(result));
                Some((call(CallVerb::Resolve), json!({"done": true, "result": result})))
            }
            _ => None,
        },
    }
}
