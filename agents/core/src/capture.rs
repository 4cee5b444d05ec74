//! Makes of a span what a trace may hold of it.
//!
//! Machines put what was said into spans as values, as far as the plan permits it at most.
//! [`reduce`] makes texts of JSON of them, as far as the trace wants it that the span goes to.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
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
    let members = members();
    // Within a text of JSON each quote and each backslash has one before it.
    let quoted = format!(
        r#"\\+"(?:{members})\\+"\s*:\s*\\+"(?<quoted>(?:[^"\\]|\\{{4}}|\\{{3}}"|\\[^"])*)"#
    );
    let member = format!(r#""(?:{members})"\s*:\s*"(?<member>(?:[^"\\]|\\.)*)"#);
    // A list or an object with none in it; what closes it may stand in a text in it.
    let flat = |open: char, close: char| {
        let (open, close) = (format!(r"\{open}"), format!(r"\{close}"));
        let whole = format!(r#"{open}(?:"(?:[^"\\]|\\.)*"|[^{open}{close}"])*{close}"#);
        format!(r"{whole}|{open}[^{open}{close}]*(?:{close}|\z)")
    };
    let (list, object) = (flat('[', ']'), flat('{', '}'));
    let value = format!(r"-?[0-9][0-9.eE+-]*|{list}|{object}");
    let bare = format!(r#"\\*"(?:{members})\\*"\s*:\s*(?<bare>{value})"#);
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
        // Members of objects that are quoted in a text, as they are and within a text of JSON.
        &member,
        &bare,
        &quoted,
    ];
    Regex::new(&forms.join("|")).ok()
});

/// The fewest bytes of what is known by its form, if it has no `@`.
const CREDENTIAL_BYTES_MIN: usize = r#""passwd":1"#.len();

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

/// Returns the pattern of the names of these members.
fn members() -> String {
    let spaced = |name: &&str| {
        let letters: Vec<String> = name.chars().map(String::from).collect();
        letters.join("[-_]*")
    };
    let names: Vec<String> = SECRET_MEMBERS.iter().map(spaced).collect();
    format!("(?i:{})", names.join("|"))
}

/// Takes out of a text what is known to be secret.
pub type Clean<'c> = &'c dyn for<'t> Fn(&'t str) -> Cow<'t, str>;

/// Returns a span as a trace of some level holds it. What was said becomes text that is JSON;
/// what is reduced already can be reduced further.
pub fn reduce(mut span: SpanRecord, level: Capture, clean: Clean<'_>) -> SpanRecord {
    let reducer = Reducer { level, clean };
    span.error = reduce_error(&span, level, clean);
    let is_content = |name: &str| CONTENT.iter().any(|(content, _)| *content == name);
    let is_size = |name: &str| CONTENT.iter().any(|(_, size)| *size == name);
    match level {
        Capture::None => span.attributes.retain(|name| !is_content(name) && !is_size(name)),
        Capture::Metadata => span.attributes.retain(|name| !is_content(name)),
        Capture::Redacted | Capture::Full => {
            for (name, _) in CONTENT {
                if let Some(value) = span.attributes.get_mut(name) {
                    let json = std::mem::take(value).into_json();
                    *value = reducer.content(name, &json).into();
                }
            }
        }
    }
    span
}

/// Returns why a span failed, as a trace of some level holds it.
pub fn reduce_error(span: &SpanRecord, level: Capture, clean: Clean<'_>) -> Option<String> {
    let text = span.error.as_deref()?;
    Some(match level {
        // A sentence may repeat what a tool or a model said.
        Capture::None | Capture::Metadata => {
            span.attributes.text(ERROR_TYPE).unwrap_or(ERROR_OTHER).to_owned()
        }
        Capture::Redacted | Capture::Full => {
            let reducer = Reducer { level, clean };
            reducer.text(text, &reducer.budget()).into_owned()
        }
    })
}

