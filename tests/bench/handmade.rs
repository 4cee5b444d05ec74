//! The floor: a loop written by hand for this one task. Each message is written once and the body
//! is put together from what was written.

use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::measure;
use crate::work::Work;

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

/// Does the work and prints its figures.
pub(crate) fn work(work: &Work) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let told = runtime.block_on(async {
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::new();
        sessions(work, &client, 1).await;
        let (cpu, began) = (measure::own_cpu(), Instant::now());
        sessions(work, &client, work.runs).await;
        let (cpu, took) = (measure::own_cpu().saturating_sub(cpu), began.elapsed());
        figures(work, cpu.as_secs_f64(), took.as_secs_f64(), 0)
    });
    println!("{told}");
}

/// Turns what was measured into figures for each step.
pub(crate) fn figures(work: &Work, cpu_s: f64, took_s: f64, disk_bytes: u64) -> Value {
    let runs = work.sessions * work.runs;
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let (runs, steps, disk) = (runs as f64, (runs * work.steps()) as f64, disk_bytes as f64);
    json!({
        "cpu_us": cpu_s * 1e6 / steps,
        "steps_per_s": steps / took_s,
        "peak_kib": measure::peak_kib(std::process::id()),
        "disk_bytes": disk / runs,
    })
}

async fn sessions(work: &Work, client: &reqwest::Client, runs: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for session in 0..work.sessions {
        let (work, client) = (work.clone(), client.clone());
        tasks.spawn(async move {
            for run in 0..runs {
                one(&work, &client, &format!("h{session}-{run}")).await;
            }
        });
    }
    tasks.join_all().await;
}

async fn one(work: &Work, client: &reqwest::Client, conversation: &str) {
    let url = format!("{}/v1/chat/completions", work.url);
    let tool = json!([{"type": "function", "function": {"name": "calculate",
        "description": "Computes.", "parameters": {"type": "object",
        "properties": {"expression": {"type": "string"}}, "required": ["expression"]}}}]);
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
