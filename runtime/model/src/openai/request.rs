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
