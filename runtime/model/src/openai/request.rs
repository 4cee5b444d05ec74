//! The request body of chat completions.

use config::team::OpenAi;
use serde::Serialize;
use serde_json::Value;
use wire::chat::ResponseSchema;
use wire::{Message, ToolCall, ToolSpec};

use crate::client::Conversation;

/// Writes the body; the fields of `extra_body` come last and replace those of the same name.
pub(super) fn body(
    options: &OpenAi,
    conversation: &Conversation,
) -> Result<Vec<u8>, serde_json::Error> {
    let head = &conversation.head;
    let body = Body {
        model: &options.model,
        messages: conversation.messages.iter().map(|message| ChatMessage::of(message)).collect(),
        tools: head.tools.iter().map(Tool::of).collect(),
        response_format: head
            .response_schema
            .as_ref()
            .map(|schema| ResponseFormat::of(schema, options.strict)),
        max_tokens: conversation.max_tokens,
        temperature: options.temperature,
        stop: &head.stop,
        stream: options.stream,
        stream_options: options.stream.then_some(StreamOptions { include_usage: true }),
    };
    if options.extra_body.is_empty() {
        return serde_json::to_vec(&body);
    }
    let mut body = serde_json::to_value(&body)?;
    if let Value::Object(fields) = &mut body {
        fields.extend(options.extra_body.clone());
    }
    serde_json::to_vec(&body)
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum ChatMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        /// Null beside calls without a text, which is how the protocol writes it.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        name: &'a str,
        content: &'a str,
    },
}

impl<'a> ChatMessage<'a> {
    fn of(message: &'a Message) -> Self {
        match message {
            Message::System { content } => Self::System { content },
            Message::User { content } => Self::User { content },
            Message::Assistant { content, calls } => Self::Assistant {
                content: (calls.is_empty() || !content.is_empty()).then_some(content),
                tool_calls: calls.iter().map(Call::of).collect(),
            },
            Message::Tool { call_id, name, content } => {
                Self::Tool { tool_call_id: call_id, name, content }
            }
        }
    }
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall) -> Self {
        Self {
            id: &call.id,
            kind: "function",
            function: CalledFunction { name: &call.name, arguments: &call.arguments },
        }
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: OfferedFunction<'a>,
}

#[derive(Serialize)]
struct OfferedFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        Self {
            kind: "function",
            function: OfferedFunction {
                name: tool.name.as_str(),
                description: &tool.description,
                parameters: &tool.parameters,
            },
        }
    }
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'a str,
    schema: &'a Value,
    strict: bool,
}

