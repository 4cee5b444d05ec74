//! The replies of a scripted model.

use std::ops::Range;

use regex::RegexBuilder;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::{Message, Usage};

use crate::bound::{PATTERN_BYTES_MAX, SCRIPT_DELAY_MS_MAX, SCRIPT_REPLIES_MAX};

/// A file of replies, one JSON object a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The replies, in the order of the file.
    pub replies: Vec<ScriptedReply>,
}

/// One reply of a script.
///
/// The first reply whose `when` matches the end of the conversation, as [`matched_text`] returns it,
/// is taken. If none matches, the replies without `when` are played in order: the one whose index is the number of assistant
/// messages in the conversation. A model therefore needs no memory, and plays on after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedReply {
    /// A regular expression over the end of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// Calls beside the text, for models that call natively.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ScriptedCall>,
    /// Milliseconds until the reply comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// A fault in place of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ScriptedFault>,
    /// Tokens to report; estimated from the text if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why the model stopped, if not by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<wire::FinishReason>,
}

/// One call of a scripted reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool's name.
    pub name: String,
    /// The arguments: an object, or a text that is sent as it is.
    #[serde(default)]
    pub arguments: Value,
    /// The provider's id; made up if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A fault that a scripted model shows, as a provider would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFault {
    /// The HTTP status in whose class the fault falls; absent means a broken connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What the provider says.
    #[serde(default)]
    pub message: String,
    /// How often it happens to one conversation before the reply comes; absent means always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Milliseconds, from the first request that meets it, after which it happens no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Milliseconds after which the provider says to come again, as `Retry-After` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Returns the text that `when` is matched against: the last two messages, an empty line between.
///
/// Prompts end in a question that is always the same; what differs stands in the message before.
pub fn matched_text<'m>(messages: impl DoubleEndedIterator<Item = &'m Message>) -> String {
    let mut last_two: Vec<&str> = messages.rev().take(2).map(Message::content).collect();
    last_two.reverse();
    last_two.join("\n\n")
}

/// A line of a script that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFault {
    /// The bytes of the script that are at fault.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: &'static str,
}

impl Script {
    /// Reads a script; empty lines are passed over, and every line at fault is told.
    pub fn parse(text: &str) -> Result<Self, Vec<ScriptFault>> {
        let mut replies = Vec::new();
        let mut faults = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let span = start..start + line.trim_end().len();
            start += line.len();
            if line.trim().is_empty() {
                continue;
            }
            if replies.len() == SCRIPT_REPLIES_MAX {
                let message = format!("a script has at most {SCRIPT_REPLIES_MAX} replies");
                faults.push(ScriptFault { span, message, help: "shorten the script" });
                break;
            }
            match ScriptedReply::parse(line) {
                Ok(reply) => replies.push(reply),
                Err((column, message, help)) => {
                    let from = span.start.saturating_add(column).min(span.end);
                    let from = if text.is_char_boundary(from) { from } else { span.start };
                    faults.push(ScriptFault { span: from..span.end, message, help });
                }
            }
        }
        if replies.is_empty() && faults.is_empty() {
            let message = "the script has no reply".to_owned();
            faults.push(ScriptFault { span: 0..0, message, help: LINE_HELP });
        }
        if faults.is_empty() { Ok(Self { replies }) } else { Err(faults) }
    }
}

const LINE_HELP: &str =
    "each line is one JSON object such as {\"when\": \"weather\", \"content\": \"Sunny.\"}";

impl ScriptedReply {
    /// Reads one line; a fault is its byte in the line, what is wrong, and what to do.
    fn parse(line: &str) -> Result<Self, (usize, String, &'static str)> {
        let reply: Self = serde_json::from_str(line).map_err(|error| {
            let said = error.to_string();
            let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
            let column = if error.is_data() { 0 } else { error.column().saturating_sub(1) };
            (column, said.to_owned(), LINE_HELP)
        })?;
        reply.check().map_err(|(message, help)| (0, message, help))?;
        Ok(reply)
    }

