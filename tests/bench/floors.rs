//! What the parts of a step cost by themselves on this machine, measured in the same run.

use std::io::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use wire::Headers;

use crate::measure::{self, Began};
use crate::servers::{Nats, Stub, figures, role};
use crate::sheet::Sheet;
use crate::{handmade, team, work};

/// The party under which floors stand in the sheet.
pub(crate) const FLOOR: &str = "floor";

/// Bytes of a record that is synced, and how many are.
const RECORD_BYTES: usize = 512;
const RECORDS: usize = 2000;

/// The pause before each of those records that are synced one now and then, and how many are.
const PAUSE: Duration = Duration::from_millis(200);
const RARE_RECORDS: usize = 40;

/// Bytes of a message on NATS.
const MESSAGE_BYTES: usize = 256;

/// The subject of these messages.
const ECHO: &str = "floor.echo";

/// The longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Times that a body is written and read.
const BODIES: usize = 5000;

/// The floors by their ids: what is done, how many at once, and how often by each of them.
const ROWS: [(&str, &str, usize, usize); 13] = [
    ("floor-http-1", "http", 1, 5000),
    ("floor-http-32", "http", 32, 500),
    ("floor-http-256", "http", 256, 80),
    ("floor-nats-1", "nats", 1, 10_000),
    ("floor-nats-32", "nats", 32, 1500),
    ("floor-nats-256", "nats", 256, 200),
    ("floor-sync", "sync", 1, RECORDS),
    ("floor-sync-slow", "rare", 1, RARE_RECORDS),
    ("floor-call-1", "call", 1, 50_000),
    ("floor-call-32", "call", 32, 3000),
    ("floor-call-256", "call", 256, 400),
    ("floor-json-write", "write", 1, BODIES),
    ("floor-json-read", "read", 1, BODIES),
];

/// Returns the ids of the floors.
pub(crate) fn ids() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|(id, ..)| *id)
}

/// Returns what a floor is.
pub(crate) fn title(id: &str) -> String {
    let (_, kind, at_once, _) = ROWS.iter().find(|(known, ..)| *known == id).expect("a floor");
    let what = match *kind {
        "http" => "HTTP round trip to the model server, kept alive",
        "nats" => "request and reply over NATS, 256 B",
        "sync" => "append of 512 B and fdatasync",
        "rare" => "the same, 200 ms apart",
        "call" => "call of an actor",
        "write" => "write the body of the last request of chain 10",
        _ => "read the same body",
    };
    format!("{what}, {at_once} at once")
}

/// Measures a floor once.
pub(crate) fn measure(id: &str, stub: &Stub, sheet: &mut Sheet) {
    let (_, kind, at_once, each) = ROWS.iter().find(|(known, ..)| *known == id).expect("a floor");
    let (at_once, each) = (at_once.to_string(), each.to_string());
    let server = (*kind == "nats").then(Nats::start);
    let nats = server.as_ref().map(|server| server.url.as_str()).unwrap_or_default();
    let mut command = role("floor", [*kind, &at_once, &each, &stub.url, nats]);
    if let Some(server) = &server {
        server.counted_by(&mut command);
    }
    sheet.add(id, FLOOR, &figures(command));
}

/// Does one of the floors in a process of its own and prints its figures.
pub(crate) fn floor(kind: &str, at_once: &str, each: &str, url: &str, nats: &str) {
    let at_once = at_once.parse().expect("a number at once");
    let each = each.parse().expect("a number for each");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let told = match kind {
        "http" => runtime.block_on(http(at_once, each, url)),
        "nats" => runtime.block_on(over_nats(at_once, each, nats)),
        "call" => runtime.block_on(calls(at_once, each, url)),
        "sync" => sync(each, Duration::ZERO),
        "rare" => sync(each, PAUSE),
        _ => body(kind == "write", each),
    };
    println!("{told}");
}

/// Does something so often, one after another for each of those at once, a tenth of it before
/// anything is measured.
async fn repeat<Act, Done>(at_once: usize, each: usize, act: Act) -> Value
where
    Act: Fn() -> Done + Clone + Send + 'static,
    Done: Future<Output = ()> + Send,
{
    round(at_once, each.div_ceil(10), &act).await;
    let began = Began::now();
    let took = round(at_once, each, &act).await;
    told(&began, took)
}

