//! What traces hold of what is said, by the levels of the team file.

use std::collections::BTreeSet;
use std::ffi::OsString;

use serde_json::{Value, json};
use tests::daemon::Daemon;
use wire::{SpanRecord, semconv};

use crate::conventions::faults;
use crate::shops::{ask, client, spans, write_script};

/// What is said in the run, and would be seen wherever it is held.
const INSTRUCTIONS: &str = "Think of elephants.";
const INPUT: &str = "What is 12 times 12, and who holds sk-0123456789abcdefghij?";
const FORMULA: &str = "12 * 12";

fn write(folder: &std::path::Path, levels: &str, capture: &str) -> OsString {
    write_script(folder, "main", &[("sums", json!({"expression": FORMULA}))]);
    let text = format!(
        r#"
[models.main]
provider = "scripted"
script = "main.jsonl"

[agents.clerk]
instructions = "{INSTRUCTIONS}"
model = "main"
tools = ["sums"]

[tools.sums]
kind = "builtin"
builtin = "calculate"
{capture}

[trace]
{levels}
"#
    );
    let file = folder.join("count.toml");
    std::fs::write(&file, text).unwrap();
    file.into()
}

/// Starts a daemon and has it do the run.
async fn run(folder: &std::path::Path, levels: &str, capture: &str) -> (Daemon, Value) {
    let team = write(folder, levels, capture);
    let args: [OsString; 3] = [team, "--data".into(), folder.join("data").into()];
    let daemon = Daemon::start(&args).await;
    let reply = ask(&daemon, "count/agents/clerk", &json!({"input": INPUT})).await;
    assert_eq!(reply["status"], "completed", "{reply}");
    (daemon, reply)
}

async fn traced(levels: &str, capture: &str) -> Vec<SpanRecord> {
    let folder = tempfile::tempdir().unwrap();
    let (mut daemon, reply) = run(folder.path(), levels, capture).await;
    let spans = spans(&daemon, "count", reply["trace_id"].as_str().unwrap(), 4).await;
    assert_eq!(daemon.terminate().await, Some(0));
    assert_eq!(faults(&spans), Vec::<String>::new());
    spans
}

/// Returns the content attributes, or their sizes, of all spans of a kind.
fn held(spans: &[SpanRecord], operation: &str, sizes: bool) -> BTreeSet<&'static str> {
    let names = semconv::CONTENT.iter().map(|(name, size)| if sizes { *size } else { *name });
    let of_kind: Vec<&SpanRecord> =
        spans.iter().filter(|span| span.name.starts_with(operation)).collect();
    assert!(!of_kind.is_empty());
    names.filter(|name| of_kind.iter().any(|span| span.attributes.contains(name))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traces_hold_what_the_team_file_says() {
    let run = [semconv::SYSTEM_INSTRUCTIONS, semconv::INPUT_MESSAGES, semconv::OUTPUT_MESSAGES];
    let run_sizes = [semconv::INSTRUCTIONS_BYTES, semconv::INPUT_BYTES, semconv::OUTPUT_BYTES];
    let turn = [semconv::INPUT_MESSAGES, semconv::OUTPUT_MESSAGES];
    let turn_sizes = [semconv::INPUT_BYTES, semconv::OUTPUT_BYTES];
    let call = [semconv::TOOL_CALL_ARGUMENTS, semconv::TOOL_CALL_RESULT];
    let call_sizes = [semconv::ARGUMENTS_BYTES, semconv::RESULT_BYTES];
    // The levels, that of the tool, whether runs and turns hold content and sizes, and whether
    // calls do; what is seen of words in the trace, and of the credential.
    let cases = [
        ("store = 'none'", "", [false, false], [false, false], [false, false, false]),
        ("store = 'metadata'", "", [false, true], [false, true], [false, false, false]),
        ("", "", [true, true], [true, true], [true, true, false]),
        (
            "store = 'redacted'",
            "capture = 'none'",
            [true, true],
            [false, false],
            [true, false, false],
        ),
        (
            "store = 'full'",
            "capture = 'metadata'",
            [true, true],
            [false, true],
            [true, false, true],
        ),
        ("store = 'full'", "", [true, true], [true, true], [true, true, true]),
    ];
    for (levels, capture, of_runs, of_calls, [words, formula, credential]) in cases {
        let spans = traced(levels, capture).await;
        let told = format!("{levels} {capture}");
        let all = |names: &[&'static str], held: bool| -> BTreeSet<&'static str> {
            names.iter().copied().filter(|_| held).collect()
        };
        for (operation, contents, sizes, [content, size]) in [
            ("invoke_agent", &run[..], &run_sizes[..], of_runs),
            ("chat", &turn[..], &turn_sizes[..], of_runs),
            ("execute_tool", &call[..], &call_sizes[..], of_calls),
        ] {
            assert_eq!(
                held(&spans, operation, false),
                all(contents, content),
                "{told} {operation}"
            );
            assert_eq!(held(&spans, operation, true), all(sizes, size), "{told} {operation}");
        }
        let text = serde_json::to_string(&spans).unwrap();
        assert_eq!(text.contains("elephants"), words, "{told}");
        assert_eq!(text.contains(FORMULA), formula, "{told}");
        assert_eq!(text.contains("sk-0123456789"), credential, "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_team_without_traces_knows_what_its_models_used() {
    let folder = tempfile::tempdir().unwrap();
    let (mut daemon, _) = run(folder.path(), "enabled = false", "").await;
    let get = async |what: &str| {
        let url = format!("{}/v1/teams/count/{what}", daemon.http);
        client().get(url).send().await.unwrap().json::<Value>().await.unwrap()
    };
    assert_eq!(get("traces").await["traces"], json!([]));
    let usage = get("usage").await;
    let [row] = usage["usage"].as_array().unwrap().as_slice() else { panic!("{usage}") };
    assert_eq!((&row["agent"], &row["model"]), (&json!("clerk"), &json!("main")));
    assert_eq!(row["turns"], 2, "{usage}");
    assert_eq!(daemon.terminate().await, Some(0));
}

/// The input of a turn is what is new since the one before, never the whole conversation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_shown_with_what_is_new_to_it() {
    let spans = traced("store = 'full'", "").await;
    let messages = |span: &SpanRecord, name: &str| -> Value {
        serde_json::from_str(span.attributes[name].as_str().unwrap()).unwrap()
    };
    let mut turns: Vec<&SpanRecord> =
        spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
    turns.sort_by_key(|turn| turn.start);
    let [first, second] = turns.as_slice() else { panic!("{turns:?}") };
    let user = json!([{"role": "user", "parts": [{"type": "text", "content": INPUT}]}]);
    assert_eq!(messages(first, semconv::INPUT_MESSAGES), user);
    let called = messages(first, semconv::OUTPUT_MESSAGES);
    let part = &called[0]["parts"][0];
    assert_eq!((&part["type"], &part["name"]), (&json!("tool_call"), &json!("sums")));
    assert_eq!(part["arguments"], json!({"expression": FORMULA}));
    assert_eq!(called[0]["finish_reason"], "tool_calls");
    let told = messages(second, semconv::INPUT_MESSAGES);
    let result = json!([{"role": "tool", "parts": [
        {"type": "tool_call_response", "id": part["id"], "result": "144"}]}]);
    assert_eq!(told, result);
}
