//! What the tests of all providers share.

use std::sync::Arc;

use config::team::Server;
use serde_json::{Map, Value};
use wire::chat::{Head, ResponseSchema};
use wire::{Digest, FinishReason, Message, ModelRole, Name, ToolCall, ToolSpec};

use crate::answer::Answer;
use crate::client::Conversation;
use crate::error::Error;
use crate::provider::Protocol;
use crate::stream::StreamReader;

pub(crate) fn server(stream: bool) -> Server {
    Server {
        base_url: "http://localhost".to_owned(),
        model: "m".to_owned(),
        api_key: None,
        concurrency: None,
        stream,
        temperature: None,
        stop: Vec::new(),
        extra_body: Map::new(),
    }
}

pub(crate) fn conversation(
    head: Head,
    messages: Vec<Message>,
    max_tokens: Option<u64>,
) -> Conversation {
    Conversation {
        head: Arc::new(head.into()),
        messages: messages.into_iter().map(Arc::new).collect(),
        passing: 0,
        max_tokens,
        role: ModelRole::Actor,
        session: None,
    }
}

/// A head with a tool `now`, a reply schema `turn` and a stop text, as far as they are wanted.
pub(crate) fn head(tool: Option<Value>, schema: Option<Value>, stop: &[&str]) -> Head {
    let spec = |parameters| ToolSpec {
        name: Name::new("now").unwrap(),
        description: "Tells the time.".to_owned(),
        parameters,
    };
    let response = |schema| ResponseSchema { name: Name::new("turn").unwrap(), schema };
    Head {
        tools: tool.into_iter().map(spec).collect(),
        response_schema: schema.map(response),
        stop: stop.iter().map(|stop| (*stop).to_owned()).collect(),
    }
}

pub(crate) fn system(text: &str) -> Message {
    Message::System { content: text.to_owned() }
}

pub(crate) fn user(text: &str) -> Message {
    Message::User { content: text.to_owned() }
}

pub(crate) fn said(text: &str, calls: Vec<ToolCall>) -> Message {
    Message::Assistant { content: text.to_owned(), calls, reasoning: None }
}

/// Names the model that the tests ask, in what it is sent back.
pub(crate) fn asked() -> Digest {
    Digest::of(b"m")
}

pub(crate) fn result(call_id: &str, text: &str) -> Message {
    Message::Tool { call_id: call_id.to_owned(), name: "now".to_owned(), content: text.to_owned() }
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

pub(crate) fn answer(content: &str, calls: Vec<ToolCall>, finish: FinishReason) -> Answer {
    Answer { content: content.to_owned(), calls, finish: Some(finish), ..Answer::default() }
}

/// Returns what a protocol sends, or why it cannot.
pub(crate) fn sent(
    protocol: &dyn Protocol,
    conversation: &Conversation,
) -> Result<(Value, bool), String> {
    protocol
        .body(conversation, Some(&asked()))
        .map(|body| (serde_json::from_slice(&body.write().unwrap()).unwrap(), body.wrapped))
}

/// Feeds a stream in two pieces; returns the answer and the pieces of text joined.
pub(crate) fn streamed(
    protocol: &dyn Protocol,
    stream: &[u8],
    cut: usize,
) -> (Result<Answer, Error>, String) {
    let mut shown = String::new();
    let mut on_delta = |piece: &str| {
        assert!(!piece.is_empty());
        shown.push_str(piece);
    };
    let mut reader = StreamReader::new(protocol, protocol.framing());
    let (first, second) = stream.split_at(cut);
    let result = reader
        .push(first, &mut on_delta)
        .and_then(|()| reader.push(second, &mut on_delta))
        .and_then(|()| reader.end(&mut on_delta));
    (result, shown)
}

/// Asserts what a stream gives, wherever it is split and however its lines end.
pub(crate) fn assert_streams(
    protocol: &dyn Protocol,
    name: &str,
    stream: &str,
    expected: &Answer,
    line_ends: &[&str],
) {
    for ends in line_ends {
        let stream = stream.replace('\n', ends);
        for cut in 0..=stream.len() {
            let (result, shown) = streamed(protocol, stream.as_bytes(), cut);
            assert_eq!(&result.unwrap(), expected, "{name}, split at {cut}");
            assert_eq!(shown, expected.content, "{name}, split at {cut}");
        }
    }
}

/// Asserts that a stream is a reply from byte `told` on and before that is none.
pub(crate) fn assert_cut(protocol: &dyn Protocol, stream: &str, told: usize) {
    for cut in 0..=stream.len() {
        let (result, _) = streamed(protocol, &stream.as_bytes()[..cut], cut / 2);
        match result {
            Ok(answer) => assert!(cut >= told, "cut at {cut}: {answer:?}"),
            Err(Error::Cut { .. } | Error::Form { .. }) => assert!(cut < told, "cut at {cut}"),
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
}
