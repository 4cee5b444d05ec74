//! Teams of one model, and what they are asked.

use std::sync::Arc;
use std::time::Duration;

use config::script::Script;
use config::team::{Model, OpenAi, Provider, Server};
use model::{Conversation, ModelClient};
use serde_json::Map;
use tools::client::http_client;
use wire::chat::Head;
use wire::plan::Dialect;
use wire::{ErrorCode, Message, ModelReply, ModelRole, Name, WireError};

/// More time than any turn here takes.
pub(crate) const LONG: Duration = Duration::from_mins(10);

pub(crate) fn model(provider: Provider) -> Model {
    Model {
        name: Name::new("m").unwrap(),
        provider,
        dialect: Dialect::Native,
        concurrency: 4,
        queue_max: 4,
        timeout_ms: 60_000,
        idle_timeout_ms: 20_000,
        retries_max: 3,
        record: None,
    }
}

pub(crate) fn openai(base_url: &str, stream: bool) -> OpenAi {
    OpenAi { server: served(base_url, stream), strict: false, merge_adjacent: false }
}

pub(crate) fn served(base_url: &str, stream: bool) -> Server {
    Server {
        base_url: base_url.to_owned(),
        model: "gpt".to_owned(),
        api_key: None,
        stream,
        temperature: None,
        stop: Vec::new(),
        extra_body: Map::new(),
    }
}

/// Makes a model of a script that is written as in a file, one reply a line.
pub(crate) fn scripted(lines: &[&str]) -> Model {
    let replies = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    model(Provider::Scripted(Script { replies }))
}

/// Returns a client of the test's own runtime. Root certificates are read once for all of them,
/// since that takes long enough to let short time limits pass.
pub(crate) fn http() -> reqwest::Client {
    thread_local! {
        static HTTP: reqwest::Client = http_client().unwrap();
    }
    HTTP.with(Clone::clone)
}

pub(crate) fn client(model: &Model) -> ModelClient {
    ModelClient::new(model, http()).unwrap()
}

pub(crate) fn conversation(messages: Vec<Message>) -> Conversation {
    Conversation {
        head: Arc::new(Head::default()),
        messages: messages.into_iter().map(Arc::new).collect(),
        max_tokens: None,
        role: ModelRole::Actor,
    }
}

pub(crate) fn user(text: &str) -> Message {
    Message::User { content: text.to_owned() }
}

pub(crate) fn assistant(text: &str) -> Message {
    Message::Assistant { content: text.to_owned(), calls: Vec::new() }
}

/// Makes one turn with all the time of the model, and returns the pieces of text beside its end.
pub(crate) async fn turn(
    client: &ModelClient,
    conversation: &Conversation,
) -> (Result<ModelReply, WireError>, Vec<String>) {
    let mut shown = Vec::new();
    let result =
        client.turn(conversation, LONG, &mut |piece: &str| shown.push(piece.to_owned())).await;
    (result, shown)
}

/// Asserts that a turn ended with a code, and with a text in its message.
pub(crate) fn assert_failed<T: std::fmt::Debug>(
    result: Result<T, WireError>,
    code: ErrorCode,
    text: &str,
) -> WireError {
    let error = result.unwrap_err();
    assert_eq!(error.code, code, "{error}");
    assert!(error.message.contains(text), "{error}\nlacks {text:?}");
    error
}
