//! `run` and the look-ups after it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;

use crate::callboard::{Callboard, Ended, QUESTION, team};

#[test]
fn the_quickstart_answers_and_leaves_one_trace() {
    let callboard = Callboard::new();
    let file = team("quickstart.toml");
    let file = file.to_str().unwrap();
    let ran = callboard.run(&["run", file, QUESTION]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 1, "the answer alone: {}", ran.out);
    assert!(ran.out.contains("2.16524"), "{}", ran.out);
    let chain = [
        "lead → researcher {\"task\":",
        "  researcher → search_internet {\"query\":",
        "lead ← researcher Leonardo",
        "lead → mathematician {\"task\":",
        "  mathematician ← calculate 2.1652378",
        "completed in ",
    ];
    let mut rest = ran.err.as_str();
    for part in chain {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is not in {}", ran.err));
        rest = rest.split_at(at).1;
    }
    assert!(!ran.err.contains('\u{1b}'), "no colours in a pipe");

    let list = callboard.run(&["trace", "--json"]).json();
    let trace = &list["traces"][0];
    assert_eq!((&trace["team"], &trace["status"]), (&"quickstart".into(), &"completed".into()));
    let id = trace["trace_id"].as_str().unwrap();
    assert!(ran.err.contains(&format!("callboard trace {}", id.split_at(8).0)), "{}", ran.err);
    for name in [id, id.split_at(6).0, trace["run"].as_str().unwrap()] {
        let drawn = callboard.run(&["trace", name]).out;
        let tree = [
            "\ninvoke_agent lead ",
            "\n├ chat thinker (thinker) ",
            "\n│ └ invoke_agent researcher ",
            "\n│   ├ execute_tool search_internet ",
            "\n│   ├ execute_tool calculate ",
        ];
        for part in tree {
            assert!(drawn.contains(part), "{part:?} is not in {drawn}");
        }
    }
    assert_eq!(callboard.run(&["trace", "ffffffff"]).code, Some(2));
    let runs = callboard.run(&["runs", "--limit", "1"]).out;
    assert_eq!(runs.lines().count(), 2, "a title and a row: {runs}");
}

#[test]
fn a_session_goes_on_and_can_be_read() {
    let callboard = Callboard::new();
    let file = team("quickstart.toml");
    let file = file.to_str().unwrap();
    for message in ["Tell me a joke", "Another joke"] {
        let ran = callboard.run(&["run", file, "--session", "s1", "--json", message]);
        assert_eq!((ran.code, ran.json()["session"].as_str()), (Some(0), Some("s1")));
    }
    let shown = callboard.run(&["sessions", "s1"]).out;
    let (first, second) = (shown.find("> Tell me a joke").unwrap(), shown.find("> Another joke"));
    assert!(second > Some(first), "{shown}");
    assert!(shown.contains("\n  What did the actor say"), "{shown}");
    assert_eq!(callboard.run(&["sessions", "s2"]).code, Some(2));
    for (words, told) in
        [(&["memory"][..], "no facts yet\n"), (&["memory", "tea"], "no fact fits\n")]
    {
        let looked = callboard.run(words);
        assert_eq!((looked.out.as_str(), looked.err.as_str()), ("", told), "{words:?}");
    }

    let file = ["--team", "quickstart"];
    for verb in ["verify", "rebuild"] {
        let ended = callboard.run(&["store", verb, file[0], file[1]]);
        assert_eq!(ended.code, Some(0), "{verb}: {ended:?}");
    }
    assert_eq!(callboard.run(&["sessions", "s1"]).out, shown, "after the rebuild");
    let file = team("quickstart.toml");
    let compacted = callboard.run(&["store", "compact", file.to_str().unwrap()]);
    assert_eq!(compacted.code, Some(0), "{compacted:?}");
    assert!(compacted.out.contains("0 sessions shortened, 0 forgotten"), "{compacted:?}");
    assert_eq!(callboard.run(&["sessions", "s1"]).out, shown, "what is young is kept");
}

