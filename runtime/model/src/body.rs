//! Puts a request body together.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};
use wire::chat::Head;
use wire::{Digest, Message, ToolCall, ToolSpec};

use crate::fields::Json;
use crate::heads::WrittenForm;
use crate::lower::Parameters;
use crate::part::{WrittenPart, push_list};
use crate::reasoning::carried;

/// The fields that most requests have at most.
const FIELDS: usize = 8;

/// What a model says to the result of a tool where a user speaks before it does.
const UNDERSTOOD: &str = "Understood.";

/// What a short field takes with its name, in bytes, about.
const FIELD_BYTES: usize = 32;

/// The body of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    /// The fields, in the order in which they are sent.
    fields: Vec<(Cow<'static, str>, Field)>,
    /// Whether the schema of the reply was wrapped into an object, out of which the reply is taken.
    pub(crate) wrapped: bool,
}

/// What stands in a field.
#[derive(Clone, Debug)]
enum Field {
    Value(Value),
    /// A list of which everything is written, each part an element or several.
    Written(Vec<WrittenPart>),
    /// An object.
    Object(Body),
    /// Something that is written as a whole.
    Whole(WrittenPart),
}

impl Body {
    fn put(&mut self, name: impl Into<Cow<'static, str>>, field: Field) {
        let name = name.into();
        if let Some((_, before)) = self.fields.iter_mut().find(|(other, _)| *other == name) {
            *before = field;
            return;
        }
        if self.fields.is_empty() {
            self.fields.reserve(FIELDS);
        }
        self.fields.push((name, field));
    }

    /// Writes the body.
    pub(crate) fn write(&self) -> serde_json::Result<Vec<u8>> {
        // What is written already is most of it.
        let written = self.fields.iter().map(|(_, field)| match field {
            Field::Written(list) => list.iter().map(|part| part.len() + 1).sum(),
            Field::Whole(whole) => whole.len(),
            Field::Value(_) | Field::Object(_) => FIELD_BYTES,
        });
        let mut bytes =
            Vec::with_capacity(written.sum::<usize>() + FIELD_BYTES * self.fields.len());
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the body after other bytes. It is done by hand, since most of it is only copied.
    fn write_to(&self, bytes: &mut Vec<u8>) -> serde_json::Result<()> {
        bytes.push(b'{');
        for (at, (name, field)) in self.fields.iter().enumerate() {
            if at > 0 {
                bytes.push(b',');
            }
            serde_json::to_writer(&mut *bytes, name)?;
            bytes.push(b':');
            match field {
                Field::Value(value) => serde_json::to_writer(&mut *bytes, value)?,
                Field::Written(list) => {
                    bytes.push(b'[');
                    push_list(bytes, list);
                    bytes.push(b']');
                }
                Field::Object(body) => body.write_to(bytes)?,
                Field::Whole(whole) => bytes.extend_from_slice(whole),
            }
        }
        bytes.push(b'}');
        Ok(())
    }

    /// Sets a field.
    pub(crate) fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        self.put(name, Field::Value(value.into()));
    }

    /// Sets a field to an object unless it is empty.
    pub(crate) fn set_body(&mut self, name: &'static str, body: Self) {
        if !body.fields.is_empty() {
            self.put(name, Field::Object(body));
        }
    }

    /// Sets a field to a list that is written.
    pub(crate) fn set_written(&mut self, name: &'static str, list: Vec<WrittenPart>) {
        self.put(name, Field::Written(list));
    }

    /// Sets the field of tools, unless there are none.
    pub(crate) fn set_tools(&mut self, tools: Option<WrittenPart>) {
        if let Some(tools) = tools {
            self.put("tools", Field::Whole(tools));
        }
    }

    /// Sets the field of the form in which the reply is asked for, if it is asked for in one.
    pub(crate) fn set_form(&mut self, form: Option<WrittenForm>) {
        if let Some(WrittenForm { field, json, wrapped }) = form {
            self.wrapped = wrapped;
            self.put(field, Field::Whole(json));
        }
    }

