//! `calls`: what waits for a person is listed, shown and decided about.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use crate::callboard::{Callboard, Ended, terminal};

const TEAM: &str = r#"
[models.main]
provider = "scripted"
script = "main.jsonl"

[models.till]
provider = "scripted"
script = "till.jsonl"

[agents.cashier]
instructions = "You serve."
model = "main"
tools = ["pay", "order", "post", "ask_user"]

[permissions]
allow = ["order", "post"]

[tools.pay]
kind = "model"
description = "Pays."
model = "till"
prompt = "pay {to}"
parameters = { to = "string" }
effect = "once"

[tools.order]
kind = "model"
description = "Orders."
model = "till"
prompt = "order {to}"
parameters = { to = "string" }
effect = "once"
timeout_ms = 200
on_unknown = "ask"

[tools.post]
kind = "model"
description = "Posts."
model = "till"
prompt = "order {to}"
parameters = { to = "string" }
effect = "once"
timeout_ms = 200
"#;

const MAIN: &str = r#"{"when": "E3008", "content": "It was denied."}
{"when": "PAID", "content": "It is PAID."}
{"when": "large", "content": "It is large."}
{"when": "unknown", "content": "Nobody knows."}
{"when": "blue", "calls": [{"name": "pay", "arguments": {"to": "ann"}}], "delay_ms": 1000}
{"when": "green", "calls": [{"name": "ask_user", "arguments": {"question": "Which size?"}}], "delay_ms": 1000}
{"when": "twice", "calls": [{"name": "pay", "arguments": {"to": "ann"}}, {"name": "pay", "arguments": {"to": "ann"}}]}
{"when": "choose", "calls": [{"name": "ask_user", "arguments": {"question": "Which colour?"}}]}
{"when": "pay", "calls": [{"name": "pay", "arguments": {"to": "ann"}}]}
{"when": "order", "calls": [{"name": "order", "arguments": {"to": "ann"}}]}
{"when": "post", "calls": [{"name": "post", "arguments": {"to": "ann"}}]}
"#;

const TILL: &str = r#"{"when": "pay", "content": "PAID"}
{"when": "order", "content": "late", "delay_ms": 600000}
"#;

fn shop(callboard: &Callboard) -> std::path::PathBuf {
    callboard.file("main.jsonl", MAIN);
    callboard.file("till.jsonl", TILL);
    callboard.file("shop.toml", TEAM)
}

