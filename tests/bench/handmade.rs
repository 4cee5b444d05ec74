//! The floor: a loop written by hand for this one task. Each message is written once and the body
//! is put together from what was written.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::measure;
use crate::work::{Shape, WORDS, Work};

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    tool_calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    arguments: String,
}

#[derive(Deserialize)]
struct Arguments {
    expression: String,
}

#[derive(Deserialize)]
struct Streamed<'a> {
    #[serde(borrow)]
    choices: Vec<Piece<'a>>,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<std::borrow::Cow<'a, str>>,
}

/// Does the work and prints its figures.
pub(crate) fn work(work: &Work) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let told = runtime.block_on(async {
        let client = reqwest::Client::new();
        sessions(work, &client, 1).await;
        let (began, clock) = (measure::Began::now(), Instant::now());
        sessions(work, &client, work.runs).await;
        figures(work, &began, clock.elapsed())
    });
    println!("{told}");
}

/// Turns what was measured into figures for each step.
pub(crate) fn figures(work: &Work, began: &measure::Began, took: Duration) -> Value {
    let steps = measure::float((work.sessions * work.runs * work.steps()) as u64);
    let mut told = began.each(steps);
    told["steps_per_s"] = (steps / took.as_secs_f64()).into();
    told["peak_kib"] = measure::peak_kib().into();
    told
}

async fn sessions(work: &Work, client: &reqwest::Client, runs: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for session in 0..work.sessions {
        let (work, client) = (work.clone(), client.clone());
        tasks.spawn(async move {
            for run in 0..runs {
                let conversation = format!("h{session}-{run}");
                if work.shape == Shape::Tokens {
                    streamed(&work, &client, &conversation).await;
                } else {
                    one(&work, &client, &conversation).await;
                }
            }
        });
    }
    tasks.join_all().await;
}

/// Returns the tools of every request.
pub(crate) fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "calculate",
        "description": "Computes.", "parameters": {"type": "object",
        "properties": {"expression": {"type": "string"}}, "required": ["expression"]}}}])
}

async fn one(work: &Work, client: &reqwest::Client, conversation: &str) {
    let url = format!("{}/v1/chat/completions", work.url);
    let tool = tools();
    let system = json!({"role": "system", "content": "You compute."});
    let user = json!({"role": "user", "content": work.request(conversation)});
    let mut body = format!(r#"{{"model":"stub","tools":{tool},"messages":[{system},{user}"#);
    loop {
        let reply = client
            .post(&url)
            .header("content-type", "application/json")
            .body(format!("{body}]}}"))
            .send()
            .await
            .expect("an answer")
            .bytes()
            .await
            .expect("a body");
        let reply: Reply<'_> = serde_json::from_slice(&reply).expect("a reply");
        let raw = reply.choices.first().expect("a choice").message.get();
        let message: Message = serde_json::from_str(raw).expect("a message");
        if message.tool_calls.is_empty() {
            return;
        }
        body.push(',');
        body.push_str(raw);
        for call in message.tool_calls {
            let Arguments { expression } =
                serde_json::from_str(&call.function.arguments).expect("arguments");
            let sum: i64 =
                expression.split(" + ").filter_map(|part| part.parse::<i64>().ok()).sum();
            let result = json!({"role": "tool", "tool_call_id": call.id,
                "content": sum.to_string()});
            body.push(',');
            body.push_str(&result.to_string());
        }
    }
}

/// Reads an answer piece by piece.
async fn streamed(work: &Work, client: &reqwest::Client, conversation: &str) {
    let body = json!({"model": "stub", "stream": true, "messages": [
        {"role": "system", "content": "You compute."},
        {"role": "user", "content": work.request(conversation)}]});
    let url = format!("{}/v1/chat/completions", work.url);
    let asked = client.post(&url).header("content-type", "application/json");
    let mut response = asked.body(body.to_string()).send().await.expect("an answer");
    let (mut rest, mut text) = (Vec::new(), String::new());
    while let Some(bytes) = response.chunk().await.expect("a piece") {
        rest.extend_from_slice(&bytes);
        let mut read = 0;
        while let Some(at) = rest.iter().skip(read).position(|byte| *byte == b'\n') {
            let line = rest.get(read..read + at).unwrap_or_default();
            read += at + 1;
            let Some(event) = line.strip_prefix(b"data: ").filter(|event| *event != b"[DONE]")
            else {
                continue;
            };
            let event: Streamed<'_> = serde_json::from_slice(event).expect("an event");
            for choice in event.choices {
                text.push_str(choice.delta.content.as_deref().unwrap_or_default());
            }
        }
        rest.drain(..read);
    }
    assert_eq!(text.len(), WORDS * crate::stub::WORD.len(), "the whole answer");
}
