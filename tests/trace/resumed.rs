//! A run whose daemon is killed in the middle goes on in its trace, which shows both parts.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tests::daemon::Daemon;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use wire::{SpanRecord, TraceContext, semconv};

use crate::conventions::{faults, roots};
use crate::shops::{ask, client, spans, write_script};

/// A server that never answers the first request, and all others at once.
struct Stubborn {
    port: u16,
    /// The `traceparent` of each request.
    seen: Arc<Mutex<Vec<String>>>,
}

async fn stubborn() -> (Stubborn, oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let noted = seen.clone();
    let (came, first) = oneshot::channel();
    tokio::spawn(async move {
        let mut came = Some(came);
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
                if let Some(("traceparent", value)) = line.trim().split_once(": ") {
                    noted.lock().unwrap().push(value.to_owned());
                }
                line.clear();
            }
            if let Some(came) = came.take() {
                held.push(stream);
                came.send(()).unwrap();
                continue;
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
            stream.write_all(answer).await.unwrap();
        }
    });
    (Stubborn { port, seen }, first)
}

fn write(folder: &std::path::Path, port: u16) -> OsString {
    write_script(folder, "main", &[("stock", json!({}))]);
    let text = format!(
        r#"
[models.main]
provider = "scripted"
script = "main.jsonl"

[agents.keeper]
instructions = "Keep the stock."
model = "main"
tools = ["stock"]

[tools.stock]
kind = "http"
description = "Tells what is there."
url = "http://127.0.0.1:{port}/stock"
"#
    );
    let file = folder.join("keep.toml");
    std::fs::write(&file, text).unwrap();
    file.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_taken_up_again_is_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (server, first) = stubborn().await;
    let team = write(folder.path(), server.port);
    let data = folder.path().join("data");
    let args: [OsString; 3] = [team, "--data".into(), data.into()];
    let mut daemon = Daemon::start(&args).await;
    let body = json!({"input": "What is there?", "run": "r-1"});
    let url = format!("{}/v1/teams/keep/agents/keeper/runs?wait=false", daemon.http);
    let asked = client().post(url).body(body.to_string());
    asked.header("content-type", "application/json").send().await.unwrap();
    first.await.unwrap();
    daemon.kill().await;
    let daemon = Daemon::start(&args).await;
    let reply = ask(&daemon, "keep/agents/keeper", &body).await;
    assert_eq!(reply["status"], "completed", "{reply}");

    let trace = reply["trace_id"].as_str().unwrap();
    let all = spans(&daemon, "keep", trace, 6).await;
    assert_eq!(faults(&all), Vec::<String>::new());
    let run = roots(&all);
    let [run] = run.as_slice() else { panic!("{all:?}") };
    assert_eq!(run.name, "invoke_agent keeper");
    let events: Vec<&str> = run.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(events, [semconv::event::RESUMED]);
    assert_eq!(run.events[0].attributes.number(semconv::RESUMES), Some(1));

    // Both turns, the call, and both attempts at it, of which the first was interrupted.
    let named =
        |name: &str| -> Vec<&SpanRecord> { all.iter().filter(|span| span.name == name).collect() };
    assert_eq!((named("chat main").len(), named("execute_tool stock").len()), (2, 1));
    let mut hops = named("GET /stock");
    hops.sort_by_key(|hop| hop.attributes[semconv::ATTEMPT].as_u64());
    let [interrupted, again] = hops.as_slice() else { panic!("{hops:?}") };
    let error = interrupted.error.as_deref().unwrap();
    assert!(error.contains("restarted"), "{error}");
    assert_eq!(again.error, None);
    assert!(interrupted.start < run.events[0].at && again.start >= run.events[0].at);
    let seen: Vec<TraceContext> =
        server.seen.lock().unwrap().iter().map(|seen| seen.parse().unwrap()).collect();
    assert_eq!(seen, [interrupted.context, again.context]);
}
