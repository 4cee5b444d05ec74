//! A question, a call of a tool, its result and the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use config::Team;
use config::team::{
    Constrain, LlamaCpp, Model, Ollama, OpenAi, Provider, Sampling, Server, Template, TokensField,
};
use model::{Conversation, Guards, ModelClient, ModelClients, Progress};
use serde_json::{Map, Value, json};
use tools::client::http_client;
use wire::chat::Head;
use wire::plan::Dialect;
use wire::{FinishReason, Message, ModelReply, ModelRole, Name, ToolSpec};

use tests::aimock::Aimock;

const QUESTION: &str = "What is twelve times thirty-four?";
const ANSWER: &str = "12 * 34 = 408";

fn fixtures() -> Value {
    let arguments = json!({"a": 12, "b": 34}).to_string();
    json!([
        {"match": {"userMessage": "twelve times", "hasToolResult": true},
            "response": {"content": ANSWER}},
        {"match": {"userMessage": "twelve times", "hasToolResult": false},
            "response": {"toolCalls": [{"name": "int_mult", "arguments": arguments}]}},
    ])
}

fn server(base_url: String, stream: bool) -> Server {
    Server {
        base_url,
        model: "served".to_owned(),
        api_key: None,
        concurrency: None,
        stream,
        temperature: Some(0.0),
        stop: Vec::new(),
        extra_body: Map::new(),
    }
}

/// The providers, with the path at which the server speaks for them.
///
/// Of llama.cpp that is the path at which its server makes the prompt; the other, where we make it,
/// is spoken by no server but its own: `cargo llama`.
fn providers(url: &str, stream: bool) -> [(&'static str, Provider); 4] {
    let openai = OpenAi {
        server: server(format!("{url}/v1"), stream),
        strict: false,
        merge_adjacent: false,
        tokens_field: TokensField::default(),
        stream_usage: true,
    };
    let ollama = Ollama {
        server: server(url.to_owned(), stream),
        num_ctx: Some(4096),
        num_predict: None,
        sampling: Sampling::default(),
        keep_alive: None,
        think: None,
    };
    let llamacpp = LlamaCpp {
        server: server(url.to_owned(), stream),
        template: Template::Server,
        constrain: Constrain::JsonSchema,
        n_predict: None,
        sampling: Sampling::default(),
        merge_adjacent: false,
    };
    [
        ("/v1/chat/completions", Provider::OpenAi(openai)),
        ("/v1/chat/completions", Provider::LlamaCpp(llamacpp)),
        ("/api/chat", Provider::Ollama(ollama)),
        ("/v1/messages", Provider::Anthropic(server(url.to_owned(), stream))),
    ]
}

fn client(provider: Provider, http: &reqwest::Client) -> ModelClient {
    let model = Model {
        name: Name::new("m").unwrap(),
        provider,
        dialect: Dialect::Native,
        concurrency: 1,
        queue_max: 0,
        timeout_ms: 30_000,
        idle_timeout_ms: 30_000,
        reasoning: true,
        retries_max: 0,
        requests_per_minute: None,
        tokens_per_minute: None,
        fallback: Vec::new(),
        record: None,
        price: None,
    };
    let name = model.name.clone();
    let team = Team {
        name: name.clone(),
        description: String::new(),
        file: "t.toml".into(),
        entry: name.clone(),
        agents: BTreeMap::new(),
        models: BTreeMap::from([(name.clone(), model)]),
        databases: BTreeMap::new(),
        secrets: Vec::new(),
        servers: BTreeMap::new(),
        events: BTreeMap::new(),
        discover: BTreeMap::new(),
        left_out: Vec::new(),
        retention: config::team::Retention::default(),
        runs_max: 1000,
        weight: 1,
        tools: BTreeMap::new(),
        otlp_endpoint: None,
    };
    let clients = ModelClients::new(&team, &Guards::default(), http).unwrap();
    clients.client(&name).unwrap().clone()
}

fn head() -> Head {
    let number = json!({"type": "integer"});
    let tool = ToolSpec {
        name: Name::new("int_mult").unwrap(),
        description: "Multiplies two whole numbers.".to_owned(),
        parameters: json!({"type": "object", "properties": {"a": number, "b": number},
            "required": ["a", "b"], "additionalProperties": false}),
    };
    Head { tools: vec![tool], ..Head::default() }
}

async fn turn(client: &ModelClient, messages: &[Message]) -> (ModelReply, String) {
    let conversation = Conversation {
        head: Arc::new(head().into()),
        messages: messages.iter().cloned().map(Arc::new).collect(),
        passing: 0,
        max_tokens: Some(100),
        role: ModelRole::Actor,
        session: None,
    };
    let mut shown = String::new();
    let mut on_progress = |progress: Progress<'_>| match progress {
        Progress::Piece(piece) => shown.push_str(piece),
        Progress::Retried { error, .. } | Progress::Switched { error, .. } => panic!("{error}"),
    };
    let (admission, minute) = (client.admit().unwrap(), Duration::from_mins(1));
    let reply = client.turn(admission, &conversation, minute, &mut on_progress).await.unwrap();
    (reply, shown)
}

#[tokio::test]
async fn every_provider_calls_a_tool_and_answers_streaming_and_not() {
    let server = Aimock::start(fixtures()).await;
    let http = http_client().unwrap();
    let mut paths = Vec::new();
    for stream in [true, false] {
        for (path, provider) in providers(&server.url, stream) {
            let client = client(provider, &http);
            let name = format!("{path} {stream}");
            let mut messages = vec![
                Message::System { content: "You compute.".to_owned() },
                Message::User { content: QUESTION.to_owned() },
            ];
            let (reply, shown) = turn(&client, &messages).await;
            let [call] = reply.calls.as_slice() else { panic!("{name}: {reply:?}") };
            assert_eq!(call.name, "int_mult", "{name}");
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            assert_eq!(arguments, json!({"a": 12, "b": 34}), "{name}");
            assert_eq!((reply.finish, shown.as_str()), (FinishReason::ToolCalls, ""), "{name}");
            messages.push(Message::Assistant {
                content: reply.content.to_string(),
                calls: reply.calls.clone(),
                reasoning: reply.reasoning.clone(),
            });
            messages.push(Message::Tool {
                call_id: call.id.clone(),
                name: call.name.clone(),
                content: "408".to_owned(),
            });
            let (reply, shown) = turn(&client, &messages).await;
            assert_eq!((reply.content.as_str(), shown.as_str()), (ANSWER, ANSWER), "{name}");
            assert_eq!((reply.finish, reply.calls), (FinishReason::Stop, vec![]), "{name}");
            paths.extend([path, path]);
        }
    }
    let requests = server.requests(&http).await;
    let seen: Vec<&str> = requests.iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(seen, paths);
}