/// Returns a value as a level holds it: `null` where it holds none.
pub(crate) fn reduce_value(value: &Value, level: Capture) -> Value {
    match level {
        Capture::None | Capture::Metadata => Value::Null,
        Capture::Redacted | Capture::Full => {
            let reducer = Reducer { level, clean: &|text| Cow::Borrowed(text) };
            let left = reducer.budget();
            let held = Reduced { reducer: &reducer, value, form: Form::Value, left: &left };
            // A value that can be written can be read; if ever not, nothing of it is held.
            serde_json::to_value(held).unwrap_or_default()
        }
    }
}

/// Returns a text as a level holds it: empty where it holds none.
pub(crate) fn reduce_text(text: &str, level: Capture) -> String {
    match level {
        Capture::None | Capture::Metadata => String::new(),
        Capture::Redacted | Capture::Full => {
            let reducer = Reducer { level, clean: &|text| Cow::Borrowed(text) };
            reducer.text(text, &reducer.budget()).into_owned()
        }
    }
}

struct Reducer<'c> {
    level: Capture,
    clean: Clean<'c>,
}

impl Reducer<'_> {
    /// Returns how many bytes a value may have by itself.
    const fn budget(&self) -> Cell<usize> {
        Cell::new(match self.level {
            Capture::None | Capture::Metadata | Capture::Redacted => REDACTED_TEXT_BYTES_MAX,
            Capture::Full => TEXT_BYTES_MAX,
        })
    }

    /// Makes the text of a content attribute.
    fn content(&self, name: &str, value: &Value) -> String {
        if name == FEEDBACK_TEXT {
            let text = value.as_str().unwrap_or_default();
            return self.text(text, &self.budget()).into_owned();
        }
        // What is a text was reduced before, or is a plain result; one that is JSON is shown as such.
        let read: Option<Value> = value.as_str().and_then(|text| serde_json::from_str(text).ok());
        let value = read.as_ref().unwrap_or(value);
        let form = match name {
            INPUT_MESSAGES | OUTPUT_MESSAGES => Form::Messages,
            SYSTEM_INSTRUCTIONS => Form::Parts,
            _ => Form::Value,
        };
        let left = self.budget();
        let reduced = Reduced { reducer: self, value, form, left: &left };
        serde_json::to_string(&reduced).unwrap_or_default()
    }

    /// Reduces a text to a length, and takes what is left of it.
    fn text<'t>(&self, text: &'t str, left: &Cell<usize>) -> Cow<'t, str> {
        let most = left.get().saturating_add(if text.ends_with(CUT_END) { CUT_BYTES } else { 0 });
        let window = text.floor_char_boundary(most.saturating_add(MARGIN_BYTES));
        let window = text.get(..window).unwrap_or_default();
        let clean = (self.clean)(window);
        let clean = match self.level {
            Capture::None | Capture::Metadata | Capture::Redacted => match clean {
                Cow::Borrowed(text) => blotted(text),
                Cow::Owned(text) => Cow::Owned(blotted(&text).into_owned()),
            },
            Capture::Full => clean,
        };
        if window.len() == text.len() && clean.len() <= most {
            left.set(left.get().saturating_sub(clean.len().max(1)));
            return clean;
        }
        // What stands at the end of the window may be a part of what is taken out as a whole.
        let margin = if window.len() < text.len() { MARGIN_BYTES } else { 0 };
        let most = left.get().min(clean.len().saturating_sub(margin));
        let shown = clean.get(..clean.floor_char_boundary(most)).unwrap_or_default();
        left.set(0);
        Cow::Owned(format!("{shown}[cut, {} bytes in all]", text.len()))
    }
}

/// What a value is that is reduced, as far as it has that form.
#[derive(Clone, Copy)]
enum Form {
    Value,
    Messages,
    Message,
    Parts,
    Part,
}

/// A value that is reduced to a length while it is written; what is written is taken of what is
/// left, and what comes after is counted.
struct Reduced<'a> {
    reducer: &'a Reducer<'a>,
    value: &'a Value,
    form: Form,
    left: &'a Cell<usize>,
}

