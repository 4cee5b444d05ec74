//! What a model wrote after the part of its reply that counts: kept for people, never acted on.

use wire::entry::Unread;
use wire::plan::{Audience, Dialect};
use wire::{ModelReply, Reading};

use super::{json, planner, react, thinking};
use crate::validate::Catalogue;

/// Returns what follows in a reply after the object, the action or the answer that was read.
pub(super) fn of(
    audience: Audience,
    dialect: Dialect,
    catalogue: &Catalogue,
    reading: &Reading,
    reply: &ModelReply,
) -> Option<Unread> {
    let answer = match reading {
        Reading::Final { text } => Some(text.as_str()),
        Reading::Calls { .. } | Reading::Planned(_) => None,
        // A fault is kept with the whole reply; of a thought, of a text to go on from and of a cut
        // answer nothing is left out.
        Reading::Fault { .. }
        | Reading::Thought { .. }
        | Reading::Continued { .. }
        | Reading::Cut { .. } => return None,
    };
    let text = || thinking::removed(&reply.content).text;
    let rest = match (audience, dialect) {
        (Audience::Planner, _) => planner::rest(&text()).to_owned(),
        (Audience::Actor | Audience::Task, Dialect::Json) => {
            json::rest(&text(), &catalogue.plan().form).to_owned()
        }
        (Audience::Actor | Audience::Task, Dialect::React) => {
            react::rest(&text(), catalogue.toolbox(), answer).to_owned()
        }
        (Audience::Thinker | Audience::Answer, _)
        | (Audience::Actor | Audience::Task, Dialect::Native | Dialect::Schema) => return None,
    };
    // What closes the object or its fence belongs to what was read.
    Unread::of(rest.trim_start_matches(|c: char| c.is_whitespace() || "`~}])".contains(c)))
}

#[cfg(test)]
mod tests {
    use wire::FinishReason::Stop;
    use wire::plan::Dialect::{self, Json, Native, React, Schema};
    use wire::{ModelRole, Planned};

    use super::super::{RESPOND_TO_USER, fixture, read};
    use super::*;

    fn unread(role: ModelRole, dialect: Dialect, planned: Option<&str>, content: &str) -> String {
        let catalogue = match (role, planned) {
            (ModelRole::Thinker, _) | (_, Some(_)) => {
                Catalogue::new(fixture::planning(dialect).into())
            }
            (ModelRole::Actor, None) => fixture::catalogue(dialect, false),
        };
        let planned = planned.map(|tool| Planned {
            tool: tool.to_owned(),
            task: "x".to_owned(),
            thoughts: String::new(),
            summary: String::new(),
        });
        let read = read(role, &catalogue, planned.as_ref(), &fixture::reply(Stop, content));
        read.unread.map(|unread| unread.begins).unwrap_or_default()
    }

    #[test]
    fn what_follows_the_part_that_counts_is_told() {
        let [thinks, acts] = [ModelRole::Thinker, ModelRole::Actor];
        let call = r#"{"thought": "t", "action": {"function": "now", "arguments": {}}}"#;
        let ends =
            call.replace("now", "finish_conversation").replace("{}}", "{\"final_answer\": \"a\"}}");
        let blob = "Action:\n```json\n{\"action\": \"now\", \"action_input\": {}}\n```";
        let plan = r#"{"task": "x", "selected_tool": "now"}"#;
        let schema = r#"{"tool": "now", "arguments": {}}"#;
        let invented = "\n{\"type\": \"feedback_success\"}";
        let rest = invented.trim();
        for (role, dialect, planned, content, expected) in [
            (acts, Json, None, call.to_owned(), ""),
            (acts, Json, None, format!("```json\n{call}\n```\n"), ""),
            (acts, Json, None, format!("First:\n{call}{invented}"), rest),
            (acts, Json, None, format!("```json\n{call}\n```{invented}"), rest),
            (acts, Json, None, format!("{ends}{invented}"), rest),
            (acts, Json, None, format!("<think>{call}</think>{call} so"), "so"),
            (acts, Json, None, "no object".to_owned(), ""),
            (acts, React, None, blob.to_owned(), ""),
            (acts, React, None, format!("{blob}\nObservation: x"), "Observation: x"),
            (acts, React, None, "Final Answer: 7\nObservation: 8".to_owned(), "Observation: 8"),
            (acts, React, None, "Final Answer: 7".to_owned(), ""),
            (acts, Json, Some("now"), format!("{call} so"), "so"),
            (acts, Json, Some(RESPOND_TO_USER), "{\"a\": 1} it is".to_owned(), ""),
            (thinks, Native, None, format!("{plan}\n{plan}"), plan),
            (acts, Schema, None, schema.to_owned(), ""),
            (acts, Native, None, "An answer.".to_owned(), ""),
        ] {
            assert_eq!(unread(role, dialect, planned, &content), expected, "{dialect:?} {content}");
        }
    }
}
