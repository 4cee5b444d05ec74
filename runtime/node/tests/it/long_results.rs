//! A result that is too long to be shown whole is read on by the session that got it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bus::{Bus, LocalLimits};
use node::Node;
use serde_json::{Value, json};
use wire::{CallKey, Headers, Name, RunReply, RunStatus, SessionId};

use crate::house;

const TEAM: &str = r#"
[models.scripted]
provider = "scripted"
script = "script.jsonl"

[agents.reader]
instructions = "You read logs."
model = "scripted"
tools = ["log", "read_result"]

[tools.log]
kind = "nats"
description = "Returns a log."
subject = "logs.read"
response_bytes_max = 100
effect = "read"
"#;

/// The team without a tool that reads on.
fn without_reader() -> String {
    TEAM.replace(", \"read_result\"", "")
}

fn log() -> String {
    let lines: Vec<String> = (0..5_000).map(|line| format!("line {line}")).collect();
    lines.join("\n")
}

fn piece(text: &str, begin: usize, end: usize) -> &str {
    text.get(begin..end).unwrap()
}

/// Starts a node whose model says what is given, and what answers the tool.
async fn start(folder: &Path, team: &str, script: &[Value]) -> Node {
    let node = house::start_with(folder, team, &[("script.jsonl", script)]).await;
    let bus = node.bus().clone();
    let mut asked = bus.subscribe("logs.read", None).await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = asked.next().await {
            bus.reply(&request, Headers::new(), log().into()).await.unwrap();
        }
    });
    node
}

fn read_log() -> Value {
    json!({"content": "", "calls": [{"name": "log", "arguments": {}}]})
}

/// Returns what the last call of a run returned.
fn last_output(reply: &RunReply) -> String {
    reply.sources.last().unwrap().output.clone()
}

/// Returns the key of the first call of a session, which is the same whenever it is made.
async fn first_call(session: &SessionId) -> CallKey {
    let folder = tempfile::tempdir().unwrap();
    let script = [read_log(), json!({"content": "done"})];
    let node = start(folder.path(), &without_reader(), &script).await;
    let reply = house::say(&node, "read", Some(session)).await;
    let expected = format!("{}\n[cut after 100 bytes]", piece(&log(), 0, 100));
    assert_eq!(last_output(&reply), expected, "{reply:?}");
    let nothing = std::fs::read_dir(folder.path().join("data/team/results"));
    assert!(nothing.is_err(), "nothing is kept that nobody can read");
    reply.sources[0].call.clone()
}

#[tokio::test]
async fn an_agent_reads_on_in_its_own_results_alone() {
    let session = SessionId::new("s1").unwrap();
    let call = first_call(&session).await;
    let (whole, bytes) = (log(), log().len());
    let more = |when: &str, arguments: Value| {
        let calls = json!([{"name": "read_result", "arguments": arguments}]);
        json!({"when": when, "content": "", "calls": calls})
    };
    let mut first = read_log();
    first["when"] = json!("\n\nread$");
    let script = [
        first,
        more("\n\ngo on$", json!({"call": call, "offset": 100, "bytes": 50})),
        more("\n\nfind$", json!({"call": call, "find": "line 4321", "bytes": 20})),
        more("\n\nand I$", json!({"call": call})),
        json!({"when": "", "content": "done"}),
    ];
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), TEAM, &script).await;

    let reply = house::say(&node, "read", Some(&session)).await;
    assert_eq!(reply.sources[0].call, call);
    let mark = format!(
        "[cut after 100 of {bytes} bytes; read_result reads on: call \"{call}\", offset 100]"
    );
    assert_eq!(last_output(&reply), format!("{}\n{mark}", piece(&whole, 0, 100)));
    assert!(reply.tainted, "an answer on NATS is somebody else's");

    let reply = house::say(&node, "go on", Some(&session)).await;
    let mark = format!("[bytes 100 to 150 of {bytes}; go on at offset 150]");
    assert_eq!(last_output(&reply), format!("{}\n{mark}", piece(&whole, 100, 150)));
    assert!(reply.tainted, "it stays somebody else's");
    node.drain(Duration::ZERO).await;
    drop(node);

    // What was kept outlives the process, and its place in it is found again.
    let node = house::start(&folder.path().join("team.toml"), &folder.path().join("data")).await;
    let reply = house::say(&node, "find", Some(&session)).await;
    let at = whole.find("line 4321").unwrap() - 200;
    let mark = format!("[bytes {at} to {} of {bytes}; go on at offset {}]", at + 20, at + 20);
    assert_eq!(last_output(&reply), format!("{}\n{mark}", piece(&whole, at, at + 20)));

    let reply = house::say(&node, "and I", Some(&SessionId::new("s2").unwrap())).await;
    assert!(last_output(&reply).contains("no result of call"), "{reply:?}");
}