#[test]
fn what_cannot_be_asked_is_refused_before_anything_is_opened() {
    let callboard = Callboard::new();
    let file = team("quickstart.toml");
    let ended = callboard.run(&["run", file.to_str().unwrap(), "--agent", "nobody", "hi"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    assert!(
        ended.err.starts_with("error[E1003]: team quickstart has no agent nobody; it has lead")
    );
    assert!(ended.err.ends_with("help: callboard explain E1003\n"), "{}", ended.err);
    assert!(!callboard.dir.path().join("data").exists());
}

#[test]
fn a_question_is_answered_from_stdin() {
    let callboard = Callboard::new();
    let replies = "{\"when\": \"blue\", \"content\": \"You chose well.\"}\n{\"when\": \"\", \"calls\": \
                   [{\"name\": \"ask_user\", \"arguments\": {\"question\": \"Which colour?\"}}]}\n";
    callboard.file("replies.jsonl", replies);
    let file = callboard.file(
        "asker.toml",
        "[models.m]\nprovider = \"scripted\"\nscript = \"replies.jsonl\"\n[agents.lead]\n\
         instructions = \"Ask.\"\nactor = \"m\"\ntools = [\"ask_user\"]\n",
    );
    let file = file.to_str().unwrap();
    let mut child = callboard
        .command(&["run", file, "choose"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"blue\n").unwrap();
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "You chose well.\n"), "{}", ended.err);

    let ended = callboard.run(&["run", file, "choose"]);
    assert_eq!(ended.code, Some(3), "nobody answers: {}", ended.err);
    assert!(ended.err.contains(&format!("start `callboard serve {file}`")), "{}", ended.err);
    let (_, way) = ended.err.split_once("\n  callboard answer ").unwrap();
    let (run, way) = way.trim().split_once(" TEXT ").unwrap();
    let daemon = callboard.serve(Path::new(file));
    let way: Vec<&str> = ["answer", run, "blue"].into_iter().chain(way.split(' ')).collect();
    assert_eq!(callboard.run(&way).code, Some(0), "{way:?}");
    let ended = callboard.run(&["ask", "asker", "--run", run, "choose"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "You chose well.\n"), "{}", ended.err);
    assert_eq!(daemon.stop().code, Some(0));
}

/// Reads a request for a turn, and answers with a call of a tool that is not there.
fn answer(connection: &TcpStream) {
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let body = r#"{"choices": [{"message": {"content": null, "tool_calls": [{"id": "a",
        "function": {"name": "none", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let mut connection = connection;
    write!(connection, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
}

#[test]
fn runs_that_were_left_unfinished_are_none_of_the_next_one() {
    let callboard = Callboard::new();
    callboard.file("replies.jsonl", "{\"content\": \"Hello.\"}\n");
    // It answers the first request and no other.
    let model = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = callboard.file(
        "greeter.toml",
        &format!(
            "[team]\nentry = \"lead\"\n[models.m]\nprovider = \"scripted\"\nscript = \
             \"replies.jsonl\"\n[models.slow]\nprovider = \"openai\"\nmodel = \"m\"\nstream = false\n\
             base_url = \"http://{}/v1\"\n[agents.lead]\ninstructions = \"Greet.\"\nmodel = \"m\"\n\
             [agents.slow]\ninstructions = \"Think.\"\nmodel = \"slow\"\n",
            model.local_addr().unwrap()
        ),
    );
    let name = file.to_str().unwrap();
    let mut long = callboard
        .command(&["run", name, "--agent", "slow", "think"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A turn is asked for while its run is being written down; a second one comes after that.
    answer(&model.accept().unwrap().0);
    let asked = model.accept().unwrap();
    long.kill().unwrap();
    long.wait().unwrap();
    drop(asked);
    model.set_nonblocking(true).unwrap();
    for _ in 0..12 {
        let ran = callboard.run(&["run", name, "hi"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Hello.\n"), "{}", ran.err);
        let note = format!("1 unfinished run stays as it is; `callboard serve {name}` goes on");
        assert!(ran.err.contains(&note), "{}", ran.err);
        assert!(model.accept().is_err(), "the run is not taken up");
    }
    model.set_nonblocking(false).unwrap();
    let daemon = callboard.serve(&file);
    assert!(daemon.said.contains("session taken up again"), "{}", daemon.said);
    model.accept().unwrap();
}

#[test]
fn what_a_model_said_cannot_steer_the_terminal() {
    let callboard = Callboard::new();
    let call = r#""calls": [{"name": "calculate", "arguments": {"expression": "1"}}]"#;
    callboard.file(
        "replies.jsonl",
        &format!(
            "{{\"when\": \"think\", \"content\": \"so\\u001b[2J\\u202e far\", {call}}}\n\
             {{\"when\": \"\", \"content\": \"no\\u001b[2J\\u202e JSON\"}}\n"
        ),
    );
    let cases = [
        ("native", "think", "error[E4001]", "It said last:\nso[2J far\n"),
        ("json", "act", "error[E2004]", "no[2J JSON"),
    ];
    for (dialect, message, code, said) in cases {
        let file = callboard.file(
            "speaker.toml",
            &format!(
                "[models.m]\nprovider = \"scripted\"\nscript = \"replies.jsonl\"\n\
                 dialect = \"{dialect}\"\n[agents.lead]\ninstructions = \"Speak.\"\nactor = \"m\"\n\
                 tools = [\"calculate\"]\nlimits.steps_max = 1\n"
            ),
        );
        let ended = callboard.run(&["run", file.to_str().unwrap(), message]);
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        for part in [code, said] {
            assert!(ended.err.contains(part), "{part:?} is not in {:?}", ended.err);
        }
        assert!(!ended.err.contains(['\u{1b}', '\u{202e}']), "{:?}", ended.err);
    }
}