    /// Sets a field, or leaves it to the server.
    pub(crate) fn set_some(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Sets a field to a list unless the list is empty.
    pub(crate) fn set_list(&mut self, name: &'static str, list: Vec<impl Into<Value>>) {
        if !list.is_empty() {
            self.set(name, list.into_iter().map(Into::into).collect::<Vec<Value>>());
        }
    }

    /// Leaves a field out.
    pub(crate) fn unset(&mut self, name: &str) {
        self.fields.retain(|(other, _)| other != name);
    }

    /// Adds the fields that the team file asks for; they replace those of the same name.
    pub(crate) fn extend(&mut self, extra: &Map<String, Value>) {
        for (name, value) in extra {
            self.set(name.clone(), value.clone());
        }
    }
}

/// Returns the texts at which a reply ends: the dialect's, then the team file's, each once.
pub(crate) fn stops(head: &Head, own: &[String]) -> Vec<String> {
    let mut stops: Vec<String> = Vec::new();
    for stop in head.stop.iter().chain(own) {
        if !stops.contains(stop) {
            stops.push(stop.clone());
        }
    }
    stops
}

/// Returns the smaller of two limits of a reply's tokens.
pub(crate) fn tokens_max(run: Option<u64>, own: Option<u64>) -> Option<u64> {
    run.into_iter().chain(own).min()
}

/// A tool in the form that most protocols share.
#[derive(Serialize)]
pub(crate) struct FunctionTool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

/// Returns a tool in the form that most protocols share.
pub(crate) fn function_tool(tool: &ToolSpec) -> FunctionTool<'_> {
    function(tool, Cow::Borrowed(&tool.parameters))
}

/// Returns a tool in that form with its parameters as a provider takes them.
pub(crate) fn lowered_function_tool(tool: &ToolSpec, parameters: Parameters) -> FunctionTool<'_> {
    function(tool, Cow::Owned(parameters.schema))
}

fn function<'a>(tool: &'a ToolSpec, parameters: Cow<'a, Value>) -> FunctionTool<'a> {
    let (name, description) = (tool.name.as_str(), &tool.description);
    FunctionTool { r#type: "function", function: Function { name, description, parameters } }
}

/// Returns the arguments of a call as the object that some protocols want.
///
/// What a model wrote and is no object stands under the name `arguments`, so that it sees its own
/// words beside the complaint about them.
pub(crate) fn arguments_object(call: &ToolCall) -> Value {
    match serde_json::from_str(&call.arguments) {
        Ok(object @ Value::Object(_)) => object,
        _ if call.arguments.trim().is_empty() => json!({}),
        _ => json!({"arguments": call.arguments}),
    }
}

/// Returns the arguments of a call as the text of an object: as the model wrote them if they are
/// one, since servers that read the text refuse the whole request over one that is not.
pub(crate) fn arguments_text(call: &ToolCall) -> Cow<'_, str> {
    match serde_json::from_str(&call.arguments) {
        Ok(Json::Object(_)) => Cow::Borrowed(&call.arguments),
        _ => Cow::Owned(arguments_object(call).to_string()),
    }
}

/// Makes one message of neighbours of one role, an empty line between their texts. Results of
/// tools stay apart, since each answers its own call, and so does what goes back with its reasoning.
///
/// Between the result of a tool and what a user says next it puts a short reply of the model:
/// Mistral's servers and templates in which roles must alternate refuse a conversation without one.
pub(crate) fn merge_adjacent<'m>(
    messages: impl IntoIterator<Item = &'m Message>,
    to: Option<&Digest>,
) -> Vec<Cow<'m, Message>> {
    let mut merged: Vec<Cow<Message>> = Vec::new();
    for message in messages {
        let is_apart = |message: &Message| carried(message, to).is_some();
        let joined = merged
            .last_mut()
            .is_some_and(|last| !is_apart(last) && !is_apart(message) && join(last, message));
        if !joined {
            let last = merged.last().map(|last| &**last);
            if let (Some(Message::Tool { .. }), Message::User { .. }) = (last, message) {
                let content = UNDERSTOOD.to_owned();
                let reply = Message::Assistant { content, calls: Vec::new(), reasoning: None };
                merged.push(Cow::Owned(reply));
            }
            merged.push(Cow::Borrowed(message));
        }
    }
    merged
}

/// Adds a message to the one before, if both are of one role.
fn join(last: &mut Cow<Message>, message: &Message) -> bool {
    let is_same = matches!(
        (&**last, message),
        (Message::System { .. }, Message::System { .. })
            | (Message::User { .. }, Message::User { .. })
            | (Message::Assistant { .. }, Message::Assistant { .. })
    );
    if !is_same {
        return false;
    }
    match (last.to_mut(), message) {
        (
            Message::Assistant { content, calls, .. },
            Message::Assistant { content: more, calls: new, .. },
        ) => {
            append(content, more);
            calls.extend(new.iter().cloned());
        }
        (Message::System { content } | Message::User { content }, more) => {
            append(content, more.content());
        }
        _ => {}
    }
    true
}

