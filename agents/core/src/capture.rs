//! Makes of a span what a trace may hold of it.
//!
//! Machines put what was said into spans as values, as far as the plan permits it at most.
//! [`reduce`] makes texts of JSON of them, as far as the trace wants it that the span goes to.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};
use wire::semconv::{
    CONTENT, ERROR_OTHER, ERROR_TYPE, FEEDBACK_TEXT, INPUT_MESSAGES, OUTPUT_MESSAGES,
    SYSTEM_INSTRUCTIONS,
};
use wire::{Capture, SpanRecord};

/// The most bytes of one text that are held where texts are redacted: enough to see what it was
/// about, and little enough that a trace of fifty spans stays below a megabyte.
pub const REDACTED_TEXT_BYTES_MAX: usize = 4 * 1024;

/// The most bytes of one text that are held at all: a span has to be stored, sent and shown as one.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The most parts of a message, and messages of an attribute, that are held; a step has far fewer.
pub const PARTS_MAX: usize = 64;

/// What is looked at beyond the end of a text that is cut, so that no credential that stands there
/// is only cut and not seen.
const MARGIN_BYTES: usize = 4 * 1024;

/// How a text ends that was cut.
const CUT_END: &str = " bytes in all]";

/// The most bytes of what is said at the end of a text that was cut.
const CUT_BYTES: usize = 48;

/// What a number or a truth value counts for.
const ATOM_BYTES: usize = 8;

/// What stands where a credential was.
const MARK: &str = "[redacted]";

/// Credentials that tell by their form what they are. What stands before them is kept.
static CREDENTIALS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        // Private keys, also where the end is missing.
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
        // What stands in an `Authorization` header.
        r"(?i:\b(?:bearer|basic)\s+)(?<token>[A-Za-z0-9._~+/-]{12,}=*)",
        // Keys of providers of models, of code hosts, of chats and of clouds.
        r"\bsk-[A-Za-z0-9_-]{16,}",
        r"\bgh[oprsu]_[A-Za-z0-9]{30,}",
        r"\bgithub_pat_[A-Za-z0-9_]{30,}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"\bAIza[A-Za-z0-9_-]{35}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"(?i:aws_?secret_?(?:access_?)?key\W{1,8})(?<aws>[A-Za-z0-9/+]{40})",
        // JSON Web Tokens.
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        // Names and passwords in addresses.
        r"\b[A-Za-z][A-Za-z0-9+.-]*://(?<userinfo>[^\s/?#@]+)@",
    ];
    Regex::new(&forms.join("|")).ok()
});

/// Members of JSON objects whose values are credentials, in lower case without `-` and `_`.
const SECRET_MEMBERS: &[&str] = &[
    "accesstoken",
    "apikey",
    "authorization",
    "clientsecret",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "secretaccesskey",
    "xapikey",
];

/// Returns a span as a trace of some level holds it. What was said becomes text that is JSON;
/// what is reduced already can be reduced further.
///
/// `clean` takes out of a text what is known to be secret.
pub fn reduce(
    mut span: SpanRecord,
    level: Capture,
    clean: &dyn Fn(String) -> String,
) -> SpanRecord {
    let reducer = Reducer { level, clean };
    if let Some(text) = &span.error {
        span.error = Some(match level {
            // A sentence may repeat what a tool or a model said.
            Capture::None | Capture::Metadata => {
                let code = span.attributes.get(ERROR_TYPE).and_then(Value::as_str);
                code.unwrap_or(ERROR_OTHER).to_owned()
            }
            Capture::Redacted | Capture::Full => reducer.text(text, &mut reducer.most()),
        });
    }
    let is_content = |name: &String| CONTENT.iter().any(|(content, _)| content == name);
    let is_size = |name: &String| CONTENT.iter().any(|(_, size)| size == name);
    match level {
        Capture::None => span.attributes.retain(|name, _| !is_content(name) && !is_size(name)),
        Capture::Metadata => span.attributes.retain(|name, _| !is_content(name)),
        Capture::Redacted | Capture::Full => {
            for (name, _) in CONTENT {
                if let Some(value) = span.attributes.get_mut(*name) {
                    *value = Value::String(reducer.content(name, value));
                }
            }
        }
    }
    span
}

/// Returns a value as a level holds it: `null` where it holds none.
pub(crate) fn reduce_value(value: &Value, level: Capture) -> Value {
    match level {
        Capture::None | Capture::Metadata => Value::Null,
        Capture::Redacted | Capture::Full => {
            let reducer = Reducer { level, clean: &|text| text };
            reducer.value(value, &mut reducer.most())
        }
    }
}

struct Reducer<'c> {
    level: Capture,
    clean: &'c dyn Fn(String) -> String,
}