impl Serialize for Reduced<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.form, self.value) {
            (Form::Messages, Value::Array(items)) => self.each(items, Form::Message, serializer),
            (Form::Parts, Value::Array(items)) => self.each(items, Form::Part, serializer),
            (Form::Message | Form::Part, Value::Object(fields)) => self.named(fields, serializer),
            (_, Value::Null | Value::Bool(_) | Value::Number(_)) => {
                self.left.set(self.left.get().saturating_sub(ATOM_BYTES));
                self.value.serialize(serializer)
            }
            (_, Value::String(text)) => {
                serializer.serialize_str(&self.reducer.text(text, self.left))
            }
            (_, Value::Array(items)) => self.items(items, serializer),
            (_, Value::Object(fields)) => self.fields(fields, serializer),
        }
    }
}

impl Reduced<'_> {
    /// Writes messages or parts, each of which may have as much as one.
    fn each<S: Serializer>(
        &self,
        items: &[Value],
        form: Form,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(items.iter().take(PARTS_MAX).map(|value| Whole {
            reducer: self.reducer,
            value,
            form,
        }))
    }

    /// Writes the fields of a message or a part, each of which may have as much as one.
    fn named<S: Serializer>(
        &self,
        fields: &Map<String, Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (name, value) in fields {
            let form = match (self.form, name.as_str()) {
                (Form::Part, "type") => {
                    map.serialize_entry(name, value)?;
                    continue;
                }
                (Form::Message, "parts") => Form::Parts,
                _ => Form::Value,
            };
            map.serialize_entry(name, &Whole { reducer: self.reducer, value, form })?;
        }
        map.end()
    }

    fn items<S: Serializer>(&self, items: &[Value], serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for (at, value) in items.iter().enumerate() {
            if self.left.get() == 0 {
                list.serialize_element(&more(items.len() - at))?;
                break;
            }
            list.serialize_element(&Reduced { value, form: Form::Value, ..*self })?;
        }
        list.end()
    }

    fn fields<S: Serializer>(
        &self,
        fields: &Map<String, Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        // Names that were reduced may be equal; only the first of these is told.
        let mut changed: Vec<String> = Vec::new();
        for (at, (name, value)) in fields.iter().enumerate() {
            if self.left.get() == 0 {
                map.serialize_entry("[cut]", &more(fields.len() - at))?;
                break;
            }
            let told = self.reducer.text(name, self.left);
            if told != name.as_str() {
                if fields.contains_key(&*told) || changed.iter().any(|name| *name == told) {
                    continue;
                }
                changed.push(told.to_string());
            }
            let is_secret = self.reducer.level == Capture::Redacted && is_secret(name);
            match value {
                Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)
                    if is_secret =>
                {
                    map.serialize_entry(&*told, MARK)?;
                }
                value => {
                    map.serialize_entry(&*told, &Reduced { value, form: Form::Value, ..*self })?;
                }
            }
        }
        map.end()
    }
}

/// A value that is reduced to as much as one may have.
struct Whole<'a> {
    reducer: &'a Reducer<'a>,
    value: &'a Value,
    form: Form,
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { reducer, value, form } = *self;
        Reduced { reducer, value, form, left: &reducer.budget() }.serialize(serializer)
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
    // Most texts in calls are shorter; only an address with a password can be.
    if text.len() < CREDENTIAL_BYTES_MIN && !text.contains('@') {
        return Cow::Borrowed(text);
    }
    let Some(credentials) = &*CREDENTIALS else { return Cow::Borrowed(MARK) };
    credentials.replace_all(text, |found: &Captures<'_>| {
        let whole = found.get(0);
        let part = |name: &str| found.name(name);
        let secret = ["token", "aws", "userinfo", "member", "quoted"].into_iter().find_map(part);
        match (whole, secret.or(part("bare"))) {
            (Some(whole), Some(secret)) => {
                let around = |range| text.get(range).unwrap_or_default();
                let before = around(whole.start()..secret.start());
                // JSON stays JSON, where it stands by itself.
                let is_bare = part("bare").is_some() && !before.contains('\\');
                let quote = if is_bare { "\"" } else { "" };
                format!("{before}{quote}{MARK}{quote}{}", around(secret.end()..whole.end()))
            }
            (_, _) => MARK.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests;