/// Adds a text to another, an empty line between unless one of them is empty.
pub(crate) fn append(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(content: &str, calls: &[&str]) -> Message {
        let call = |id: &&str| ToolCall {
            id: (*id).to_owned(),
            name: "t".to_owned(),
            arguments: "{}".to_owned(),
        };
        crate::fixture::said(content, calls.iter().map(call).collect())
    }

    #[test]
    fn neighbours_of_one_role_become_one() {
        let user = |content: &str| Message::User { content: content.to_owned() };
        let system = |content: &str| Message::System { content: content.to_owned() };
        let tool = |content: &str| Message::Tool {
            call_id: "a".to_owned(),
            name: "t".to_owned(),
            content: content.to_owned(),
        };
        let cases = [
            (vec![], vec![]),
            (vec![system("a"), system("b"), user("c")], vec![system("a\n\nb"), user("c")]),
            (vec![user("a"), user(""), user("b")], vec![user("a\n\nb")]),
            (
                vec![user("a"), said("b", &[]), user("c")],
                vec![user("a"), said("b", &[]), user("c")],
            ),
            (vec![said("", &["1"]), said("x", &["2"])], vec![said("x", &["1", "2"])]),
            (vec![tool("a"), tool("b")], vec![tool("a"), tool("b")]),
            (vec![tool("a"), said("b", &[])], vec![tool("a"), said("b", &[])]),
            (
                vec![said("", &["1"]), tool("a"), tool("b"), user("c"), user("d")],
                vec![
                    said("", &["1"]),
                    tool("a"),
                    tool("b"),
                    said("Understood.", &[]),
                    user("c\n\nd"),
                ],
            ),
        ];
        for (messages, expected) in cases {
            let merged: Vec<_> = merge_adjacent(&messages, Some(&crate::fixture::asked()))
                .into_iter()
                .map(Cow::into_owned)
                .collect();
            assert_eq!(merged, expected);
        }
    }

    #[test]
    fn a_body_is_written_as_an_object_of_its_fields_in_their_order() {
        let part = |json: &str| WrittenPart::from(json.as_bytes());
        let mut inner = Body::default();
        inner.set_some("a", Some(1));
        inner.set_some("b", None::<u64>);
        let mut body = Body::default();
        assert_eq!(body.write().unwrap(), b"{}");
        body.set("one", 1.0);
        body.set_body("none", Body::default());
        body.set_body("inner", inner);
        body.set_written("empty", vec![]);
        body.set_written("some", vec![part(r#"{"b":1}"#), part("2")]);
        body.set_list("list", vec!["\n"]);
        body.extend(json!({"\"": "ä", "some": null, "one": {"x": []}}).as_object().unwrap());
        let expected =
            r#"{"one":{"x":[]},"inner":{"a":1},"empty":[],"some":null,"list":["\n"],"\"":"ä"}"#;
        assert_eq!(String::from_utf8(body.write().unwrap()).unwrap(), expected);
        body.set_written("some", vec![part(r#"{"b":1}"#), part("2")]);
        let expected = expected.replace("null", r#"[{"b":1},2]"#);
        assert_eq!(String::from_utf8(body.write().unwrap()).unwrap(), expected);
    }

    #[test]
    fn arguments_become_an_object_and_nothing_is_lost() {
        for (arguments, object, is_kept) in [
            (r#"{"b":1,"a":[]}"#, json!({"b": 1, "a": []}), true),
            (" { \"a\" :1 } ", json!({"a": 1}), true),
            ("", json!({}), false),
            (" \n", json!({}), false),
            ("{\"a\":", json!({"arguments": "{\"a\":"}), false),
            ("{'a': 1}", json!({"arguments": "{'a': 1}"}), false),
            ("{\"a\":1e999}", json!({"arguments": "{\"a\":1e999}"}), false),
            ("x", json!({"arguments": "x"}), false),
            ("[1]", json!({"arguments": "[1]"}), false),
        ] {
            let call = ToolCall {
                id: String::new(),
                name: String::new(),
                arguments: arguments.to_owned(),
            };
            assert_eq!(arguments_object(&call), object, "{arguments}");
            let text = arguments_text(&call);
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), object, "{arguments}");
            assert_eq!(text == arguments, is_kept, "{arguments}");
        }
    }

    #[test]
    fn limits_and_stops_are_put_together() {
        assert_eq!(tokens_max(None, None), None);
        assert_eq!(tokens_max(Some(9), Some(5)), Some(5));
        assert_eq!(tokens_max(Some(4), Some(5)), Some(4));
        let head = Head { stop: vec!["a".to_owned(), "b".to_owned()], ..Head::default() };
        assert_eq!(stops(&head, &["b".to_owned(), "c".to_owned()]), ["a", "b", "c"]);
    }
}
