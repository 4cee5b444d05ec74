//! What a model was asked with at the head of conversations.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;
use wire::ToolSpec;
use wire::chat::{Head, ResponseSchema};

use crate::part::{Form, Part, WrittenPart, to_written};

/// The most heads that are kept of a model, of which the one that came first goes; a team has one or
/// two for each of its agents.
const HEADS_MAX: usize = 8;

/// What a tool or the form of a reply takes, in bytes, about.
const PIECE_BYTES: usize = 1024;

/// The form in which a reply is asked for.
#[derive(Debug)]
pub(crate) struct ReplyForm {
    /// The field that holds it.
    pub(crate) field: &'static str,
    /// What stands there.
    pub(crate) value: Value,
    /// Whether its schema was wrapped into an object.
    pub(crate) wrapped: bool,
}

/// Such a form as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct WrittenForm {
    pub(crate) field: &'static str,
    pub(crate) json: WrittenPart,
    pub(crate) wrapped: bool,
}

/// What is sent of a head.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenHead {
    /// The list of tools, unless it is empty.
    pub(crate) tools: Option<WrittenPart>,
    /// The form of the replies, if there is one.
    pub(crate) form: Option<WrittenForm>,
}

/// The heads that came last to a model, with what is sent of them, which is written once for all
/// turns of one head.
///
/// Whoever gives heads that are equal as one has them also while no session goes on, so that they
/// are written already when the next one begins.
#[derive(Debug, Default)]
pub(crate) struct Heads(Mutex<VecDeque<Known>>);

#[derive(Debug)]
struct Known {
    head: Arc<Part<Head>>,
    written: WrittenHead,
}

impl Heads {
    /// Begins with none.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// Returns what is sent of a head in a protocol, in which tools and forms must depend on
    /// nothing else that changes.
    pub(crate) fn written<'h, T: Serialize>(
        &self,
        head: &'h Arc<Part<Head>>,
        protocol: &'static str,
        tool: impl Fn(&'h ToolSpec) -> T,
        form: impl FnOnce(&ResponseSchema) -> Result<ReplyForm, String>,
    ) -> Result<WrittenHead, String> {
        if let Some(known) = self.lock().iter().find(|known| Arc::ptr_eq(&known.head, head)) {
            return Ok(known.written.clone());
        }
        let tools = if head.tools.is_empty() { None } else { Some(tools(head, protocol, tool)?) };
        let form = match &head.response_schema {
            Some(schema) => Some(written(form(schema)?)?),
            None => None,
        };
        let written = WrittenHead { tools, form };
        self.keep(Known { head: Arc::clone(head), written: written.clone() });
        Ok(written)
    }