fn spawn(callboard: &Callboard, args: &[&str], stdin: Stdio) -> Child {
    let mut command = callboard.command(args);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Ended {
    child.wait_with_output().unwrap().into()
}

/// Asks for a list until a call is open.
fn first_open(callboard: &Callboard, kind: &str) -> Value {
    loop {
        let listed = callboard.run(&["calls", "list", "--for", kind, "--json"]);
        assert_eq!(listed.code, Some(0), "{}", listed.err);
        if let Some(call) = listed.json()["calls"].get(0) {
            return call.clone();
        }
    }
}

#[test]
fn a_call_is_found_shown_and_decided_about() {
    let callboard = Callboard::new();
    let daemon = callboard.serve(&shop(&callboard));

    let asked = spawn(&callboard, &["ask", "shop", "please pay"], Stdio::null());
    let open = first_open(&callboard, "approval");
    assert_eq!((&open["team"], &open["tool"]), (&"shop".into(), &"pay".into()), "{open}");
    let key = open["call"].as_str().unwrap();
    let shown = callboard.run(&["calls", "show", key]);
    for part in ["needs leave", r#"{"to":"ann"}"#, open["digest"].as_str().unwrap()] {
        assert!(shown.out.contains(part), "{part} in {shown:?}");
    }
    let listed = callboard.run(&["calls", "list"]);
    assert!(listed.out.contains(r#"pay {"to":"ann"}"#), "{listed:?}");
    let wrong = "ab".repeat(32);
    for (args, code, part) in [
        (&["calls", "resolve", key, "--not-done"][..], 2, "E1010"),
        (&["calls", "approve", key, "--digest", &wrong], 2, "E1010"),
        (&["calls", "approve", "nothing"], 2, "E1012"),
        (&["calls", "resolve", key], 2, "--done"),
        (&["calls", "list", "--url", &daemon.url], 2, "--team"),
    ] {
        let refused = callboard.run(args);
        assert_eq!(refused.code, Some(code), "{args:?}: {refused:?}");
        assert!(refused.err.contains(part), "{args:?}: {refused:?}");
    }
    let allowed = callboard.run(&["calls", "approve", key, "--url", &daemon.url, "--team", "shop"]);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert_eq!(ended(asked).out, "It is PAID.\n");

    let asked = spawn(&callboard, &["ask", "shop", "--json", "please pay"], Stdio::null());
    let open = first_open(&callboard, "approval");
    let key = open["call"].as_str().unwrap();
    let denied = callboard.run(&["calls", "deny", key, "--reason", "not this month"]);
    assert_eq!(denied.code, Some(0), "{denied:?}");
    let reply = ended(asked).json();
    assert_eq!(reply["output"], "It was denied.");
    assert!(reply["sources"][0]["output"].as_str().unwrap().contains("not this month"), "{reply}");

    let asked = spawn(&callboard, &["ask", "shop", "please order"], Stdio::null());
    let open = first_open(&callboard, "unknown");
    let key = open["call"].as_str().unwrap();
    let resolved = callboard.run(&["calls", "resolve", key, "--done", "PAID by hand"]);
    assert_eq!(resolved.code, Some(0), "{resolved:?}");
    assert_eq!(ended(asked).out, "It is PAID.\n");
    assert_eq!(callboard.run(&["calls", "list"]).err, "no call is open\n");
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn what_is_open_is_seen_without_a_daemon_and_decided_about_with_one() {
    let callboard = Callboard::new();
    let file = shop(&callboard);
    let ran = callboard.run(&["run", file.to_str().unwrap(), "please post"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Nobody knows.\n"), "{}", ran.err);

    let open = first_open(&callboard, "unknown");
    let key = open["call"].as_str().unwrap();
    let shown = callboard.run(&["calls", "show", key]).out;
    assert!(shown.contains("may have taken effect") && shown.contains("does not wait"), "{shown}");
    let early = callboard.run(&["calls", "resolve", key, "--not-done"]);
    assert_eq!(early.code, Some(3), "{early:?}");

    let daemon = callboard.serve(&file);
    let resolved = callboard.run(&["calls", "resolve", key, "--not-done"]);
    assert_eq!(resolved.code, Some(0), "{resolved:?}");
    let again = callboard.run(&["calls", "resolve", key, "--not-done"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert_eq!(daemon.stop().code, Some(0));
    assert_eq!(callboard.run(&["calls", "list"]).err, "no call is open\n");
}

#[test]
fn leave_is_given_on_the_terminal_of_a_run() {
    let callboard = Callboard::new();
    let file = shop(&callboard);
    for (line, expected) in [("y\n", "It is PAID.\n"), ("\n", "It was denied.\n")] {
        let args = ["run", file.to_str().unwrap(), "please pay"];
        let mut child = spawn(&callboard, &args, Stdio::piped());
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        let ended = ended(child);
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), expected), "{}", ended.err);
        assert!(ended.err.contains(r#"allow pay {"to":"ann"}?"#), "{}", ended.err);
    }
}

#[test]
fn what_is_refused_on_the_terminal_is_asked_for_again() {
    let callboard = Callboard::new();
    let file = shop(&callboard);
    // The second of two like calls cannot be allowed any more, only denied.
    let args = ["run", file.to_str().unwrap(), "--json", "please twice"];
    let mut child = spawn(&callboard, &args, Stdio::piped());
    child.stdin.take().unwrap().write_all(b"n\ny\nn\n").unwrap();
    let ended = ended(child);
    assert!(ended.err.contains("cannot be allowed"), "{}", ended.err);
    let reply = ended.json();
    assert_eq!(reply["output"], "It was denied.", "{reply}");
    for source in reply["sources"].as_array().unwrap() {
        assert!(source["output"].as_str().unwrap().contains("a person denied"), "{reply}");
    }
    assert_eq!(reply["sources"].as_array().unwrap().len(), 2, "{reply}");
}

#[test]
fn at_the_end_of_stdin_a_run_stays_open_for_a_daemon() {
    const LEAD: &str = r#"
[team]
entry = "lead"

[models.lead]
provider = "scripted"
script = "lead.jsonl"

[agents.lead]
instructions = "You lead."
model = "lead"
agents = ["cashier"]
"#;
    let callboard = Callboard::new();
    shop(&callboard);
    let call =
        r#"{"when": "please", "calls": [{"name": "cashier", "arguments": {"task": "pay"}}]}"#;
    callboard.file("lead.jsonl", call);
    let crew = TEAM.replace("[agents.cashier]", "[agents.cashier]\ndescription = \"Pays.\"");
    let crew = callboard.file("crew.toml", &format!("{LEAD}{crew}"));
    for (file, team) in [(shop(&callboard), "shop"), (crew, "crew")] {
        let ran = callboard.run(&["run", file.to_str().unwrap(), "please pay"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{}", ran.err);
        assert!(ran.err.contains("the run stays open; start `callboard serve"), "{}", ran.err);
        let open = first_open(&callboard, "approval");
        assert!(ran.err.contains(&format!("calls approve {}", open["call"].as_str().unwrap())));
        assert_eq!(open["team"], team);
        let daemon = callboard.serve(&file);
        let denied = callboard.run(&["calls", "deny", open["call"].as_str().unwrap()]);
        assert_eq!(denied.code, Some(0), "{denied:?}");
        assert_eq!(daemon.stop().code, Some(0));
    }
}

/// Reads what is told on stderr until it names the way to give leave, and returns the call.
fn told_of(err: &mut BufReader<ChildStderr>) -> String {
    let mut told = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(err.read_line(&mut line).unwrap(), 0, "{told}");
        told.push_str(&line);
        if let Some(way) = line.trim().strip_prefix("callboard calls approve ") {
            assert!(told.contains("cashier waits for leave: "), "{told}");
            return way.strip_suffix(" --team shop").unwrap().to_owned();
        }
    }
}

#[test]
fn who_asks_is_told_what_the_run_waits_for_and_how_to_ask_again() {
    let callboard = Callboard::new();
    let shop = shop(&callboard);
    for ends in ["daemon", "client"] {
        let mut daemon = callboard.serve(&shop);
        let mut asked = spawn(&callboard, &["ask", "shop", "please pay"], Stdio::null());
        let mut err = BufReader::new(asked.stderr.take().unwrap());
        told_of(&mut err);
        if ends == "daemon" {
            assert_eq!(daemon.stop().code, Some(0));
            daemon = callboard.serve(&shop);
        } else {
            let pid = asked.id().to_string();
            assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        }
        let mut told = String::new();
        err.read_to_string(&mut told).unwrap();
        assert_eq!(asked.wait().unwrap().code(), Some(3), "{ends}: {told}");
        let (_, rest) = told.split_once("may go on: the same command with `--run ").unwrap();
        let (run, rest) = rest.split_once('`').unwrap();
        let end = format!("`callboard cancel {run} --team shop` ends it");
        assert!(rest.contains(&end), "{ends}: {told}");

        let args = ["ask", "shop", "--run", run, "please pay"];
        let mut asked = spawn(&callboard, &args, Stdio::null());
        let key = told_of(&mut BufReader::new(asked.stderr.take().unwrap()));
        assert_eq!(callboard.run(&["calls", "approve", &key]).code, Some(0));
        assert_eq!(ended(asked).out, "It is PAID.\n", "{ends}");
        assert_eq!(callboard.run(&["calls", "list"]).err, "no call is open\n");
        assert_eq!(daemon.stop().code, Some(0));
    }
}

#[test]
fn nothing_that_was_typed_before_it_was_asked_for_is_an_answer() {
    let callboard = Callboard::new();
    let file = shop(&callboard);
    // Short, since it stands at the end of a line that is cut the more the longer the call took.
    let denied = ["blue", "y", "bob", "a person denied this call: bob", "It was denied.\n"];
    let answered = ["green", "small", "large", "Which size?", "It is large.\n"];
    for case in [denied, answered] {
        typed_early(&callboard, &file, case);
    }
}

/// Answers a question, types the next answer too early and then another, which counts.
fn typed_early(callboard: &Callboard, file: &Path, case: [&str; 5]) {
    let [first, early, then, part, output] = case;
    let (mut keys, stdin) = terminal();
    // Typed into the shell, or while a model thinks.
    keys.write_all(b"y\n").unwrap();
    let args = ["run", file.to_str().unwrap(), "choose"];
    let mut child = spawn(callboard, &args, stdin.into());
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut told = String::new();
    let mut until = |part: &str| {
        while !told.contains(part) {
            assert_ne!(err.read_line(&mut told).unwrap(), 0, "{told}");
        }
        std::mem::take(&mut told)
    };
    let before = until("? Which colour?");
    assert!(before.contains("what was typed before anything was asked is dropped"), "{before}");
    keys.write_all(format!("{first}\n{early}\n").as_bytes()).unwrap();
    until(&format!("{early:?} was typed before this was asked, and is dropped"));
    keys.write_all(format!("{then}\n").as_bytes()).unwrap();
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert!(rest.contains(part), "{rest}");
    assert_eq!(ended(child).out, output, "{rest}");
}
