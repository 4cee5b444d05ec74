//! Several teams and daemons on one data directory.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::callboard::{Callboard, Ended, terminal};

/// Writes a team with its script, and returns its file.
fn team(callboard: &Callboard, name: &str, script: &str) -> PathBuf {
    callboard.file(&format!("{name}.jsonl"), script);
    let text = format!(
        "[team]\nname = '{name}'\nentry = 'lead'\n\
         [models.main]\nprovider = 'scripted'\nscript = '{name}.jsonl'\n\
         [agents.lead]\ninstructions = 'You lead.'\nmodel = 'main'\ntools = ['ask_user']\n"
    );
    callboard.file(&format!("{name}.toml"), &text)
}

const DONE: &str = "{\"content\": \"Done.\"}\n";

const CHOOSES: &str = r#"{"when": "blue", "content": "Blue it is."}
{"when": "choose", "calls": [{"name": "ask_user", "arguments": {"question": "Which colour?"}}]}
"#;

#[test]
fn of_teams_with_the_same_run_the_one_that_is_meant_is_told() {
    let callboard = Callboard::new();
    let zed = team(&callboard, "zed", CHOOSES);
    let daemon = callboard.serve_with(&team(&callboard, "a", DONE), &[zed.to_str().unwrap()]);
    assert_eq!(callboard.run(&["ask", "a", "--run", "dup", "choose"]).out, "Done.\n");
    let mut asked = callboard
        .command(&["ask", "zed", "--run", "dup", "choose"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(asked.stderr.take().unwrap()).lines().map(Result::unwrap);
    let way = told.find(|line| line.contains("callboard answer dup TEXT --call ")).unwrap();
    assert!(way.ends_with(" --team zed"), "{way}");

    let several = "several teams have a run dup: a, zed; name the team with --team";
    let cases: [(&[&str], i32, &str); 5] = [
        (&["cancel", "dup"], 2, several),
        (&["answer", "dup", "blue"], 2, several),
        (&["cancel", "dup", "--team", "a"], 0, "run dup has ended: completed"),
        (&["answer", "dup", "blue", "--team", "zed"], 0, "run dup "),
        (&["cancel", "none"], 2, "error[E1004]: no run none is known"),
    ];
    for (args, code, part) in cases {
        let ended = callboard.run(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{args:?}: {}", ended.err);
    }
    let asked = Ended::from(asked.wait_with_output().unwrap());
    assert_eq!((asked.code, asked.out.as_str()), (Some(0), "Blue it is.\n"));
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn of_several_daemons_one_that_refuses_is_told_of_and_left_out() {
    let callboard = Callboard::new();
    let token = callboard.file("token", "a-token-that-is-long-enough-to-be-one\n");
    let open = callboard.serve(&team(&callboard, "a", DONE));
    let closed = callboard
        .serve_with(&team(&callboard, "b", DONE), &["--token-file", token.to_str().unwrap()]);
    assert_eq!(callboard.run(&["ask", "a", "--run", "r1", "hi"]).out, "Done.\n");
    let (refused, at) = ("error[E1014]: team b: ", "error[E1014]: the daemon at ");
    let cases: [(&[&str], i32, &str, &str); 12] = [
        (&["runs"], 0, "r1", refused),
        (&["sessions"], 0, "r1", refused),
        (&["sessions", "r1"], 0, "Done.", ""),
        (&["sessions", "none"], 2, "", refused),
        (&["sessions", "none"], 2, "", "no session none is known"),
        (&["memory"], 0, "", refused),
        (&["trace"], 0, "completed", refused),
        (&["trace", "r1"], 0, "invoke_agent lead", ""),
        (&["trace", "none"], 2, "", refused),
        (&["calls", "list"], 0, "", refused),
        (&["top", "--once"], 0, "1 node, 1 team", at),
        (&["runs", "--team", "b"], 2, "", "error[E1014]: this door"),
    ];
    for (args, code, out, err) in cases {
        let ended = callboard.run(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
        assert!(ended.out.contains(out), "{args:?}: {}", ended.out);
        assert!(ended.err.contains(err), "{args:?}: {}", ended.err);
    }
    assert_eq!(open.stop().code, Some(0));
    assert_eq!(closed.stop().code, Some(0));
}

#[test]
fn who_watches_a_daemon_sees_it_go_and_come_back() {
    let callboard = Callboard::new();
    let file = team(&callboard, "a", DONE);
    let daemon = callboard.serve(&file);
    let (mut screen, out) = terminal();
    let mut size = Command::new("stty");
    size.args(["rows", "30", "cols", "100"]).stdin(out.try_clone().unwrap());
    assert!(size.status().unwrap().success());
    let mut watching = callboard.command(&["top"]).stdout(out).spawn().unwrap();
    let mut drawn = String::new();
    let mut until = |is_there: bool| {
        loop {
            // Each look is drawn from the first line on.
            let looks = drawn.split("\u{1b}[H").filter(|look| look.ends_with("\u{1b}[J"));
            let seen = |look: &str| look.contains("1 node, 1 team");
            if looks.clone().any(|look| seen(look) && look.contains("not seen at") != is_there) {
                drawn.clear();
                return;
            }
            let mut bytes = [0; 4096];
            let read = screen.read(&mut bytes).unwrap();
            drawn.push_str(&String::from_utf8_lossy(bytes.get(..read).unwrap()));
        }
    };
    until(true);
    drop(daemon);
    until(false);
    let daemon = callboard.serve(&file);
    until(true);
    let pid = watching.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(watching.wait().unwrap().code(), Some(0));
    assert_eq!(daemon.stop().code, Some(0));
}
