//! The model server: its reply is a function of the messages alone.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Threads that serve; the rest of the machine is for those who are measured.
const THREADS: usize = 2;

/// When each conversation was last answered, and the gaps since.
#[derive(Default)]
struct Seen {
    answered: HashMap<String, Instant>,
    gaps: Vec<f64>,
}

#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    messages: Vec<Said<'a>>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
struct Said<'a> {
    role: &'a str,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// Serves until it is killed. Its address goes to a file.
pub(crate) fn serve(port_file: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        std::fs::write(port_file, address).expect("the file can be written");
        let seen = Arc::new(Mutex::new(Seen::default()));
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            drop(stream.set_nodelay(true));
            let seen = seen.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| answer(request, seen.clone()));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                drop(connection.await);
            });
        }
    });
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let arrived = Instant::now();
    let lock = || seen.lock().unwrap_or_else(PoisonError::into_inner);
    if request.uri().path() == "/gaps" {
        let gaps = {
            let mut seen = lock();
            seen.answered.clear();
            std::mem::take(&mut seen.gaps)
        };
        return Ok(Response::new(Full::from(json!(gaps).to_string())));
    }
    let Ok(body) = request.into_body().collect().await.map(Collected::to_bytes) else {
        return Ok(Response::new(Full::default()));
    };
    let (reply, conversation, delay, is_last) = reply(&body);
    {
        let mut seen = lock();
        if let Some(before) = seen.answered.remove(&conversation) {
            seen.gaps.push(arrived.duration_since(before).as_secs_f64() * 1e6);
        }
    }
    if delay > 0 {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    if !is_last {
        lock().answered.insert(conversation, Instant::now());
    }
    Ok(Response::builder()
        .header("content-type", if reply.1 { "text/event-stream" } else { "application/json" })
        .body(Full::from(reply.0))
        .expect("a response"))
}

/// Returns the reply and whether it is streamed, the conversation, the delay, and whether the
/// conversation ends with it.
fn reply(body: &[u8]) -> ((String, bool), String, u64, bool) {
    let asked: Asked<'_> = serde_json::from_slice(body).expect("a request");
    let at = asked.messages.iter().rposition(|said| said.role == "user").expect("a user");
    let said = asked.messages.get(at).and_then(|said| said.content).map(RawValue::get);
    let said = said.unwrap_or_default().trim_matches('"');
    let words: Vec<&str> = said.split(' ').collect();
    let [shape, calls, _, pad, _, delay, _, conversation, ..] = words.as_slice() else {
        panic!("a request of the benchmark, not {said}");
    };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let (calls, pad) = (number(calls), number(pad));
    let done = asked.messages.iter().skip(at).filter(|said| said.role == "tool").count();
    let call = |index: usize, name: &str, arguments: &Value| {
        json!({"id": format!("call_{index}"), "type": "function",
            "function": {"name": name, "arguments": arguments.to_string()}})
    };
    let add =
        |index: usize| call(index, "calculate", &json!({"expression": format!("{index} + 1")}));
    let asked_for: Vec<Value> = match *shape {
        "chain" if done < calls => vec![add(done)],
        "parallel" if done == 0 => (0..calls).map(add).collect(),
        "delegate" if done == 0 => {
            let task = said.replacen("delegate", "chain", 1);
            let task = task.replacen("conversation ", "conversation sub-", 1);
            vec![call(0, "specialist", &json!({"task": task}))]
        }
        _ => Vec::new(),
    };
    let is_last = asked_for.is_empty();
    let text = if is_last { "the sum is 55".to_owned() } else { "x".repeat(pad) };
    let reply = if asked.stream { streamed(&text, &asked_for) } else { whole(&text, asked_for) };
    ((reply, asked.stream), (*conversation).to_owned(), number(delay) as u64, is_last)
}

fn whole(text: &str, calls: Vec<Value>) -> String {
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "stub",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    })
    .to_string()
}

/// Writes a reply in pieces of one word.
fn streamed(text: &str, calls: &[Value]) -> String {
    let mut events = String::new();
    let mut push = |choice: Value, usage: Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1,
            "model": "stub", "choices": choice, "usage": usage});
        write!(events, "data: {chunk}\n\n").expect("a string takes it");
    };
    for word in text.split_inclusive(' ') {
        push(json!([{"index": 0, "delta": {"content": word}}]), Value::Null);
    }
    for (index, call) in calls.iter().enumerate() {
        let mut call = call.clone();
        call["index"] = index.into();
        push(json!([{"index": 0, "delta": {"tool_calls": [call]}}]), Value::Null);
    }
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    push(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), Value::Null);
    push(json!([]), json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}));
    events.push_str("data: [DONE]\n\n");
    events
}
