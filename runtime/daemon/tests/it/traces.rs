//! `trace` and `top`, from the files of a team and at a daemon.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use journal::DataLock;

use crate::callboard::{Callboard, QUESTION, team};

#[test]
fn traces_are_listed_by_what_is_asked_and_written_as_otlp() {
    let callboard = Callboard::new();
    let file = team("quickstart.toml");
    let file = file.to_str().unwrap();
    let reply = callboard.run(&["run", file, "--json", QUESTION]).json();
    let (run, trace_id) = (reply["run"].as_str().unwrap(), reply["trace_id"].as_str().unwrap());
    let ids = |args: &[&str]| {
        let listed = callboard.run(&[&["traces", "--json"], args].concat()).json();
        let rows = listed["traces"].as_array().unwrap().iter();
        rows.map(|row| row["trace_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let cases: [(&[&str], usize); 12] = [
        (&[], 1),
        (&["--tool", "calculate"], 1),
        (&["--tool", "nothing"], 0),
        (&["--agent", "mathematician", "--tool", "calculate", "--status", "ok"], 1),
        (&["--status", "error"], 0),
        (&["--status", "running"], 0),
        (&["--run", run], 1),
        (&["--session", "none"], 0),
        (&["--min-duration", "1h"], 0),
        (&["--max-duration", "1h", "--since", "1h"], 1),
        (&["--until", "2020-01-01"], 0),
        (&["--limit", "0"], 0),
    ];
    for (args, count) in cases {
        let found = ids(args);
        assert_eq!(found.len(), count, "{args:?}");
        assert!(found.iter().all(|id| id == trace_id));
    }
    let wrong = [
        (&["trace", "--since", "yesterday"][..], "is no time"),
        (&["trace", "--min-duration", "5"], "is no time span"),
        (&["trace", run, "--agent", "lead"], "cannot be used with"),
        (&["trace", "--otlp"], "required"),
        (&["trace", "--follow"], "required"),
    ];
    for (args, part) in wrong {
        let ended = callboard.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(ended.err.contains(part), "{args:?}: {}", ended.err);
    }

    let otlp = callboard.run(&["trace", run, "--otlp"]);
    assert_eq!(otlp.out.lines().count(), 1);
    let spans = &otlp.json()["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert!(spans.as_array().unwrap().iter().all(|span| span["traceId"] == trace_id));

    // A trace whose runs are over is told once, also to whoever follows it.
    let followed = callboard.run(&["trace", run, "--follow"]);
    assert_eq!(followed.code, Some(0), "{}", followed.err);
    assert_eq!(followed.out.lines().count(), spans.as_array().unwrap().len());
    assert!(followed.out.lines().last().unwrap().starts_with("invoke_agent lead"));
    let json = callboard.run(&["trace", run, "--follow", "--json"]);
    for line in json.out.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).unwrap()["context"].is_string());
    }
}

const SLOW: &str = r#"
[team]
name = "slow"
entry = "lead"

[models.main]
provider = "scripted"
script = "slow.jsonl"

[agents.lead]
instructions = "You lead."
model = "main"
tools = ["calculate"]

[tools.calculate]
kind = "builtin"
builtin = "calculate"
"#;

