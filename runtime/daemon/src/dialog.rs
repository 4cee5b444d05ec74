//! Asks a person on the terminal for the fields of a form, one line after the other.

use std::collections::VecDeque;

use agents_core::form::{Field, fields};
use serde_json::{Map, Value};
use wire::run::{AnswerAction, AnswerRequest};

use crate::text;

/// What a person writes to refuse an answer.
const DECLINE: &str = "/decline";

/// What a person writes to turn away.
const CANCEL: &str = "/cancel";

/// A form that is being filled in.
#[derive(Debug)]
pub(crate) struct Dialog {
    left: VecDeque<Field>,
    content: Map<String, Value>,
    /// What was wrong with the last line.
    fault: Option<String>,
}

impl Dialog {
    /// Begins with the first field.
    pub(crate) fn new(form: &Value) -> Self {
        Self { left: fields(form).into(), content: Map::new(), fault: None }
    }

    /// Says what to write next.
    pub(crate) fn prompt(&self) -> String {
        let mut lines = Vec::new();
        if let Some(fault) = &self.fault {
            lines.push(format!("  that cannot be: {fault}"));
        }
        let Some(field) = self.left.front() else {
            lines.push(format!("  yes, {DECLINE} or {CANCEL}"));
            return text::harmless(&lines.join("\n"));
        };
        let or_else = match (&field.default, field.required) {
            (Some(Value::String(default)), _) => format!(", or nothing for {default}"),
            (Some(default), _) => format!(", or nothing for {default}"),
            (None, false) => ", or nothing".to_owned(),
            (None, true) => String::new(),
        };
        let about = if field.description.is_empty() {
            String::new()
        } else {
            format!(": {}", field.description)
        };
        lines.push(format!("  {}{about}", field.title));
        lines.push(format!("  [{}{or_else}; {DECLINE} or {CANCEL}]", field.hint()));
        text::harmless(&lines.join("\n"))
    }

    /// Takes a line, and returns what is said to the question once it is clear.
    pub(crate) fn on_line(&mut self, line: &str) -> Option<AnswerRequest> {
        let line = line.trim();
        let action = match line {
            DECLINE => AnswerAction::Decline,
            CANCEL => AnswerAction::Cancel,
            _ => AnswerAction::Accept,
        };
        if action != AnswerAction::Accept {
            return Some(AnswerRequest { action, ..AnswerRequest::default() });
        }
        self.fault = match self.left.front() {
            Some(field) => match filled(field, line) {
                Ok(value) => {
                    self.content.extend(value.map(|value| (field.name.clone(), value)));
                    self.left.pop_front();
                    None
                }
                Err(fault) => Some(fault),
            },
            None if matches!(line, "y" | "yes") => None,
            None => Some("it is agreed to, or it is not".to_owned()),
        };
        if self.fault.is_some() || !self.left.is_empty() {
            return None;
        }
        let content = Some(Value::Object(std::mem::take(&mut self.content)));
        Some(AnswerRequest { content, ..AnswerRequest::default() })
    }
}

/// Returns what a line comes to as the value of a field.
fn filled(field: &Field, line: &str) -> Result<Option<Value>, String> {
    if !line.is_empty() {
        return field.read(line).map(Some);
    }
    match (&field.default, field.required) {
        (Some(default), _) => Ok(Some(default.clone())),
        (None, false) => Ok(None),
        (None, true) => Err(format!("{} is needed", field.name)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form() -> Value {
        json!({
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "description": "How large?"},
                "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "note": {"type": "string", "title": "A note"},
            },
            "required": ["size"],
        })
    }

    #[test]
    fn a_form_is_filled_in_line_by_line() {
        let said =
            |content: Value| AnswerRequest { content: Some(content), ..AnswerRequest::default() };
        let only = |action| AnswerRequest { action, ..AnswerRequest::default() };
        let cases: [(&[&str], Option<AnswerRequest>); 6] = [
            (&["7", "", ""], Some(said(json!({"size": 7, "colour": "red"})))),
            (
                &["", "x", "0", "7", "green", "blue", "fine"],
                Some(said(json!({"size": 7, "colour": "blue", "note": "fine"}))),
            ),
            (&["7", "/decline"], Some(only(AnswerAction::Decline))),
            (&["/cancel"], Some(only(AnswerAction::Cancel))),
            (&["7", "blue"], None),
            (&[""], None),
        ];
        for (lines, expected) in cases {
            let mut dialog = Dialog::new(&form());
            let mut found = None;
            for line in lines {
                assert_eq!(found, None, "{lines:?}");
                found = dialog.on_line(line);
            }
            assert_eq!(found, expected, "{lines:?}");
        }
        let mut dialog = Dialog::new(&json!({"type": "object", "properties": {}}));
        assert_eq!(dialog.on_line(""), None);
        assert_eq!(dialog.on_line("yes"), Some(said(json!({}))));
    }

    #[test]
    fn a_person_is_told_what_to_write() {
        let mut dialog = Dialog::new(&form());
        assert_eq!(
            dialog.prompt(),
            "  size: How large?\n  [whole number, from 1; /decline or /cancel]"
        );
        dialog.on_line("0");
        assert!(dialog.prompt().starts_with("  that cannot be: size: "), "{}", dialog.prompt());
        dialog.on_line("7");
        let prompt = dialog.prompt();
        assert!(prompt.contains("one of red, blue, or nothing for red"), "{prompt}");
    }
}
