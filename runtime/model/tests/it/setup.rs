//! Teams of one model, and what they are asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use config::Team;
use config::script::Script;
use config::team::{Model, OpenAi, Provider, Server, TokensField};
use model::{Conversation, Guards, ModelClient, ModelClients, Progress};
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
        reasoning: true,
        retries_max: 3,
        requests_per_minute: None,
        tokens_per_minute: None,
        fallback: Vec::new(),
        record: None,
        price: None,
    }
}

pub(crate) fn openai(base_url: &str, stream: bool) -> OpenAi {
    OpenAi {
        server: served(base_url, stream),
        strict: false,
        merge_adjacent: false,
        tokens_field: TokensField::MaxTokens,
        stream_usage: true,
    }
}

pub(crate) fn served(base_url: &str, stream: bool) -> Server {
    Server {
        base_url: base_url.to_owned(),
        model: "gpt".to_owned(),
        api_key: None,
        concurrency: None,
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

/// Makes a team of some models, which are all that it has.
pub(crate) fn team(name: &str, weight: u32, models: Vec<Model>) -> Team {
    let name = Name::new(name).unwrap();
    Team {
        name: name.clone(),
        description: String::new(),
        file: "t.toml".into(),
        entry: name,
        agents: BTreeMap::new(),
        models: models.into_iter().map(|model| (model.name.clone(), model)).collect(),
        databases: BTreeMap::new(),
        secrets: Vec::new(),
        servers: BTreeMap::new(),
        events: BTreeMap::new(),
        discover: BTreeMap::new(),
        left_out: Vec::new(),
        retention: config::team::Retention::default(),
        runs_max: 1000,
        weight,
        tools: BTreeMap::new(),
        otlp_endpoint: None,
    }
}

/// Returns the client of the first of some models, whose fallbacks are the others in their order.
pub(crate) fn client_of(mut models: Vec<Model>) -> ModelClient {
    let (first, others) = models.split_first_mut().unwrap();
    first.fallback = others.iter().map(|model| model.name.clone()).collect();
    let name = first.name.clone();
    let clients = try_clients(models).unwrap();
    clients.client(&name).unwrap().clone()
}

pub(crate) fn try_clients(models: Vec<Model>) -> Result<ModelClients, WireError> {
    ModelClients::new(&team("t", 1, models), &Guards::default(), &http())
}

pub(crate) fn client(model: &Model) -> ModelClient {
    client_of(vec![model.clone()])
}

pub(crate) fn conversation(messages: Vec<Message>) -> Conversation {
    Conversation {
        head: Arc::new(Head::default().into()),
        messages: messages.into_iter().map(Arc::new).collect(),
        passing: 0,
        max_tokens: None,
        role: ModelRole::Actor,
        session: None,
    }
}

pub(crate) fn user(text: &str) -> Message {
    Message::User { content: text.to_owned() }
}

pub(crate) fn assistant(text: &str) -> Message {
    Message::Assistant { content: text.to_owned(), calls: Vec::new(), reasoning: None }
}

/// Makes one turn with all the time of the model, and returns the pieces of text beside its end.
pub(crate) async fn turn(
    client: &ModelClient,
    conversation: &Conversation,
) -> (Result<ModelReply, WireError>, Vec<String>) {
    turn_in(client, conversation, LONG).await
}

/// Makes one turn in a time; another attempt at a model that was cut
/// is told as `MODEL again: CODE`, and a switch to another model as `FROM -> TO: CODE`.
pub(crate) async fn turn_in(
    client: &ModelClient,
    conversation: &Conversation,
    remaining: Duration,
) -> (Result<ModelReply, WireError>, Vec<String>) {
    let mut shown = Vec::new();
    let mut on_progress = |progress: Progress<'_>| {
        shown.push(match progress {
            Progress::Piece(piece) => piece.to_owned(),
            Progress::Retried { model, error } => format!("{model} again: {}", error.code),
            Progress::Switched { from, to, error } => format!("{from} -> {to}: {}", error.code),
        });
    };
    let result = match client.admit() {
        Ok(admission) => client.turn(admission, conversation, remaining, &mut on_progress).await,
        Err(error) => Err(error),
    };
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