impl<'a> ResponseFormat<'a> {
    fn of(schema: &'a ResponseSchema, strict: bool) -> Self {
        Self {
            kind: "json_schema",
            json_schema: NamedSchema { name: schema.name.as_str(), schema: &schema.schema, strict },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use serde_json::json;
    use wire::chat::Head;
    use wire::{ModelRole, Name};

    fn options(change: impl FnOnce(&mut OpenAi)) -> OpenAi {
        let mut options = OpenAi {
            base_url: "http://localhost/v1".to_owned(),
            model: "m".to_owned(),
            api_key: None,
            stream: false,
            strict: false,
            temperature: None,
            extra_body: serde_json::Map::new(),
        };
        change(&mut options);
        options
    }

    fn conversation(head: Head, messages: Vec<Message>, max_tokens: Option<u64>) -> Conversation {
        Conversation {
            head: Arc::new(head),
            messages: messages.into_iter().map(Arc::new).collect(),
            max_tokens,
            role: ModelRole::Actor,
        }
    }

    fn user(text: &str) -> Message {
        Message::User { content: text.to_owned() }
    }

    #[test]
    fn the_history_is_sent_in_order_with_arguments_unchanged() {
        let call = |id: &str, arguments: &str| ToolCall {
            id: id.to_owned(),
            name: "int_mult".to_owned(),
            arguments: arguments.to_owned(),
        };
        let said = |content: &str, calls| Message::Assistant { content: content.to_owned(), calls };
        let tool = |call_id: &str, content: &str| Message::Tool {
            call_id: call_id.to_owned(),
            name: "int_mult".to_owned(),
            content: content.to_owned(),
        };
        let messages = vec![
            Message::System { content: "Be brief.".to_owned() },
            user("12*34?"),
            said("", vec![call("a", r#"{"a": 12,"b":34 }"#), call("b", "{\"a\":")]),
            tool("a", "408"),
            tool("b", "no JSON"),
            said("408", vec![]),
            said("", vec![]),
            said("again", vec![call("c", "")]),
        ];
        let call = |id: &str, arguments: &str| {
            json!({"id": id, "type": "function",
                "function": {"name": "int_mult", "arguments": arguments}})
        };
        let bytes = body(&options(|_| ()), &conversation(Head::default(), messages, None)).unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&bytes).unwrap(),
            json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "12*34?"},
                    {"role": "assistant", "content": null,
                        "tool_calls": [call("a", r#"{"a": 12,"b":34 }"#), call("b", "{\"a\":")]},
                    {"role": "tool", "tool_call_id": "a", "name": "int_mult", "content": "408"},
                    {"role": "tool", "tool_call_id": "b", "name": "int_mult", "content": "no JSON"},
                    {"role": "assistant", "content": "408"},
                    {"role": "assistant", "content": ""},
                    {"role": "assistant", "content": "again", "tool_calls": [call("c", "")]},
                ],
                "stream": false,
            })
        );
    }

    #[test]
    fn options_become_fields() {
        let schema = json!({"type": "object", "properties": {"b": {}, "a": {}}});
        let head = Head {
            tools: vec![ToolSpec {
                name: Name::new("now").unwrap(),
                description: "Tells the time.".to_owned(),
                parameters: schema.clone(),
            }],
            response_schema: Some(ResponseSchema {
                name: Name::new("turn").unwrap(),
                schema: schema.clone(),
            }),
            stop: vec!["Observation:".to_owned()],
        };
        let plain = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}],
            "stream": false});
        let with = |fields: Value| {
            let mut body = plain.clone();
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            body
        };
        let format = |strict: bool| {
            json!({"type": "json_schema",
                "json_schema": {"name": "turn", "schema": schema, "strict": strict}})
        };
        let tools = json!([{"type": "function", "function": {
            "name": "now", "description": "Tells the time.", "parameters": schema}}]);
        let stop = json!(["Observation:"]);
        let cases = [
            (options(|_| ()), Head::default(), None, plain.clone()),
            (
                options(|o| o.stream = true),
                Head::default(),
                Some(9),
                with(json!({
                "max_tokens": 9, "stream": true, "stream_options": {"include_usage": true}})),
            ),
            (
                options(|o| o.temperature = Some(0.0)),
                head.clone(),
                None,
                with(json!({
                "tools": tools, "response_format": format(false), "temperature": 0.0,
                "stop": stop})),
            ),
            (
                options(|o| o.strict = true),
                head,
                None,
                with(json!({
                "tools": tools, "response_format": format(true), "stop": stop})),
            ),
            (
                options(|o| {
                    o.temperature = Some(0.5);
                    o.extra_body = json!({"temperature": 1, "max_tokens": null, "seed": {"x": []}})
                        .as_object()
                        .unwrap()
                        .clone();
                }),
                Head::default(),
                Some(9),
                with(json!({"temperature": 1, "max_tokens": null, "seed": {"x": []}})),
            ),
        ];
        for (options, head, max_tokens, expected) in cases {
            let conversation = conversation(head, vec![user("hi")], max_tokens);
            let bytes = body(&options, &conversation).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
        }
    }

    #[test]
    fn schemas_keep_the_order_of_their_keys() {
        let schema = serde_json::from_str(r#"{"properties":{"tool":{},"arguments":{}}}"#).unwrap();
        let head = Head {
            response_schema: Some(ResponseSchema { name: Name::new("t").unwrap(), schema }),
            ..Head::default()
        };
        let extra = json!({"seed": 1}).as_object().unwrap().clone();
        for options in [options(|_| ()), options(|o| o.extra_body = extra)] {
            let bytes = body(&options, &conversation(head.clone(), vec![], None)).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains(r#"{"properties":{"tool":{},"arguments":{}}}"#), "{text}");
        }
    }
}
