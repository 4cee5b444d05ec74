//! Several teams and daemons on one data directory.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use crate::callboard::{Callboard, Ended};

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
