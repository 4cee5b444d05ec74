//! An HTTP server in a model's place: it keeps what it was asked, and answers what it was told to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A running server; it ends with the test's runtime.
pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

struct State {
    answers: VecDeque<Value>,
    /// What is answered by its path, whatever the model is to say.
    services: Vec<(&'static str, Value)>,
    seen: Vec<Request>,
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) body: Value,
}

impl Request {
    /// Returns the prompt of a completion.
    pub(crate) fn prompt(&self) -> &str {
        self.body["prompt"].as_str().unwrap_or_else(|| panic!("no prompt: {}", self.body))
    }
}

impl Server {
    /// Starts a server that gives each request one of some answers, in their order. When there are
    /// no more it refuses for good, so that a request too many fails its run.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Value>) -> Self {
        Self::with(answers, Vec::new()).await
    }

    /// Starts a server that says some replies as Ollama does, and answers other paths besides.
    pub(crate) async fn ollama(
        replies: &[impl ToString],
        services: Vec<(&'static str, Value)>,
    ) -> Self {
        Self::with(replies.iter().map(said_by_ollama), services).await
    }

    async fn with(
        answers: impl IntoIterator<Item = Value>,
        services: Vec<(&'static str, Value)>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = answers.into_iter().collect();
        let state = State { answers, services, seen: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { url, state }
    }

    /// Says other replies as Ollama does, and forgets what came.
    pub(crate) fn play(&self, replies: &[impl ToString]) {
        let mut state = self.state.lock().unwrap();
        state.answers = replies.iter().map(said_by_ollama).collect();
        state.seen.clear();
    }

    /// Returns the chats of Ollama that came so far.
    pub(crate) fn chats(&self) -> Vec<Value> {
        self.asked("/api/chat").into_iter().map(|request| request.body).collect()
    }

    /// Returns the requests whose path begins with this.
    pub(crate) fn asked(&self, path: &str) -> Vec<Request> {
        self.seen().into_iter().filter(|request| request.path.starts_with(path)).collect()
    }

    /// Returns the requests that came so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.state.lock().unwrap().seen.clone()
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let Some(request) = read_request(&mut stream).await else { return };
    let answer = {
        let mut state = state.lock().unwrap();
        let serves = |(path, _): &&(&str, Value)| request.path.starts_with(path);
        let service = state.services.iter().find(serves).map(|(_, answer)| answer.clone());
        state.seen.push(request);
        service.or_else(|| state.answers.pop_front())
    };
    let (status, body) = match answer {
        Some(answer) => (200, answer),
        None => (400, json!({"error": {"message": "no answer is left"}})),
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    // The client may have gone, which is no fault of the test.
    drop(stream.write_all((head + &body).as_bytes()).await);
    drop(stream.shutdown().await);
}

async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            let body = &bytes[end + 4..];
            if body.len() >= length {
                let path = head.split(' ').nth(1).unwrap().to_owned();
                let body = match body {
                    [] => Value::Null,
                    body => serde_json::from_slice(body).unwrap(),
                };
                return Some(Request { path, body });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn said_by_ollama(reply: &impl ToString) -> Value {
    json!({
        "message": {"role": "assistant", "content": reply.to_string()}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1,
    })
}

/// Makes a whole answer of a server of llama.cpp.
pub(crate) fn completion(content: &str) -> Value {
    json!({"content": content, "stop": true, "stop_type": "eos",
        "tokens_evaluated": 20, "tokens_predicted": 10})
}

/// Makes an answer of a server of llama.cpp that ends at `n_predict`, as an old and as a newer one
/// says it.
pub(crate) fn cut(content: &str) -> [Value; 3] {
    let answer = |field: &str, value: Value| {
        let mut answer = completion(content);
        answer["stop_type"] = json!("none");
        answer[field] = value;
        answer
    };
    [
        answer("stop_type", json!("limit")),
        answer("stopped_limit", json!(true)),
        answer("truncated", json!(true)),
    ]
}

/// Makes an answer of the chat completions protocol.
pub(crate) fn chat(message: &Value) -> Value {
    let calls = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
    let finish = if calls { "tool_calls" } else { "stop" };
    json!({"model": "served", "choices": [{"message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 10}})
}

/// Makes a call as a message of the chat completions protocol holds it.
pub(crate) fn tool_call(id: &str, name: &str, arguments: &Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}
