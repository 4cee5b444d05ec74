//! Teams with an MCP server: what it lists, and what it asks people.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::callboard::{Callboard, Ended};

/// Writes a team whose agent has a person asked for a size and a colour.
fn asking(callboard: &Callboard) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    let said =
        |what: &str, answer: &str| format!("{{\"when\": {what:?}, \"content\": {answer:?}}}\n");
    let model = [
        said("said: accept .*blue.*7", "A blue 7."),
        said("said: accept .*red.*7", "A red 7."),
        said("said: decline", "Nothing then."),
        said("said: cancel", "Nobody knows."),
        "{\"when\": \"buy\", \"calls\": [{\"name\": \"own_fill\", \"arguments\": {}}]}\n"
            .to_owned(),
    ];
    callboard.file("model.jsonl", &model.concat());
    let text = format!(
        "[models.m]\nprovider = 'scripted'\nscript = 'model.jsonl'\n\
         [agents.a]\ninstructions = 'Buy.'\nmodel = 'm'\ntools = ['own_fill']\n\
         [permissions]\nallow = ['*']\n\
         [mcp.own]\ncommand = {}\ntools = ['fill']\nelicitation = true\n",
        json!(["python3", script, "."])
    );
    callboard.file("shop.toml", &text)
}

fn spawn(callboard: &Callboard, args: &[&str], stdin: Stdio) -> Child {
    let mut command = callboard.command(args);
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_form_is_filled_in_on_the_terminal_of_a_run() {
    let callboard = Callboard::new();
    let team = asking(&callboard);
    for (lines, expected) in [
        ("0\n7\nblue\n", "A blue 7.\n"),
        ("7\n\n", "A red 7.\n"),
        ("7\n/decline\n", "Nothing then.\n"),
        ("/cancel\n", "Nobody knows.\n"),
    ] {
        let mut child = spawn(&callboard, &["run", team.to_str().unwrap(), "buy"], Stdio::piped());
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), expected), "{}", ended.err);
        let asked = [
            "MCP server own asks.",
            "It says: What is it to be?",
            "size: How large?",
            "from 1, to 9",
        ];
        for part in asked {
            assert!(ended.err.contains(part), "{part} in {}", ended.err);
        }
    }
}

