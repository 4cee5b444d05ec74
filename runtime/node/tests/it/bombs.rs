//! Teams that call each other for ever, on a model that does nothing else and uses all it is given.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use wire::run::Budget;
use wire::{ErrorCode, RunReply, RunRequest, RunStatus};

use crate::house;

/// Bytes of a request that its server takes for one token.
const BYTES_PER_TOKEN: usize = 4;

/// A server whose model calls every tool that it is offered, `width` times and never the same way,
/// and whose replies are as long as they may be.
struct Greedy {
    port: u16,
    asked: Arc<AtomicUsize>,
}

impl Greedy {
    async fn start(width: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let asked = counted.clone();
                tokio::spawn(async move { serve(stream, width, &asked).await });
            }
        });
        Self { port, asked }
    }
}

async fn serve(stream: TcpStream, width: usize, asked: &AtomicUsize) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let request: Value = serde_json::from_slice(&body).ok()?;
        let reply = reply(&request, length, width, asked).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            reply.len()
        );
        stream.write_all((head + &reply).as_bytes()).await.ok()?;
    }
}

fn reply(request: &Value, length: usize, width: usize, asked: &AtomicUsize) -> Value {
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let names = tools.iter().map(|tool| tool["function"]["name"].clone());
    let calls: Vec<Value> = names
        .flat_map(|name| (0..width).map(move |_| name.clone()))
        .map(|name| {
            let n = asked.fetch_add(1, Ordering::SeqCst);
            let arguments = json!({"task": format!("task {n}")}).to_string();
            json!({"id": format!("call_{n}"), "type": "function",
                "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    json!({
        "id": "x", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": "deeper", "tool_calls": calls}}],
        "usage": {"prompt_tokens": length / BYTES_PER_TOKEN,
            "completion_tokens": request["max_tokens"]},
    })
}

fn team(port: u16, limits: &str, agents: &[(&str, &[&str])]) -> String {
    let head = format!(
        "[team]\nentry = \"a\"\n[limits]\n{limits}\n[models.m]\nprovider = \"openai\"\n\
         base_url = \"http://127.0.0.1:{port}/v1\"\nmodel = \"m\"\nstream = false\n\
         concurrency = 8\nqueue_max = 1000\nprice = {{ input = 1, output = 3 }}\n"
    );
    let tables = agents.iter().map(|(name, called)| {
        format!(
            "[agents.{name}]\ndescription = \"digs\"\ninstructions = \"Dig.\"\nmodel = \"m\"\n\
             recursion = true\nagents = {called:?}\n"
        )
    });
    [head].into_iter().chain(tables).collect::<Vec<_>>().concat()
}

async fn asked(folder: &Path, text: &str, budget: Option<Budget>) -> (RunReply, usize) {
    let node = house::start_with(folder, text, &[]).await;
    let request = RunRequest {
        input: "dig".to_owned(),
        session: None,
        run: None,
        timeout_ms: None,
        budget,
        parent: None,
    };
    let body = serde_json::to_vec(&request).unwrap();
    let subject = house::entry(&node);
    let answer = house::ask(&node, &subject, wire::Headers::new(), body.into()).await;
    let reply: RunReply = serde_json::from_slice(&answer.payload).unwrap();
    let team = node.teams().next().unwrap();
    team.settle().await;
    let runs = team.store().runs(10_000).unwrap();
    assert!(runs.iter().all(|row| row.ended.is_some()), "a run goes on");
    let begun = runs.len();
    node.drain(std::time::Duration::from_secs(5)).await;
    (reply, begun)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t20_recursion_bombs_stop_within_their_bounds() {
    const TOKENS_MAX: u64 = 40_000;
    let limits = format!("tokens_max = {TOKENS_MAX}\nreply_tokens_max = 60\ncost_max = 1.0");
    let itself: &[(&str, &[&str])] = &[("a", &["a"])];
    let circle: &[(&str, &[&str])] = &[("a", &["b"]), ("b", &["a"])];
    let mutual: &[(&str, &[&str])] = &[("a", &["b", "a"]), ("b", &["a", "b"])];
    let (mut most_calls, mut most_tokens) = (0, 0);
    for (what, agents, width) in [
        ("one that calls itself", itself, 1),
        ("two that call each other", circle, 1),
        ("a tree sixteen wide", itself, 16),
        ("two that call both", mutual, 2),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let model = Greedy::start(width).await;
        let text = team(model.port, &limits, agents);
        let (reply, begun) = asked(folder.path(), &text, None).await;
        let code = reply.error.as_ref().map(|error| error.code);
        let ended = matches!(
            (reply.status, code),
            (RunStatus::Budget, Some(ErrorCode::BudgetExceeded))
                | (RunStatus::Partial, Some(ErrorCode::StepLimit))
        );
        assert!(ended, "{what}: {:?} {code:?}", reply.status);
        assert_eq!(reply.output, "deeper", "{what}");
        assert!(reply.usage.calls <= 200 && begun <= 201, "{what}: {begun} {:?}", reply.usage);
        assert!(begun > 3, "{what}: {begun}");
        assert!(reply.usage.total() <= TOKENS_MAX, "{what}: {:?}", reply.usage);
        assert!(model.asked.load(Ordering::SeqCst) > begun, "{what}");
        most_calls = most_calls.max(reply.usage.calls);
        most_tokens = most_tokens.max(reply.usage.total());
    }
    result(
        "T20",
        "agents that call themselves and each other for ever",
        &format!(
            "4 teams: at most {most_calls} calls and {most_tokens} of {TOKENS_MAX} tokens, each \
             ended as `budget` or `partial`"
        ),
        "200 calls, spending within the budget, a typed outcome",
    );
}

/// Prints a row for whoever collects results; see `tests/src/results.rs`.
#[expect(clippy::print_stdout, reason = "the output of a test is where its figures are told")]
fn result(id: &str, what: &str, held: &str, passes: &str) {
    let command = format!("cargo test -p node --test it {}_ -- --nocapture", id.to_lowercase());
    let row = json!({"id": id, "what": what, "held": held, "passes": passes, "command": command});
    println!("\nRESULT {row}");
}

#[tokio::test]
async fn money_is_not_promised_for_a_model_without_a_price() {
    let folder = tempfile::tempdir().unwrap();
    let script = [json!({"when": ".", "content": "Dug."})];
    let ask = async |priced: [&str; 2], run: &str| {
        // Of a scripted model the price is known; the other one would never be reached.
        let model = |name: &str| {
            let provider = if priced.contains(&name) {
                "provider = 'scripted'\nscript = 's.jsonl'"
            } else {
                "provider = 'openai'\nbase_url = 'http://127.0.0.1:9/v1'\nmodel = 'm'"
            };
            format!("[models.{name}]\n{provider}\n")
        };
        let agent = |name: &str, model: &str, called: &str| {
            format!(
                "[agents.{name}]\ndescription = 'digs'\ninstructions = 'Dig.'\nmodel = '{model}'\n\
                 agents = [{called}]\n"
            )
        };
        let text = ["[team]\nentry = 'a'\n".to_owned(), model("m"), model("n")]
            .into_iter()
            .chain([agent("a", "m", "'b'"), agent("b", "m", "'c'"), agent("c", "n", "")])
            .collect::<String>();
        let node = house::start_with(folder.path(), &text, &[("s.jsonl", &script)]).await;
        let body =
            json!({"input": "dig", "run": run, "budget": {"cost_nano_usd": 5_000_000_000_u64}});
        let body = body.to_string().into();
        let answer = house::ask(&node, &house::entry(&node), wire::Headers::new(), body).await;
        node.drain(std::time::Duration::from_secs(5)).await;
        String::from_utf8(answer.payload.to_vec()).unwrap()
    };
    let refused = |model: &str, agent: &str| {
        format!(
            "model {model} has no `price`, so the budget's `cost_nano_usd` cannot be kept in runs of \
             agent {agent}"
        )
    };
    let done = || "\"status\":\"completed\",\"output\":\"Dug.\"".to_owned();
    // The models with a price, the run that is asked for, and what is answered.
    let cases = [
        (["n", "n"], "r1", refused("m", "a")),
        (["m", "m"], "r2", refused("n", "c")),
        (["m", "n"], "r3", done()),
        // One that is known has its reply, whatever the team has become.
        (["n", "n"], "r3", done()),
    ];
    for (priced, run, part) in cases {
        let answer = ask(priced, run).await;
        assert!(answer.contains(&part), "{run} with prices of {priced:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t21_calls_at_once_never_spend_more_than_their_one_budget() {
    const MONEY: u64 = 20_000_000;
    let limits = "calls_per_step_max = 64\nreply_tokens_max = 200\ndepth_max = 1\nsteps_max = 4";
    let agents: &[(&str, &[&str])] = &[("a", &["b"]), ("b", &["b"])];
    for (budget, most) in [
        (Budget { tokens: Some(12_000), ..Budget::default() }, "tokens"),
        (Budget { cost_nano_usd: Some(MONEY), ..Budget::default() }, "money"),
        (Budget { calls: Some(70), ..Budget::default() }, "calls"),
        (Budget { calls: Some(0), ..Budget::default() }, "no calls"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let model = Greedy::start(64).await;
        let text = team(model.port, limits, agents);
        let (reply, begun) = asked(folder.path(), &text, Some(budget)).await;
        let used = reply.usage;
        assert!(used.total() <= budget.tokens.unwrap_or(200_000), "{most}: {used:?}");
        assert!(used.cost_nano_usd <= budget.cost_nano_usd.unwrap_or(u64::MAX), "{most}: {used:?}");
        assert!(used.calls <= budget.calls.unwrap_or(200), "{most}: {used:?}");
        assert!(used.cost_nano_usd > 0, "{most}: {used:?}");
        let wide = if budget.calls == Some(0) { 1 } else { 65 };
        assert!(begun >= wide, "{most}: {begun} runs for {used:?}");
        assert_ne!(reply.status, RunStatus::Completed, "{most}");
    }
    result(
        "T21",
        "64 calls at once on one budget of tokens, money or calls",
        "4 budgets: 0 overspent",
        "0 overspent",
    );
}
