//! `serve`, and the commands that find it.

use std::io::{ErrorKind, Read as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use journal::{DataLock, Holder};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};

use crate::callboard::{Callboard, Ended, QUESTION, team};

/// The longest wait for what comes at once.
const SOON: Duration = Duration::from_secs(20);

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
        (&["run", file, "hi"], 3, "ask it: `callboard ask quickstart ..`"),
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
    let short = callboard.file("short", "guess-me\n");
    let short = short.to_str().unwrap();
    let cases = [
        (&["--listen", "nonsense"][..], "E1001"),
        (&["--listen", "0.0.0.0:0"], "E5010"),
        (&["--listen", "127.0.0.1:0", "--host-name", "agents.example"], "E5010"),
        (&["--listen", "127.0.0.1:0", "--token-file", short], "E5010"),
        (&["--listen", "127.0.0.1:0", "--token-file", "/nonexistent/token"], "E6003"),
    ];
    for (more, code) in cases {
        let args: Vec<&str> = ["serve", file].iter().chain(more).copied().collect();
        let ended = callboard.run(&args);
        assert_eq!(ended.code, Some(2), "{more:?}: {}", ended.err);
        assert!(ended.err.contains(&format!("error[{code}]")), "{more:?}: {}", ended.err);
        assert!(!ended.err.contains("guess-me"), "{}", ended.err);
    }
}