/// Returns how long each took, in microseconds.
async fn round<Act, Done>(at_once: usize, each: usize, act: &Act) -> Vec<f64>
where
    Act: Fn() -> Done + Clone + Send + 'static,
    Done: Future<Output = ()> + Send,
{
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..at_once {
        let act = act.clone();
        tasks.spawn(async move {
            let mut took = Vec::with_capacity(each);
            for _ in 0..each {
                let began = Instant::now();
                act().await;
                took.push(began.elapsed().as_secs_f64() * 1e6);
            }
            took
        });
    }
    tasks.join_all().await.concat()
}

fn told(began: &Began, mut took: Vec<f64>) -> Value {
    let mut told = began.each(measure::float(took.len() as u64));
    told["p50_us"] = measure::quantile(&mut took, 0.5).into();
    told["p99_us"] = measure::quantile(&mut took, 0.99).into();
    told
}

/// Does something on this thread so often, after a pause each time.
fn repeat_here(each: usize, pause: Duration, mut act: impl FnMut()) -> Value {
    let mut took = Vec::with_capacity(each);
    let began = Began::now();
    for _ in 0..each {
        std::thread::sleep(pause);
        let began = Instant::now();
        act();
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    told(&began, took)
}

/// Asks the model server with the body of the last request of a relay, which it answers at once.
async fn http(at_once: usize, each: usize, url: &str) -> Value {
    let client = reqwest::Client::new();
    let url = format!("{url}/v1/chat/completions");
    let body = Bytes::from(last_body().to_string());
    let act = move || {
        let asked = client.post(&url).header("content-type", "application/json");
        let asked = asked.body(body.clone());
        async move {
            asked.send().await.expect("an answer").bytes().await.expect("a body");
        }
    };
    repeat(at_once, each, act).await
}

/// Asks and answers on two connections of this process.
async fn over_nats(at_once: usize, each: usize, nats: &str) -> Value {
    let work = work::Work { nats: nats.to_owned(), ..work::chain() };
    let (asking, answering) = (team::bus(&work).await, team::bus(&work).await);
    let mut asked = answering.subscribe(ECHO, None).await.expect("a subscription");
    answering.flush().await.expect("the server");
    tokio::spawn(async move {
        while let Some(message) = asked.next().await {
            let payload = message.payload.clone();
            answering.reply(&message, Headers::new(), payload).await.expect("a reply");
        }
    });
    let payload = Bytes::from(vec![b'x'; MESSAGE_BYTES]);
    let act = move || {
        let (asking, payload) = (asking.clone(), payload.clone());
        async move {
            let answer = asking.request(ECHO, Headers::new(), payload, ANSWER_MAX).await;
            answer.expect("an answer");
        }
    };
    repeat(at_once, each, act).await
}

/// Calls an actor of a node, the one that counts sessions; there are none.
async fn calls(at_once: usize, each: usize, url: &str) -> Value {
    let work = work::Work { url: url.to_owned(), ..work::chain() };
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = team::write(&work, home.path());
    let node = team::start(&file, &home.path().join("data"), team::bus(&work).await).await;
    let handle = team::of(&node).clone();
    let act = move || {
        let handle = handle.clone();
        async move { assert_eq!(handle.sessions_in_memory().await, 0) }
    };
    let told = repeat(at_once, each, act).await;
    node.drain(Duration::ZERO).await;
    told
}

fn sync(each: usize, pause: Duration) -> Value {
    let mut file = tempfile::tempfile().expect("a temporary file");
    let record = [b'x'; RECORD_BYTES];
    repeat_here(each, pause, || {
        file.write_all(&record).expect("the record is written");
        file.sync_data().expect("the record is synced");
    })
}

fn body(is_write: bool, each: usize) -> Value {
    let body = last_body();
    let text = body.to_string();
    let mut bytes = 0;
    let mut told = repeat_here(each, Duration::ZERO, || {
        if is_write {
            bytes = serde_json::to_vec(&body).expect("a body").len();
        } else {
            let read: Value = serde_json::from_str(&text).expect("a body");
            bytes = text.len();
            assert!(read.is_object());
        }
    });
    told["body_bytes"] = bytes.into();
    told
}

/// Returns what the loop sends for the last step of the relay.
fn last_body() -> Value {
    let work = work::chain();
    let mut messages = vec![
        json!({"role": "system", "content": "You compute."}),
        json!({"role": "user", "content": work.request("floor")}),
    ];
    for index in 0..work.calls {
        let arguments = json!({"expression": format!("{index} + 1")}).to_string();
        messages.push(json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": format!("call_{index}"), "type": "function",
                "function": {"name": "calculate", "arguments": arguments}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{index}"),
            "content": (index + 1).to_string()}));
    }
    json!({"model": "stub", "tools": handmade::tools(), "messages": messages})
}
