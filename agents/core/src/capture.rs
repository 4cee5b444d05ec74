//! Makes of a span what a trace may hold of it.
//!
//! Machines put what was said into spans as values, as far as the plan permits it at most.
//! [`reduce`] makes texts of JSON of them, as far as the trace wants it that the span goes to.

mod credentials;
mod quoted;

use std::borrow::Cow;
use std::cell::Cell;

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Map, Value};
use wire::semconv::{
    CONTENT, ERROR_OTHER, ERROR_TYPE, FEEDBACK_TEXT, INPUT_MESSAGES, OUTPUT_MESSAGES,
    SYSTEM_INSTRUCTIONS,
};
use wire::{Capture, SpanRecord};

use crate::capture::credentials::{MARK, blotted, is_secret};

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

/// How a text ends that was cut; between them is its length.
const CUT_BEGIN: &str = "[cut, ";
const CUT_END: &str = " bytes in all]";

/// The most bytes of what is said at the end of a text that was cut.
const CUT_BYTES: usize = 48;

/// What a number or a truth value counts for.
const ATOM_BYTES: usize = 8;

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
pub fn reduce_text(text: &str, level: Capture) -> String {
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
                Cow::Borrowed(text) => hidden(text),
                Cow::Owned(text) => Cow::Owned(hidden(&text).into_owned()),
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
        Cow::Owned(format!("{shown}{CUT_BEGIN}{}{CUT_END}", text.len()))
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

/// Blots out what looks like a credential, and leaves what says that a text was cut.
fn hidden(text: &str) -> Cow<'_, str> {
    let cut = text
        .strip_suffix(CUT_END)
        .and_then(|begin| begin.rsplit_once(CUT_BEGIN))
        .filter(|(_, length)| length.parse::<usize>().is_ok())
        .map_or(text.len(), |(said, _)| said.len());
    let (said, cut) = text.split_at(cut);
    match blotted(said) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(said) => Cow::Owned(said + cut),
    }
}

fn more(count: usize) -> String {
    format!("[{count} more]")
}

#[cfg(test)]
mod tests;
