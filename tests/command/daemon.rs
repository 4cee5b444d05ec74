//! Commands of a daemon: called in a run, refused at the start, and gone when it is killed.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::json;
use tests::daemon::{Daemon, binary};
use tests::processes::processes;
use tokio::process::Command;
use tokio::time::Instant;

use crate::house::{folder, path};

/// Writes a team whose model calls the tool once and then says what came of it.
fn team(folder: &Path, fields: &str) -> PathBuf {
    let replies = [
        json!({"when": "4 words", "content": "there are four"}),
        json!({"when": "please", "calls": [{"name": "work", "arguments": {"text": "a b c d"}}]}),
        json!({"when": ".", "content": "it went wrong"}),
    ];
    let lines: Vec<String> = replies.iter().map(ToString::to_string).collect();
    std::fs::write(folder.join("m.jsonl"), lines.join("\n")).unwrap();
    let file = folder.join("team.toml");
    let text = format!(
        "[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n\
         [agents.a]\ninstructions = 'i'\nmodel = 'm'\ntools = ['work']\n\
         [permissions]\nallow = ['work']\n[tools.work]\nkind = 'command'\ndescription = 'd'\n\
         parameters = {{ text = 'string' }}\n{fields}\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

fn run(file: &Path, path: &OsString) -> Command {
    let mut command = Command::new(binary());
    let data = file.with_file_name("data");
    command.arg("run").arg(file).arg("--data").arg(data).arg("count them, please");
    command.env("PATH", path).stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn output(file: &Path, path: &OsString) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = run(file, path).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_calls_a_command_and_a_team_without_a_sandbox_does_not_start() {
    let folder = folder();
    let path = path().await;
    let file = team(
        folder.path(),
        "argv = ['sh', '-c', 'echo $(echo \"$1\" | wc -w) words', 'sh', '{text}']\nstdin = 'none'",
    );
    let (code, answer, log) = output(&file, &path).await;
    assert_eq!((code, answer.trim()), (Some(0), "there are four"), "{log}");

    let fake = folder.path().join("bwrap");
    std::fs::write(&fake, "#!/bin/sh\necho bubblewrap 0.4.0\n").unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let folders = std::iter::once(folder.path().to_owned()).chain(std::env::split_paths(&path));
    let faked = std::env::join_paths(folders.collect::<Vec<_>>()).unwrap();
    let (code, _, log) = output(&file, &faked).await;
    assert_eq!(code, Some(2), "{log}");
    for part in ["E6004", "tool work", "too old", "apt-get install bubblewrap"] {
        assert!(log.contains(part), "no {part:?} in {log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_killed_leaves_no_process_of_its_sandboxes() {
    let folder = folder();
    let path = path().await;
    let seconds = format!("3{:07}", std::process::id());
    let script = format!("trap '' TERM; sleep {seconds} & sleep {seconds}");
    let file = team(folder.path(), &format!("argv = ['sh', '-c', '''{script}''']"));
    let mut daemon = run(&file, &path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while processes(&seconds) < 2 {
        assert!(daemon.try_wait().unwrap().is_none(), "the daemon has ended");
        tokio::task::yield_now().await;
    }
    daemon.kill().await.unwrap();
    let killed = Instant::now();
    while processes(&seconds) > 0 {
        assert!(killed.elapsed() < Duration::from_secs(10), "they live on");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_told_to_end_waits_for_programs_and_leaves_none_of_them() {
    let folder = folder();
    let seconds = format!("4{:07}", std::process::id());
    let tidied = folder.path().join("tidied");
    // One puts things in order, and leaves another behind that does not listen.
    let script = format!(
        "trap 'sleep 1; echo tidied >{}; exit' TERM\n\
         (trap '' TERM; exec sleep {seconds}) & sleep {seconds} & wait",
        tidied.display()
    );
    let fields = format!("argv = ['sh', '-c', '''{script}''']\nsandbox = 'none'");
    let file = team(folder.path(), &fields);
    let data = folder.path().join("data");
    let mut daemon = Daemon::start(&[file.as_os_str(), "--data".as_ref(), data.as_os_str()]).await;
    let url = format!("{}/v1/teams/team/agents/a/runs?wait=false", daemon.http);
    let body = json!({"input": "count them, please"}).to_string();
    // A second installation in one process is refused, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    let asked = reqwest::Client::new().post(url).header("content-type", "application/json");
    let accepted = asked.body(body).send().await.unwrap();
    assert!(accepted.status().is_success(), "{accepted:?}");
    while processes(&seconds) < 2 {
        assert!(daemon.is_running(), "{}", daemon.log());
        tokio::task::yield_now().await;
    }
    assert_eq!(daemon.terminate().await, Some(0), "{}", daemon.log());
    assert_eq!(processes(&seconds), 0, "{}", daemon.log());
    assert!(tidied.exists(), "it had no time: {}", daemon.log());
}