#[test]
fn a_run_is_followed_while_it_is_in_work() {
    let callboard = Callboard::new();
    let file = callboard.file("slow.toml", SLOW);
    let call = serde_json::json!({
        "calls": [{"name": "calculate", "arguments": {"expression": "2+2"}}], "delay_ms": 300,
    });
    let last = serde_json::json!({"content": "four", "delay_ms": 25_000});
    callboard.file("slow.jsonl", &format!("{call}\n{last}\n"));
    let daemon = callboard.serve(&file);
    let mut asking = callboard.command(&["ask", "slow", "--run", "r1", "2+2"]).spawn().unwrap();
    let follow = |args: &[&str]| {
        let args = [&["trace", "r1", "--follow"], args].concat();
        let mut child = callboard.command(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.starts_with("chat main"), "{first}");
        (child, lines)
    };
    let (mut broken_off, _) = follow(&[]);
    let pid = broken_off.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(broken_off.wait().unwrap().code(), Some(0));
    let (mut follows, lines) = follow(&["--url", &daemon.url]);

    // It is in work, and what it does is told.
    let stats = callboard.run(&["top", "--json"]).json();
    let told = &stats["nodes"][0]["teams"][0];
    assert_eq!((&told["team"], &told["runs"]), (&"slow".into(), &1.into()), "{stats}");
    assert_eq!(told["in_work"][0]["run"], "r1");
    let running = callboard.run(&["traces", "--status", "running"]);
    assert!(running.out.contains("in work"), "{running:?}");
    for args in [&["top", "--once"][..], &["top", "--once", "--url", &daemon.url]] {
        let once = callboard.run(args);
        assert_eq!(once.code, Some(0), "{}", once.err);
        for part in ["1 node, 1 team", "slow", "runs/s"] {
            assert!(once.out.contains(part), "{part}: {}", once.out);
        }
        assert!(!once.out.contains('\u{1b}'), "{:?}", once.out);
    }

    // One whose reader has gone away ends, though the run goes on and there is nothing to write.
    let (mut unread, read) = follow(&[]);
    drop(read);
    assert_eq!(unread.wait().unwrap().code(), Some(0));
    assert!(callboard.run(&["runs", "--json"]).json()["runs"][0]["status"].is_null());
    for more in [&[][..], &["--json"]] {
        let args = [&["trace", "r1", "--follow"], more].concat();
        let mut unread = callboard.command(&args).stdout(Stdio::piped()).spawn().unwrap();
        drop(unread.stdout.take());
        assert_eq!(unread.wait().unwrap().code(), Some(0), "{args:?}");
        let runs = callboard.run(&["runs", "--json"]).json();
        assert!(runs["runs"][0]["status"].is_null(), "{args:?}: {runs}");
    }

    assert_eq!(callboard.run(&["cancel", "r1"]).code, Some(0));
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.starts_with("execute_tool calculate")), "{rest:?}");
    assert!(rest.last().unwrap().starts_with("invoke_agent lead"), "{rest:?}");
    assert!(follows.wait().unwrap().success());
    assert_eq!(asking.wait().unwrap().code(), Some(1), "it was cancelled");
    let url = daemon.url.clone();
    daemon.stop();
    for args in [&["top", "--once"][..], &["top", "--once", "--url", &url]] {
        assert_eq!(callboard.run(args).code, Some(3), "{args:?}");
    }
}

#[test]
fn a_daemon_starts_while_its_data_is_looked_at() {
    let callboard = Callboard::new();
    let file = callboard.file("slow.toml", SLOW);
    let call = serde_json::json!({
        "calls": [{"name": "calculate", "arguments": {"expression": "2+2"}}],
    });
    let last = serde_json::json!({"content": "four", "delay_ms": 600_000});
    callboard.file("slow.jsonl", &format!("{call}\n{last}\n"));
    let daemon = callboard.serve(&file);
    let mut asking = callboard.command(&["ask", "slow", "--run", "r1", "2+2"]).spawn().unwrap();
    while !callboard.run(&["trace", "r1"]).out.contains("execute_tool calculate") {}
    drop(daemon);
    assert_eq!(asking.wait().unwrap().code(), Some(3), "nobody knows what became of it");

    // Followed in the files, at a daemon, in the files and at a daemon again.
    let mut follow = callboard.command(&["trace", "r1", "--follow"]);
    let mut follows = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follows.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("chat main"));
    drop(callboard.serve(&file));
    let team = callboard.dir.path().join("data/slow");
    let is_read = || std::fs::read_to_string(team.join("lock")).unwrap().contains("look-up");
    while !is_read() || DataLock::holder(&team).unwrap().is_some() {}
    let daemon = callboard.serve(&file);
    assert_eq!(callboard.run(&["cancel", "r1"]).code, Some(0));
    assert!(lines.last().unwrap().starts_with("invoke_agent lead"));
    assert!(follows.wait().unwrap().success());
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_slow_reader_keeps_no_daemon_from_its_data() {
    let callboard = Callboard::new();
    let file = callboard.file("slow.toml", SLOW);
    // More than a pipe holds.
    let content = "much ".repeat(30_000);
    let script = serde_json::json!({"content": content}).to_string();
    callboard.file("slow.jsonl", &script);
    let reply = callboard.run(&["run", file.to_str().unwrap(), "--json", "hi"]).json();
    let session = reply["session"].as_str().unwrap();
    let mut reading =
        callboard.command(&["sessions", session]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = reading.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    let daemon = callboard.serve(&file);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.contains(content.trim_end()), "{} bytes", rest.len());
    assert!(reading.wait().unwrap().success());
    assert_eq!(daemon.stop().code, Some(0));
}