#[test]
fn a_form_is_shown_and_answered_at_a_daemon() {
    let callboard = Callboard::new();
    let daemon = callboard.serve(&asking(&callboard));
    let open = || loop {
        let listed = callboard.run(&["calls", "list", "--for", "question", "--json"]).json();
        if let Some(call) = listed["calls"].get(0) {
            return call.clone();
        }
    };
    let content = r#"{"size": 7, "colour": "blue"}"#;
    let answers: [(&[&str], &str); 3] = [
        (&["--content", content], "A blue 7.\n"),
        (&[content], "A blue 7.\n"),
        (&["--decline"], "Nothing then.\n"),
    ];
    for (answer, expected) in answers {
        let asked = spawn(&callboard, &["ask", "shop", "buy"], Stdio::null());
        let call: Value = open();
        let (key, run) = (call["call"].as_str().unwrap(), call["run"].as_str().unwrap());
        let shown = callboard.run(&["calls", "show", key]).out;
        for part in ["size: whole number, from 1, to 9, needed", "until", "--content JSON"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        for (bad, part) in [
            (&["--content", r#"{"size": 10}"#][..], "/size: "),
            (&["--content", "{"], "not JSON"),
            (&["ten"], "size: whole number"),
        ] {
            let refused = callboard.run(&[&["answer", run][..], bad].concat());
            assert_eq!(refused.code, Some(2), "{bad:?}: {refused:?}");
            assert!(refused.err.contains(part), "{part} in {}", refused.err);
        }
        let said = callboard.run(&[&["answer", run, "--call", key][..], answer].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        let ended = Ended::from(asked.wait_with_output().unwrap());
        assert_eq!(ended.out, expected, "{}", ended.err);
    }
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn what_a_server_changed_is_shown_and_approved() {
    let callboard = Callboard::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    callboard.file("model.jsonl", "{\"content\": \"done\"}\n");
    let command = json!(["python3", script, "."]);
    let text = |command: &str| {
        format!(
            "[models.m]\nprovider = 'scripted'\nscript = 'model.jsonl'\n\
             [agents.a]\ninstructions = 'Call.'\nmodel = 'm'\ntools = ['own_*']\n\
             [mcp.own]\ncommand = {command}\ntools = ['say', 'evolve']\n"
        )
    };
    let team = callboard.file("crew.toml", &text(&command.to_string()));
    let team = team.to_str().unwrap();

    let shown = callboard.run(&["tools", team]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.out.contains("own_say  tool, once, "), "{}", shown.out);
    assert!(shown.out.contains("Says it.\n"), "{}", shown.out);
    let same = callboard.run(&["tools", team, "--compare", "own"]);
    assert_eq!(same.out, "own: 13 tools, as they are pinned\n");

    callboard.file("evolved", "");
    let shown = callboard.run(&["tools", team]);
    assert!(shown.out.contains("Says it.\n"), "what was pinned is offered: {}", shown.out);
    let compared = callboard.run(&["tools", team, "--compare", "own"]);
    assert!(compared.out.starts_with("changed  \"say\": description\n"), "{}", compared.out);
    assert!(compared.out.contains("new      \"extra\"\n"), "{}", compared.out);
    assert!(compared.err.contains("--approve own"), "{}", compared.err);
    let changes = callboard.run(&["tools", team, "--compare", "own", "--json"]).json();
    assert_eq!(changes["changes"][0]["parts"], json!(["description"]));

    let approved = callboard.run(&["tools", team, "--approve", "own"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(approved.err.contains("14 tools of own are pinned"), "{}", approved.err);
    let shown = callboard.run(&["tools", team]);
    assert!(shown.out.contains("after it was sent to a place of ours"), "{}", shown.out);

    // A list with which the team cannot be made is not pinned.
    let table = "[tools.meta]\nkind = 'mcp'\nserver = 'own'\n";
    for (file, tool, table, said) in [
        ("gone", "say", "", "MCP server `own` has no tool `say`"),
        ("gone", "meta", table, "MCP server `own` has no tool `meta`"),
        ("bare", "evolve", "", "tool `evolve` of MCP server `own` cannot be offered"),
    ] {
        callboard.file("crew.toml", &[&text(&command.to_string()), table].concat());
        let broken = callboard.file(file, tool);
        let refused = callboard.run(&["tools", team, "--approve", "own"]);
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{refused:?}");
        for part in ["the list of own is not pinned", said] {
            assert!(refused.err.contains(part), "{part} in {}", refused.err);
        }
        let shown = callboard.run(&["tools", team]);
        assert_eq!(shown.code, Some(0), "what was pinned is offered: {shown:?}");
        std::fs::remove_file(broken).unwrap();
        let same = callboard.run(&["tools", team, "--compare", "own"]);
        assert_eq!(same.out, "own: 14 tools, as they are pinned\n");
    }

    // Nobody has to be there once a list is pinned, and for a check not even that.
    callboard.file("crew.toml", &text("['./none']"));
    assert_eq!(callboard.run(&["tools", team]).code, Some(0));
    assert_eq!(callboard.run(&["check", team]).code, Some(0));
    let away = callboard.run(&["tools", team, "--compare", "own"]);
    assert_eq!(away.code, Some(3), "{away:?}");
    assert!(
        away.err.contains("MCP server own does not list its tools: start ./none"),
        "{}",
        away.err
    );
    let unknown = callboard.run(&["tools", team, "--approve", "other"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("no MCP server other; it has own"), "{}", unknown.err);
}

#[test]
fn lists_that_a_changed_team_needs_are_approved_one_by_one() {
    let callboard = Callboard::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    callboard.file("model.jsonl", "{\"content\": \"done\"}\n");
    let text = |tool: &str| {
        let server = |name: &str| {
            let command = json!(["python3", script, "."]);
            format!("[mcp.{name}]\ncommand = {command}\ntools = ['{tool}']\n")
        };
        format!(
            "[models.m]\nprovider = 'scripted'\nscript = 'model.jsonl'\n\
             [agents.a]\ninstructions = 'Call.'\nmodel = 'm'\ntools = ['one_*', 'two_*']\n{}{}",
            server("one"),
            server("two")
        )
    };
    let team = callboard.file("crew.toml", &text("say"));
    let team = team.to_str().unwrap();
    assert_eq!(callboard.run(&["tools", team]).code, Some(0));
    callboard.file("evolved", "");
    callboard.file("crew.toml", &text("extra"));
    assert_eq!(callboard.run(&["tools", team]).code, Some(2), "neither list has the tool");
    for server in ["one", "two"] {
        let approved = callboard.run(&["tools", team, "--approve", server]);
        assert_eq!(approved.code, Some(0), "{approved:?}");
    }
    let shown = callboard.run(&["tools", team]);
    assert!(shown.out.contains("one_extra") && shown.out.contains("two_extra"), "{shown:?}");
}