    fn keep(&self, known: Known) {
        let mut heads = self.lock();
        // Turns that begin at once may have written the same one.
        if heads.iter().any(|other| Arc::ptr_eq(&other.head, &known.head)) {
            return;
        }
        let forgotten = if heads.len() >= HEADS_MAX { heads.pop_front() } else { None };
        heads.push_back(known);
        drop(heads);
        // A head may be large, and nobody need wait for its end.
        drop(forgotten);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the tools of a head, once for all models that speak one protocol.
fn tools<'h, T: Serialize>(
    head: &'h Part<Head>,
    protocol: &'static str,
    tool: impl Fn(&'h ToolSpec) -> T,
) -> Result<WrittenPart, String> {
    let tools = head.written(Form { protocol, reasoning: 0 }, |head| {
        let tools: Vec<T> = head.tools.iter().map(&tool).collect();
        to_written(&tools, PIECE_BYTES * tools.len())
    });
    tools.map_err(|error| error.to_string())
}

fn written(ReplyForm { field, value, wrapped }: ReplyForm) -> Result<WrittenForm, String> {
    let json = to_written(&value, PIECE_BYTES).map_err(|error| error.to_string())?;
    Ok(WrittenForm { field, json, wrapped })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    fn head(tool: Option<u64>, schema: Option<u64>) -> Arc<Part<Head>> {
        Arc::new(crate::fixture::head(tool.map(Value::from), schema.map(Value::from), &[]).into())
    }

    /// Returns the tools and the form that are sent.
    fn sent(
        heads: &Heads,
        head: &Arc<Part<Head>>,
        protocol: &'static str,
        writes: &Cell<usize>,
    ) -> (Option<String>, Option<(&'static str, String, bool)>) {
        let text = |json: WrittenPart| String::from_utf8(json.to_vec()).unwrap();
        let tool = |tool: &ToolSpec| {
            writes.set(writes.get() + 1);
            json!([protocol, tool.parameters])
        };
        let form = |schema: &ResponseSchema| {
            writes.set(writes.get() + 1);
            let value = json!([protocol, schema.schema]);
            Ok(ReplyForm { field: protocol, value, wrapped: schema.schema == 0 })
        };
        let WrittenHead { tools, form } = heads.written(head, protocol, tool, form).unwrap();
        (tools.map(text), form.map(|form| (form.field, text(form.json), form.wrapped)))
    }

    #[test]
    fn what_is_sent_of_a_head_is_written_once_until_others_came() {
        let heads = Heads::new();
        let writes = Cell::new(0);
        let tools = |number: u64| Some(format!("[[\"x\",{number}]]"));
        let form = |number: u64| Some(("x", format!("[\"x\",{number}]"), number == 0));
        let (bare, tool, both) = (head(None, None), head(Some(1), None), head(Some(2), Some(3)));
        let others: Vec<_> = (0..6).map(|number| head(None, Some(number))).collect();
        let steps = [
            (&bare, (None, None), 0),
            (&tool, (tools(1), None), 1),
            (&tool, (tools(1), None), 1),
            (&both, (tools(2), form(3)), 3),
            (&others[0], (None, form(0)), 4),
            (&others[1], (None, form(1)), 5),
            (&others[2], (None, form(2)), 6),
            (&others[3], (None, form(3)), 7),
            (&both, (tools(2), form(3)), 7),
            (&others[4], (None, form(4)), 8),
            (&others[0], (None, form(0)), 8),
            // The bare one makes room, and then the one with a tool, which has kept what it was sent as.
            (&others[5], (None, form(5)), 9),
            (&others[5], (None, form(5)), 9),
            (&bare, (None, None), 9),
            (&tool, (tools(1), None), 9),
            (&both, (tools(2), form(3)), 10),
            // One that is equal is not taken for it.
            (&head(Some(2), Some(3)), (tools(2), form(3)), 12),
        ];
        for (step, (head, expected, written)) in steps.into_iter().enumerate() {
            assert_eq!(sent(&heads, head, "x", &writes), expected, "{step}");
            assert_eq!(writes.get(), written, "{step}");
            assert!(heads.lock().len() <= HEADS_MAX, "{step}");
        }
    }

    #[test]
    fn models_of_other_protocols_have_their_own() {
        let (one, other, writes) = (Heads::new(), Heads::new(), Cell::new(0));
        let head = head(Some(1), Some(2));
        for _ in 0..2 {
            for (heads, protocol) in [(&one, "x"), (&other, "y")] {
                let tools = Some(format!("[[\"{protocol}\",1]]"));
                let form = Some((protocol, format!("[\"{protocol}\",2]"), false));
                assert_eq!(sent(heads, &head, protocol, &writes), (tools, form));
            }
            assert_eq!(writes.get(), 4);
        }
    }

    #[test]
    fn what_cannot_be_written_is_tried_again() {
        let heads = Heads::new();
        for expected in ["a", "b"] {
            let failed = heads.written(&head(None, Some(1)), "x", |_| 0, |_| Err(expected.into()));
            assert_eq!(failed.unwrap_err(), expected);
        }
    }

    #[test]
    fn a_head_is_kept_while_no_turn_has_it() {
        let (heads, writes) = (Heads::new(), Cell::new(0));
        let first = head(None, None);
        sent(&heads, &first, "x", &writes);
        let seen = Arc::downgrade(&first);
        drop(first);
        for _ in 0..HEADS_MAX {
            assert!(seen.upgrade().is_some());
            sent(&heads, &head(None, None), "x", &writes);
        }
        assert!(seen.upgrade().is_none());
    }
}
