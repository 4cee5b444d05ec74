//! Parts of a conversation that are sent again with every turn, and written only once.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::Serialize;

/// JSON as it is sent, which is copied into the requests that have it.
pub(crate) type WrittenPart = Arc<[u8]>;

/// Messages or the head of a conversation, with the JSON in which they were first sent.
///
/// A conversation that grows is written by what is new to it, since whoever holds it between turns
/// holds its parts.
#[derive(Debug)]
pub struct Part<T> {
    part: Arc<T>,
    sent: OnceLock<Sent>,
}

/// What decides how a part is written besides the part itself; a model that stands in for another
/// may speak another protocol, and is not sent the reasoning of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Whose protocol it is.
    pub(crate) protocol: &'static str,
    /// Whether the reasoning of the part goes with it: a bit for each message, the first the lowest.
    pub(crate) reasoning: u16,
}

/// What was sent, and in what form.
#[derive(Debug)]
struct Sent {
    form: Form,
    json: WrittenPart,
}

impl<T> From<Arc<T>> for Part<T> {
    fn from(part: Arc<T>) -> Self {
        Self { part, sent: OnceLock::new() }
    }
}

impl<T> From<T> for Part<T> {
    fn from(part: T) -> Self {
        Self::from(Arc::new(part))
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}

impl<T> Part<T> {
    /// Returns what is sent, to be shared.
    pub(crate) fn whole(&self) -> Arc<T> {
        self.part.clone()
    }

    /// Returns the JSON in which it was first sent, and the form of it, if it was sent.
    pub(crate) fn sent(&self) -> Option<(Form, &WrittenPart)> {
        self.sent.get().map(|sent| (sent.form, &sent.json))
    }

    /// Notes how it was sent, unless that is known.
    pub(crate) fn was_sent(&self, form: Form, json: WrittenPart) {
        self.sent.get_or_init(|| Sent { form, json });
    }

    /// Returns the part as it is sent in a form, which must depend on nothing else.
    pub(crate) fn written<'p>(
        &'p self,
        form: Form,
        write: impl Fn(&'p T) -> serde_json::Result<WrittenPart>,
    ) -> serde_json::Result<WrittenPart> {
        if let Some(sent) = self.sent.get() {
            return if sent.form == form { Ok(sent.json.clone()) } else { write(&self.part) };
        }
        let json = write(&self.part)?;
        Ok(self.sent.get_or_init(|| Sent { form, json: json.clone() }).json.clone())
    }
}

/// Adds what is written to other bytes, as a list without its brackets.
pub(crate) fn push_list(bytes: &mut Vec<u8>, list: &[WrittenPart]) {
    for (at, part) in list.iter().enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(part);
    }
}

/// Writes a value, which takes so many bytes, about.
pub(crate) fn to_written(value: &impl Serialize, bytes: usize) -> serde_json::Result<WrittenPart> {
    let mut json = Vec::with_capacity(bytes);
    serde_json::to_writer(&mut json, value)?;
    Ok(json.into())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_part_is_written_once_for_the_form_that_came_first() {
        let part = Part::from("a".to_owned());
        let writes = Cell::new(0);
        for (protocol, reasoning, expected, written) in [
            ("x", 1, "[\"x\",1]", 1),
            ("x", 1, "[\"x\",1]", 1),
            ("y", 1, "[\"y\",1]", 2),
            ("x", 0, "[\"x\",0]", 3),
            ("x", 1, "[\"x\",1]", 3),
        ] {
            let write = |_: &String| {
                writes.set(writes.get() + 1);
                to_written(&(protocol, reasoning), 0)
            };
            let form = Form { protocol, reasoning };
            assert_eq!(*part.written(form, write).unwrap(), *expected.as_bytes());
            assert_eq!(writes.get(), written, "{form:?}");
        }
    }
}