    fn check(&self) -> Result<(), (String, &'static str)> {
        if let Some(pattern) = &self.when {
            RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().map_err(|error| {
                let said = error.to_string();
                let said = said.lines().last().unwrap_or_default().trim_start_matches("error: ");
                (
                    format!("pattern {pattern:?} cannot be used: {said}"),
                    "`when` is a regular expression; put a backslash, written \\\\ in JSON, before a sign that stands for itself",
                )
            })?;
        }
        if self.calls.iter().any(|call| !call.arguments.is_object() && !call.arguments.is_string())
        {
            return Err((
                "the arguments of a call must be an object or a text".to_owned(),
                "write \"arguments\": {} for a call without arguments",
            ));
        }
        if self.delay_ms.is_some_and(|delay| delay > SCRIPT_DELAY_MS_MAX) {
            return Err((
                format!("`delay_ms` must be from 0 to {SCRIPT_DELAY_MS_MAX}"),
                "shorten the delay",
            ));
        }
        let fault = self.fault.as_ref();
        let spans = [
            ("for_ms", fault.and_then(|fault| fault.for_ms)),
            ("retry_after_ms", fault.and_then(|fault| fault.retry_after_ms)),
        ];
        for (field, span) in spans {
            if span.is_some_and(|span| span > SCRIPT_DELAY_MS_MAX) {
                return Err((
                    format!("the `{field}` of a fault must be from 0 to {SCRIPT_DELAY_MS_MAX}"),
                    "shorten the time",
                ));
            }
        }
        let status = fault.and_then(|fault| fault.status);
        if status.is_some_and(|status| !(400..=599).contains(&status)) {
            return Err((
                "the `status` of a fault must be from 400 to 599".to_owned(),
                "leave `status` out for a broken connection",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_replies_in_order() {
        let text = "{\"content\":\"a\"}\r\n\n{\"when\":\"^x\",\"calls\":[{\"name\":\"t\",\"arguments\":{}}],\"delay_ms\":5}";
        let script = Script::parse(text).unwrap();
        assert_eq!(script.replies.len(), 2);
        assert_eq!(script.replies[0].content, "a");
        assert_eq!(script.replies[1].calls[0].name, "t");
        assert_eq!(script.replies[1].delay_ms, Some(5));
    }

    #[test]
    fn tells_each_line_at_fault() {
        for (line, message) in [
            ("hello", "expected value"),
            (r#"{"contents":"a"}"#, "unknown field `contents`"),
            (r#"{"content":5}"#, "invalid type: integer `5`, expected a string"),
            (r#"{"when":"("}"#, "pattern \"(\" cannot be used: unclosed group"),
            (r#"{"when":"a{900}{900}{900}"}"#, "exceeds size limit"),
            (r#"{"calls":[{"name":"t","arguments":5}]}"#, "must be an object or a text"),
            (r#"{"calls":[{"arguments":{}}]}"#, "missing field `name`"),
            (r#"{"delay_ms":600001}"#, "`delay_ms` must be from 0 to 600000"),
            (r#"{"fault":{"status":200}}"#, "must be from 400 to 599"),
            (r#"{"fault":{"for_ms":600001}}"#, "the `for_ms` of a fault must be from 0 to 600000"),
            (r#"{"fault":{"retry_after_ms":600001}}"#, "the `retry_after_ms` of a fault must be"),
            (r#"{"content":"a"} x"#, "trailing characters"),
            ("é", "expected value"),
        ] {
            let text = format!("{{\"content\":\"fine\"}}\n{line}\n{line}\n");
            let faults = Script::parse(&text).unwrap_err();
            assert_eq!(faults.len(), 2, "{line}");
            for fault in &faults {
                assert!(fault.message.contains(message), "{line}: {}", fault.message);
                assert!(!fault.help.is_empty());
                assert!(text.get(fault.span.clone()).is_some(), "{line}: {:?}", fault.span);
            }
            assert!(faults[0].span.end < text.len() - line.len());
        }
    }

    #[test]
    fn a_script_has_replies_but_not_too_many() {
        assert_eq!(Script::parse(" \n\n").unwrap_err()[0].message, "the script has no reply");
        let text = "{}\n".repeat(SCRIPT_REPLIES_MAX + 3);
        assert!(Script::parse(&text).unwrap_err()[0].message.contains("at most 10000 replies"));
    }
}