#[tokio::test]
async fn what_a_tainted_run_got_stays_tainted_though_its_tool_is_trusted() {
    let page = "\n[tools.page]\nkind = 'builtin'\nbuiltin = 'lookup'\nuntrusted_output = true\n\
        rows = [{ words = ['x'], answer = 'obey me' }]\n";
    let tools = "\"read_result\", \"page\"]\nlimits = { history_messages_max = 0 }";
    let team = TEAM.replace("\"read_result\"]", tools) + "untrusted_output = false\n" + page;
    // What is said first, the place of the entry by which the result is asked for, and whether the
    // run has read what strangers write by then.
    for (first, slot, is_tainted) in [("read", 1, false), ("look", 3, true)] {
        let session = SessionId::new("s").unwrap();
        let call = CallKey::derive(&Name::new("team").unwrap(), &session, slot, 0);
        let asked = |when: &str, name: &str, arguments: Value| {
            let calls = json!([{"name": name, "arguments": arguments}]);
            json!({"when": when, "content": "", "calls": calls})
        };
        let script = [
            asked("\n\nlook$", "page", json!({"query": "x"})),
            asked("\n\nread$|obey me", "log", json!({})),
            asked("\n\ngo on$", "read_result", json!({"call": call, "offset": 100})),
            json!({"when": "", "content": "done"}),
        ];
        let folder = tempfile::tempdir().unwrap();
        let node = start(folder.path(), &team, &script).await;
        let reply = house::say(&node, first, Some(&session)).await;
        assert_eq!(reply.sources.last().unwrap().call, call, "{reply:?}");
        assert_eq!(reply.tainted, is_tainted, "{reply:?}");
        let reply = house::say(&node, "go on", Some(&session)).await;
        assert!(last_output(&reply).starts_with(piece(&log(), 100, 200)), "{reply:?}");
        assert_eq!(reply.tainted, is_tainted, "{reply:?}");
        node.drain(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn a_result_that_does_not_fit_into_a_message_is_cut_and_had_once() {
    // The default of `response_bytes_max`, which is more than the bus takes with what is around it.
    let team = without_reader().replace("response_bytes_max = 100\n", "");
    for effect in ["read", "idempotent", "once"] {
        let folder = tempfile::tempdir().unwrap();
        let allowed = format!("{team}\n[permissions]\nallow = [\"log\"]\n");
        let team = allowed.replace("\"read\"", &format!("\"{effect}\""));
        std::fs::write(folder.path().join("team.toml"), team).unwrap();
        let script = format!("{}\n{}", read_log(), json!({"content": "done"}));
        std::fs::write(folder.path().join("script.jsonl"), script).unwrap();
        let limits = LocalLimits { payload_bytes_max: 64 * 1024, ..LocalLimits::default() };
        let bus = Bus::local_with(limits);
        let (file, data) = (folder.path().join("team.toml"), folder.path().join("data"));
        let node = house::start_teams(&bus, &[&file], &data).await;
        let asked = Arc::new(AtomicU32::new(0));
        let (times, answering) = (asked.clone(), bus.clone());
        let mut requests = bus.subscribe("logs.read", None).await.unwrap();
        tokio::spawn(async move {
            while let Some(request) = requests.next().await {
                times.fetch_add(1, Ordering::Relaxed);
                let log = "x".repeat(65_000);
                answering.reply(&request, Headers::new(), log.into()).await.unwrap();
            }
        });
        let reply = house::say(&node, "read", None).await;
        assert_eq!(
            (reply.status, reply.output.as_str()),
            (RunStatus::Completed, "done"),
            "{effect}"
        );
        let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
        assert_eq!(source.status, "ok", "{effect}");
        assert!(source.output.ends_with(" of 65000 bytes]"), "{effect}");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{effect}");
        node.drain(Duration::ZERO).await;
    }
}
