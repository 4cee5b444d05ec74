//! `serve`, and the commands that find it.

use crate::callboard::{Callboard, QUESTION, team};

#[test]
fn a_daemon_is_found_asked_looked_into_and_stopped() {
    let callboard = Callboard::new();
    let file = team("quickstart.toml");
    let daemon = callboard.serve(&file);
    let file = file.to_str().unwrap();

    let asked = callboard.run(&["ask", "quickstart", "--run", "r1", QUESTION]);
    assert_eq!(asked.code, Some(0), "{}", asked.err);
    assert!(asked.out.contains("2.16524"), "{}", asked.out);
    let by_url =
        callboard.run(&["ask", "--url", &daemon.url, "quickstart/lead", "--run", "r1", QUESTION]);
    assert_eq!(by_url.out, asked.out, "the same run has the same reply");

    for (args, part) in [
        (&["trace"][..], "completed"),
        (&["trace", "r1"], "execute_tool calculate"),
        (&["sessions", "r1"], "2.16524"),
        (&["runs", "--team", "quickstart"], "researcher"),
    ] {
        let ended = callboard.run(args);
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.err);
        assert!(ended.out.contains(part), "{args:?}: {}", ended.out);
    }

    let refused = [
        (&["run", file, "hi"][..], 3, "is in use by callboard serve (process "),
        (&["store", "rebuild", file], 3, "is in use by callboard serve (process "),
        (&["store", "compact", file], 3, "is in use by callboard serve (process "),
        (&["ask", "quickstart/nobody", "hi"], 2, "error[E1003]"),
        (&["cancel", "nothing"], 2, "error[E1004]"),
        (&["answer", "r1", "yes"], 2, "error[E1010]"),
        (&["answer", "r1", "yes", "--call", "c1"], 2, "error[E1010]"),
        (&["answer", "r1", "yes", "--call", "no key"], 2, "--call"),
        (&["trace", "../runs"], 2, "error[E1004]"),
    ];
    for (args, code, part) in refused {
        let ended = callboard.run(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{args:?}: {}", ended.err);
    }

    let url = daemon.url.clone();
    let stopped = daemon.stop();
    assert_eq!(stopped.code, Some(0), "{}", stopped.err);
    let gone = callboard.run(&["ask", "--url", &url, "quickstart", "hi"]);
    assert_eq!(gone.code, Some(3), "{}", gone.err);
    let kept = callboard.run(&["trace", "r1"]);
    assert!(kept.out.contains("execute_tool calculate"), "from the files: {kept:?}");
}

#[test]
fn an_address_that_others_reach_is_refused() {
    let callboard = Callboard::new();
    let file = team("quickstart.toml");
    let file = file.to_str().unwrap();
    for (listen, code) in [("0.0.0.0:0", 2), ("nonsense", 2)] {
        let ended = callboard.run(&["serve", file, "--listen", listen]);
        assert_eq!(ended.code, Some(code), "{listen}: {}", ended.err);
        assert!(ended.err.contains("error[E1001]"), "{}", ended.err);
    }
}
