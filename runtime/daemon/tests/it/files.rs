//! Commands that need no node: check, tools, explain, schema.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;

use crate::callboard::{Callboard, Ended, QUESTION, team};

#[test]
fn shipped_teams_are_sound() {
    let callboard = Callboard::new();
    let checked = callboard.run(&["check", team("quickstart.toml").to_str().unwrap()]);
    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""));
    assert!(checked.out.contains("quickstart.toml: team quickstart, 3 agents (lead, math"));
}

#[test]
fn a_faulty_team_is_reported_with_its_line() {
    let callboard = Callboard::new();
    let good = team("quickstart.toml");
    let bad = callboard.file("bad.toml", "[team]\nname = \"bad\"\nentri = \"x\"\n");
    let args = ["check", bad.to_str().unwrap(), good.to_str().unwrap()];
    let checked = callboard.run(&args);
    assert_eq!(checked.code, Some(2));
    for part in ["E6001", "bad.toml:3:1", "entri", "───"] {
        assert!(checked.err.contains(part), "{part} in {}", checked.err);
    }
    assert!(checked.out.contains("quickstart"), "the good one is told of as well");

    let json = callboard.run(&["check", "--json", bad.to_str().unwrap()]).json();
    assert_eq!(json["ok"], false);
    assert_eq!(json["files"][0]["faults"][0]["line"], 3, "{json}");

    for verb in ["run", "serve"] {
        let ended = callboard.run(&[verb, bad.to_str().unwrap(), "hi"]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{verb}");
        assert!(ended.err.contains("bad.toml:3:1"), "{}", ended.err);
    }
}

#[test]
fn codes_are_explained() {
    let callboard = Callboard::new();
    let page = callboard.run(&["explain", "e5001"]);
    assert_eq!(page.code, Some(0));
    assert!(page.out.starts_with("# E5001: "), "{}", page.out);
    let all = callboard.run(&["explain"]);
    assert!(all.out.contains("\nE5001  data directory in use\n"), "{}", all.out);
    let unknown = callboard.run(&["explain", "E5000"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("did you mean E5001?"), "{}", unknown.err);
}

#[test]
fn the_schema_is_json_and_offers_are_shown() {
    let callboard = Callboard::new();
    let schema = callboard.run(&["schema"]).json();
    assert!(schema["properties"]["agents"].is_object(), "{schema}");

    let file = team("quickstart.toml");
    let file = file.to_str().unwrap();
    let shown = callboard.run(&["tools", file, "--agent", "mathematician"]);
    assert!(shown.out.starts_with("mathematician  thinker thinks, actor acts"), "{}", shown.out);
    assert!(!shown.out.contains("researcher"), "{}", shown.out);
    let offered = callboard.run(&["tools", file, "--json"]).json();
    assert!(offered["lead"]["offered"].to_string().contains("respond_to_user"), "{offered}");
    let system = |role: &str| offered["lead"]["system"][role].as_str().unwrap_or_default();
    assert!(system("thinker").contains("You only say what comes next"), "{offered}");
    assert!(system("actor").contains("A call is one JSON object"), "{offered}");
    assert_eq!(callboard.run(&["tools", file, "--agent", "nobody"]).code, Some(2));
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let callboard = Callboard::new();
    let file = team("quickstart.toml");
    let file = file.to_str().unwrap();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for args in [
        &["schema"][..],
        &["explain"],
        &["check", file],
        &["tools", file],
        &["run", file, QUESTION],
        &["trace", "--json"],
        &["runs"],
    ] {
        let child = callboard.command(args).stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
        let ended: Ended = child.wait_with_output().unwrap().into();
        assert_eq!(ended.code, Some(3), "{args:?}: {}", ended.err);
        let told = "error[E5003]: write the answer to stdout: No space left on device";
        assert!(ended.err.contains(told), "{args:?}: {}", ended.err);
    }
    // A reader that has gone away has had what it wanted.
    let mut child = callboard.command(&["schema"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_message_on_stdin_is_measured_before_it_is_read_as_text() {
    let callboard = Callboard::new();
    let args = ["ask", "--url", "http://127.0.0.1:1", "team/agent", "-"];
    let cases = [
        ("é".repeat(600_000).into_bytes(), 2, "error[E1002]"),
        ("é".repeat(1 << 19).into_bytes(), 3, "error[E1008]"),
        (b"a\xff".to_vec(), 2, "error[E1001]"),
    ];
    for (message, code, part) in cases {
        let mut command = callboard.command(&args);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It reads no more than it takes.
        child.stdin.take().unwrap().write_all(&message).unwrap_or_default();
        let ended: Ended = child.wait_with_output().unwrap().into();
        assert_eq!(ended.code, Some(code), "{}", ended.err);
        assert!(ended.err.contains(part), "{}", ended.err);
    }
    let forever = ["ask", "--timeout", "18446744073709551615", "team/agent", "hi"];
    let ended = callboard.run(&forever);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("not in 0..=604800"), "{}", ended.err);
}

#[test]
fn what_a_provider_does_not_know_is_noted() {
    let callboard = Callboard::new();
    let team = "[models.m]\nprovider = 'ollama'\nmodel = 'x'\ndialect = 'schema'\n\
        [agents.a]\ninstructions = 'Help.'\nmodel = 'm'\ntools = ['t']\n\
        [tools.t]\nkind = 'http'\ndescription = 'd'\nurl = 'http://h/{city}'\n[tools.t.parameters]\n\
        type = 'object'\nproperties.city = { type = 'string', pattern = 'x' }\n";
    let file = callboard.file("t.toml", team);
    let file = file.to_str().unwrap();
    let told = "note: tool t: provider ollama does not hold model m to \
                parameters/properties/city/pattern; ";
    for verb in ["check", "tools"] {
        let ended = callboard.run(&[verb, file]);
        assert_eq!(ended.code, Some(0), "{verb}");
        assert!(ended.err.starts_with(told) && !ended.out.contains("note"), "{ended:?}");
        let json = callboard.run(&[verb, file, "--json"]).json();
        let notes = if verb == "check" { &json["files"][0]["notes"] } else { &json["a"]["notes"] };
        assert_eq!(notes[0]["places"][0], "parameters/properties/city/pattern", "{json}");
    }
}
