//! An HTTP server in a model's place: it keeps what it was asked, and answers what it was told to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
pub(crate) use tests::http::Request;
use tests::http::{self, Answer};

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

impl State {
    fn answer(&mut self, request: Request) -> Answer {
        let serves = |(path, _): &&(&str, Value)| request.path.starts_with(path);
        let service = self.services.iter().find(serves).map(|(_, answer)| answer.clone());
        self.seen.push(request);
        match service.or_else(|| self.answers.pop_front()) {
            Some(answer) => Answer::new(200, &answer),
            None => Answer::new(400, &json!({"error": {"message": "no answer is left"}})),
        }
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
        let answers = answers.into_iter().collect();
        let state = State { answers, services, seen: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let server = http::Server::start(move |request| shared.lock().unwrap().answer(request));
        let url = server.await.url;
        Self { url, state }
    }

    /// Says other replies as Ollama does, and forgets what came.
    pub(crate) fn play(&self, replies: &[impl ToString]) {
        let mut state = self.state.lock().unwrap();
        state.answers = replies.iter().map(said_by_ollama).collect();
        state.seen.clear();
    }

    /// Puts an answer before those that are left.
    pub(crate) fn put(&self, answer: Value) {
        self.state.lock().unwrap().answers.push_front(answer);
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