#[test]
fn a_daemon_whose_address_is_taken_takes_up_no_run() {
    let callboard = Callboard::new();
    let asks = "{\"when\": \"\", \"calls\": [{\"name\": \"ask_user\", \"arguments\": \
                {\"question\": \"Which colour?\"}}]}\n";
    callboard.file("replies.jsonl", asks);
    let file = callboard.file(
        "asker.toml",
        "[models.m]\nprovider = \"scripted\"\nscript = \"replies.jsonl\"\n[agents.lead]\n\
         instructions = \"Ask.\"\nactor = \"m\"\ntools = [\"ask_user\"]\n",
    );
    let left = callboard.run(&["run", file.to_str().unwrap(), "choose"]);
    assert_eq!(left.code, Some(3), "nobody answers: {}", left.err);

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let ended = callboard.run(&["serve", file.to_str().unwrap(), "--listen", &taken]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert!(ended.err.contains("error[E1008]") && ended.err.contains("--listen"), "{}", ended.err);
    let word = "session taken up again";
    assert!(!ended.err.contains(word), "{}", ended.err);
    let daemon = callboard.serve(&file);
    assert!(daemon.said.contains(word), "{}", daemon.said);
    // Who has the data says more than that the address is taken.
    let address = daemon.url.trim_start_matches("http://").to_owned();
    let second = callboard.run(&["serve", file.to_str().unwrap(), "--listen", &address]);
    assert_eq!(second.code, Some(3), "{}", second.err);
    assert!(second.err.contains("is in use by callboard serve (process "), "{}", second.err);
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_daemon_that_waits_for_others_at_its_start_ends_when_it_is_told_to() {
    let callboard = Callboard::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let at = silent.local_addr().unwrap();
    callboard.file("model.jsonl", "{\"when\": \"\", \"content\": \"hello\"}\n");
    let described = |name: &str, by: &str| {
        let text = format!(
            "[models.m]\nprovider = \"scripted\"\nscript = \"model.jsonl\"\n[agents.lead]\n\
             instructions = \"Greet.\"\nmodel = \"m\"\n[mcp.own]\n{by}\ntools = [\"*\"]\n"
        );
        callboard.file(name, &text).to_str().unwrap().to_owned()
    };
    let by_url = described("url.toml", &format!("url = \"http://{at}/mcp\""));
    let program = format!(
        "import socket, subprocess, time; s = socket.create_connection(('127.0.0.1', {})); \
         subprocess.Popen(['sleep', '600'], pass_fds=[s.fileno()]); time.sleep(600)",
        at.port()
    );
    let by_program =
        described("program.toml", &format!("command = [\"python3\", \"-c\", {program:?}]"));
    let plain = team("quickstart.toml").to_str().unwrap().to_owned();
    let nats = format!("nats://{at}");
    let cases =
        [&["serve", &by_url][..], &["serve", &by_program], &["serve", &plain, "--nats", &nats]];
    for args in cases {
        // Whether a program outlives the daemon would be a matter of chance, so it is tried often.
        for signal in ["-TERM", "-INT"].repeat(4) {
            let mut command = callboard.command(args);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut waiting = loop {
                match silent.accept() {
                    Ok((waiting, _)) => break waiting,
                    Err(_) => assert_eq!(child.try_wait().unwrap(), None, "{args:?}: has ended"),
                }
                std::thread::yield_now();
            };
            let pid = child.id().to_string();
            assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
            let ended = Ended::from(child.wait_with_output().unwrap());
            assert_eq!(ended.code, Some(0), "{args:?} {signal}: {}", ended.err);
            // Nobody is left who holds the other end: a program has ended with the daemon.
            waiting.set_nonblocking(false).unwrap();
            waiting.set_read_timeout(Some(SOON)).unwrap();
            let left = waiting.read_to_end(&mut Vec::new()).err().map(|error| error.kind());
            assert!(matches!(left, None | Some(ErrorKind::ConnectionReset)), "{args:?}: {left:?}");
        }
    }
}

#[test]
fn a_daemon_that_reads_its_data_ends_when_it_is_told_to() {
    let callboard = Callboard::new();
    let file = team("quickstart.toml");
    assert_eq!(callboard.serve(&file).stop().code, Some(0));
    // What is read of a pipe has no end for as long as somebody holds the other one.
    let pipe = callboard.dir.path().join("data/quickstart/drained.json");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut command = callboard.command(&["serve", file.to_str().unwrap(), "--listen", "none"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let held = loop {
        match open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(held) => break held,
            Err(_) => assert_eq!(child.try_wait().unwrap(), None, "has ended"),
        }
        std::thread::yield_now();
    };
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!ended.err.contains("ready: "), "{}", ended.err);
    drop(held);
    std::fs::remove_file(&pipe).unwrap();
    assert_eq!(callboard.serve(&file).stop().code, Some(0));
}

#[test]
fn a_daemon_with_a_token_is_asked_with_it() {
    let callboard = Callboard::new();
    let token = "a-token-that-is-long-enough-to-be-one";
    let right = callboard.file("token", &format!("{token}\n"));
    let wrong = callboard.file("wrong", "another-token-that-is-long-enough\n");
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    let daemon = callboard.serve_with(&team("quickstart.toml"), &["--token-file", right]);
    let url = daemon.url.clone();
    let cases = [
        (&["ask", "quickstart", "--run", "r1", QUESTION, "--token-file", right][..], 0, "2.16524"),
        (
            &["ask", "--url", &url, "quickstart", "--run", "r1", QUESTION, "--token-file", right],
            0,
            "2.16524",
        ),
        (&["--token-file", right, "runs"], 0, "researcher"),
        (&["calls", "list", "--token-file", right], 0, ""),
        (&["--token-file", right, "cancel", "nothing"], 2, "error[E1004]"),
        (&["ask", "quickstart", "hi"], 2, "error[E1014]"),
        (&["runs", "--team", "quickstart"], 2, "error[E1014]"),
        (&["--token-file", wrong, "cancel", "nothing"], 2, "error[E1014]"),
        (&["--token-file", wrong, "ask", "--url", &url, "quickstart", "hi"], 2, "error[E1014]"),
    ];
    for (args, code, part) in cases {
        let ended = callboard.run(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
        let told = ended.out + &ended.err;
        assert!(told.contains(part) && !told.contains(token), "{args:?}: {told}");
    }
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_command_that_reaches_a_door_without_a_token_is_warned_of() {
    let callboard = Callboard::new();
    let token = callboard.file("token", "a-token-that-is-long-enough-to-be-one\n");
    let script = callboard.file("m.jsonl", "{\"content\": \"Hello.\"}\n");
    let text = format!(
        "[models.m]\nprovider = 'scripted'\nscript = '{}'\n\
         [agents.a]\ninstructions = 'i'\nmodel = 'm'\ntools = ['today']\n\
         [tools.today]\nkind = 'command'\ndescription = 'd'\nargv = ['date']\nsandbox = 'none'\n",
        script.display()
    );
    let bare = callboard.file("bare.toml", &text);
    let with_token = ["--token-file", token.to_str().unwrap()];
    for (team, more, is_warned) in [
        (&bare, &[][..], true),
        (&bare, &with_token, false),
        (&team("quickstart.toml"), &[], false),
    ] {
        let daemon = callboard.serve_with(team, more);
        let said = daemon.said.clone();
        assert_eq!(daemon.stop().code, Some(0));
        // Once in the log, and once for whoever started it.
        assert_eq!(
            said.matches("today of team bare").count(),
            if is_warned { 2 } else { 0 },
            "{said}"
        );
        for part in ["warning: the HTTP door asks for no token", "--token-file", "--listen none"] {
            assert_eq!(said.contains(part), is_warned, "{part}: {said}");
        }
    }
}

#[test]
fn a_run_is_told_something_whatever_other_teams_do() {
    let callboard = Callboard::new();
    let daemon = callboard.serve(&team("quickstart.toml"));
    assert_eq!(callboard.run(&["ask", "quickstart", "--run", "r1", QUESTION]).code, Some(0));
    let data = callboard.dir.path().join("data");
    let hold = |team: &str, listen: Option<String>| {
        let named = Holder::this_process("callboard run", node::now());
        let holder = Holder { pid: 1, listen, ..named };
        DataLock::acquire(&data.join(team), &holder).unwrap()
    };
    // They come before the team that has the run; nobody listens on the port.
    let cases = [
        ("a-team", None, "error[E5001]"),
        ("b-team", Some("127.0.0.1:1".to_owned()), "error[E1008]"),
    ];
    for (other, listen, code) in cases {
        let lock = hold(other, listen);
        let known = callboard.run(&["cancel", "r1"]);
        assert_eq!((known.code, known.err.as_str()), (Some(0), "run r1 has ended: completed\n"));
        let unknown = callboard.run(&["cancel", "nothing"]);
        assert!(unknown.err.contains(code), "{other}: {unknown:?}");
        drop(lock);
    }
    assert_eq!(daemon.stop().code, Some(0));
}

#[test]
fn a_daemon_without_a_door_is_named_and_how_it_is_asked() {
    let callboard = Callboard::new();
    let dir = callboard.dir.path().join("data/a-team");
    let url = "nats://127.0.0.1:4222";
    let cases = [
        (None, "no HTTP door to ask at; wait until it ends"),
        (Some(url), "`top` reach it with `--nats nats://127.0.0.1:4222`, or wait until it ends"),
    ];
    for (nats, part) in cases {
        let named = Holder::this_process("callboard serve", node::now());
        let holder = Holder { pid: 1, nats: nats.map(str::to_owned), ..named };
        let lock = DataLock::acquire(&dir, &holder).unwrap();
        for args in [&["runs"][..], &["top", "--once"], &["cancel", "r1"]] {
            let ended = callboard.run(args);
            assert_eq!(ended.code, Some(3), "{args:?}: {}", ended.err);
            assert!(ended.err.contains("error[E5001]"), "{args:?}: {}", ended.err);
            assert!(ended.err.contains(part), "{args:?}: {}", ended.err);
        }
        drop(lock);
    }
}

#[test]
fn a_daemon_that_is_named_is_asked_whatever_the_environment_says() {
    let callboard = Callboard::new();
    let daemon = callboard.serve(&team("quickstart.toml"));
    let url = daemon.url.as_str();
    let nowhere = "nats://127.0.0.1:1";
    let ask = ["ask", "quickstart", "--run", "r1", QUESTION];
    let cases: [&[&str]; 4] =
        [&ask, &["trace", "r1"], &["top", "--once"], &["calls", "list", "--team", "quickstart"]];
    for args in cases {
        let with_url = [args, &["--url", url]].concat();
        let both = [&with_url[..], &["--nats", nowhere]].concat();
        for (args, code, part) in [
            (&with_url[..], 0, ""),
            (args, 3, "error[E5004]"),
            (&both, 2, "'--url <HTTP>' cannot be used with '--nats <URL>'"),
        ] {
            let set = callboard.command(args).env("CALLBOARD_NATS", nowhere).output().unwrap();
            let ended = Ended::from(set);
            assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
            assert!(ended.err.contains(part), "{args:?}: {}", ended.err);
        }
    }
    assert_eq!(daemon.stop().code, Some(0));
}