impl Reducer<'_> {
    /// Returns the most bytes of one text.
    const fn most(&self) -> usize {
        match self.level {
            Capture::None | Capture::Metadata | Capture::Redacted => REDACTED_TEXT_BYTES_MAX,
            Capture::Full => TEXT_BYTES_MAX,
        }
    }

    /// Makes the text of a content attribute.
    fn content(&self, name: &str, value: &Value) -> String {
        if name == FEEDBACK_TEXT {
            return self.text(value.as_str().unwrap_or_default(), &mut self.most());
        }
        // What is a text was reduced before, or is a plain result; one that is JSON is shown as such.
        let read: Option<Value> = value.as_str().and_then(|text| serde_json::from_str(text).ok());
        let value = read.as_ref().unwrap_or(value);
        let reduced = match name {
            INPUT_MESSAGES | OUTPUT_MESSAGES => self.each(value, |message| self.message(message)),
            SYSTEM_INSTRUCTIONS => self.parts(value),
            _ => self.value(value, &mut self.most()),
        };
        reduced.to_string()
    }

    fn message(&self, message: &Value) -> Value {
        let Some(fields) = message.as_object() else {
            return self.value(message, &mut self.most());
        };
        let reduced = fields.iter().map(|(name, value)| {
            let value = match name.as_str() {
                "parts" => self.parts(value),
                _ => self.value(value, &mut self.most()),
            };
            (name.clone(), value)
        });
        Value::Object(reduced.collect())
    }

    fn parts(&self, parts: &Value) -> Value {
        self.each(parts, |part| {
            let Some(fields) = part.as_object() else { return self.value(part, &mut self.most()) };
            let reduced = fields.iter().map(|(name, value)| {
                let value = match name.as_str() {
                    "type" => value.clone(),
                    _ => self.value(value, &mut self.most()),
                };
                (name.clone(), value)
            });
            Value::Object(reduced.collect())
        })
    }

    fn each(&self, list: &Value, reduce: impl Fn(&Value) -> Value) -> Value {
        let Some(items) = list.as_array() else { return self.value(list, &mut self.most()) };
        items.iter().take(PARTS_MAX).map(reduce).collect()
    }

    /// Reduces a value to a length, and takes what is left of it. What comes after is counted.
    fn value(&self, value: &Value, left: &mut usize) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                *left = left.saturating_sub(ATOM_BYTES);
                value.clone()
            }
            Value::String(text) => Value::String(self.text(text, left)),
            Value::Array(items) => {
                let mut kept = Vec::new();
                for item in items {
                    if *left == 0 {
                        kept.push(Value::String(more(items.len() - kept.len())));
                        break;
                    }
                    kept.push(self.value(item, left));
                }
                Value::Array(kept)
            }
            Value::Object(fields) => {
                let mut kept = Map::new();
                for (name, value) in fields {
                    if *left == 0 {
                        let rest = more(fields.len() - kept.len());
                        kept.insert("[cut]".to_owned(), Value::String(rest));
                        break;
                    }
                    let told = self.text(name, left);
                    let is_secret = self.level == Capture::Redacted && is_secret(name);
                    let value = match value {
                        Value::String(_) | Value::Number(_) if is_secret => MARK.into(),
                        value => self.value(value, left),
                    };
                    kept.insert(told, value);
                }
                Value::Object(kept)
            }
        }
    }

    /// Reduces a text to a length, and takes what is left of it.
    fn text(&self, text: &str, left: &mut usize) -> String {
        let most = left.saturating_add(if text.ends_with(CUT_END) { CUT_BYTES } else { 0 });
        let window = text.floor_char_boundary(most.saturating_add(MARGIN_BYTES));
        let window = text.get(..window).unwrap_or_default();
        let clean = (self.clean)(window.to_owned());
        let clean = match self.level {
            Capture::None | Capture::Metadata | Capture::Redacted => blotted(&clean).into_owned(),
            Capture::Full => clean,
        };
        if window.len() == text.len() && clean.len() <= most {
            *left = left.saturating_sub(clean.len().max(1));
            return clean;
        }
        let shown = clean.get(..clean.floor_char_boundary(*left)).unwrap_or_default();
        *left = 0;
        format!("{shown}[cut, {} bytes in all]", text.len())
    }
}

fn more(count: usize) -> String {
    format!("[{count} more]")
}

fn is_secret(member: &str) -> bool {
    let plain: String = member
        .chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    SECRET_MEMBERS.contains(&plain.as_str())
}

/// Blots out what looks like a credential.
fn blotted(text: &str) -> Cow<'_, str> {
    let Some(credentials) = &*CREDENTIALS else { return Cow::Borrowed(MARK) };
    credentials.replace_all(text, |found: &Captures<'_>| {
        let whole = found.get(0);
        let secret = ["token", "aws", "userinfo"].iter().find_map(|name| found.name(name));
        match (whole, secret) {
            (Some(whole), Some(secret)) => {
                let around = |range| text.get(range).unwrap_or_default();
                format!(
                    "{}{MARK}{}",
                    around(whole.start()..secret.start()),
                    around(secret.end()..whole.end())
                )
            }
            (_, _) => MARK.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests;
