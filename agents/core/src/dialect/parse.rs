//! Reads one reply by itself, without a plan or a run: what `callboard parse` does.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use wire::entry::{Feedback, FeedbackCode, ReadCall};
use wire::plan::Dialect;
use wire::{FinishReason, ModelReply, Planned, Reading, Usage};

use super::{by, message, wording};
use crate::validate::Toolbox;

/// The most tools of one file; models lose their way among far fewer.
pub const TOOLS_MAX: usize = 1024;

/// What a reply says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Parsed {
    /// Calls that may run, at least one.
    ToolCalls {
        /// The calls in order.
        calls: Vec<ParsedCall>,
    },
    /// The answer.
    Final {
        /// The text.
        text: String,
    },
    /// Nothing that may be acted on.
    Error {
        /// The kind of fault.
        code: FeedbackCode,
        /// Every fault, for people.
        why: String,
    },
}

/// One call of a reply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParsedCall {
    /// The tool.
    pub name: String,
    /// The arguments: an object, or the text as it came where no parameters are known.
    pub arguments: Value,
}

/// Why a list of tools cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// The text is not JSON.
    #[error("read the list of tools: {0}")]
    Json(#[from] serde_json::Error),
    /// The JSON is no list.
    #[error("the tools must be a JSON list, of names or of tools in the OpenAI form")]
    NotAList,
    /// There are too many.
    #[error("the list holds {found} tools; at most {TOOLS_MAX} are read")]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// An item is neither a name nor a tool.
    #[error("item {index} of the list has no name; write a name or a tool in the OpenAI form")]
    Nameless {
        /// The item, counted from 0.
        index: usize,
    },
}

/// Reads a JSON list of tools, in the OpenAI form or as bare names, whose arguments are then not
/// validated.
pub fn toolbox(tools: &str) -> Result<Toolbox, ToolsError> {
    let Value::Array(items) = serde_json::from_str(tools)? else {
        return Err(ToolsError::NotAList);
    };
    if items.len() > TOOLS_MAX {
        return Err(ToolsError::TooMany { found: items.len() });
    }
    let mut toolbox = Toolbox::default();
    for (index, item) in items.iter().enumerate() {
        let tool = item.get("function").unwrap_or(item);
        let name = tool.as_str().or_else(|| tool.get("name")?.as_str());
        let name = name.ok_or(ToolsError::Nameless { index })?;
        let parameters = tool.get("parameters").filter(|parameters| parameters.is_object());
        toolbox.add(name, parameters.cloned());
    }
    Ok(toolbox)
}

/// Reads one reply. For dialect `native` it is the assistant message as JSON, or plain text.
pub fn parse(dialect: Dialect, toolbox: &Toolbox, reply: &str) -> Parsed {
    let spoken = match dialect {
        Dialect::Native => message::read(reply),
        Dialect::Schema | Dialect::Json | Dialect::React => None,
    };
    let (content, calls) = match spoken {
        Some(spoken) => (spoken.content, spoken.calls),
        None => (reply.to_owned(), Vec::new()),
    };
    let reply = ModelReply {
        content: content.into(),
        calls,
        reasoning: None,
        finish: FinishReason::Stop,
        usage: Usage::default(),
        provider: String::new(),
        model: String::new(),
        attempts: 1,
        served_by: None,
        detail: wire::chat::TurnDetail::default(),
    };
    match wording::worded(dialect, by(dialect, toolbox, None, &reply)) {
        Reading::Final { text } | Reading::Cut { text } => Parsed::Final { text: text.to_string() },
        Reading::Continued { text }
        | Reading::Thought { text }
        | Reading::Planned(Planned { task: text, .. }) => Parsed::Final { text },
        Reading::Fault { feedback, .. } => error(&[&feedback]),
        Reading::Calls { calls, .. } => of_calls(calls),
    }
}

/// A run makes the sound calls beside a faulty one; a single reply that has a fault is faulty.
fn of_calls(calls: Vec<ReadCall>) -> Parsed {
    let faults: Vec<&Feedback> = calls.iter().filter_map(|call| call.fault.as_ref()).collect();
    if !faults.is_empty() {
        return error(&faults);
    }
    let calls = calls.into_iter();
    let parsed = |ReadCall { name, arguments, .. }: ReadCall| ParsedCall {
        name,
        arguments: Arc::unwrap_or_clone(arguments),
    };
    Parsed::ToolCalls { calls: calls.map(parsed).collect() }
}

fn error(feedback: &[&Feedback]) -> Parsed {
    let code = feedback.first().map_or(FeedbackCode::MalformedReply, |first| first.code);
    let sentences: Vec<&str> = feedback
        .iter()
        .flat_map(|one| std::iter::once(&one.message).chain(&one.faults))
        .map(String::as_str)
        .collect();
    Parsed::Error { code, why: sentences.join("; ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_outcome_is_one_object() {
        let bare = r#"["search", "with space"]"#;
        let tools = r#"[{"type": "function", "function": {"name": "search", "parameters":
            {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}]"#;
        let call = |n: &str| format!(r#"{{"name": "search", "arguments": {{"n": {n}}}}}"#);
        let made = |n: Value| json!({"kind": "tool_calls", "calls": [{"name": "search", "arguments": {"n": n}}]});
        let cases = [
            (bare, call("\"5\""), made(json!("5"))),
            (tools, call("\"5\""), made(json!(5))),
            (bare, "It rains.".to_owned(), json!({"kind": "final", "text": "It rains."})),
            (tools, call("\"x\""), json!({"kind": "error", "code": "invalid_arguments"})),
            (
                bare,
                format!("<tool_call>{}</tool_call>", call("1").replace("search", "fly")),
                json!({"kind": "error", "code": "unknown_tool"}),
            ),
        ];
        for (tools, reply, expected) in cases {
            let parsed = parse(Dialect::Native, &toolbox(tools).unwrap(), &reply);
            let mut found = serde_json::to_value(parsed).unwrap();
            let why = found.as_object_mut().unwrap().remove("why");
            assert_eq!(why.is_some(), expected["kind"] == "error", "{reply}");
            assert_eq!(found, expected, "{reply}");
        }
    }

    #[test]
    fn a_list_of_tools_that_cannot_be_used_is_refused() {
        let many = serde_json::to_string(&vec!["x"; TOOLS_MAX + 1]).unwrap();
        for tools in ["", "{}", "[1]", "[{\"function\": {}}]", &many] {
            assert!(toolbox(tools).is_err(), "{tools:.40}");
        }
    }
}
