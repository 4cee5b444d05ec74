//! The console in a browser that is not ours: all pages, texts that mean no good, and signing in.
//!
//! Pictures of the pages are left in `console` below the target directory.

#![cfg(test)]

mod teams;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tests::daemon::{Daemon, binary, root};
use tests::install::install;
use tests::results::{Row, record};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::timeout;

/// What a scenario may take before it counts as hanging; on an idle machine it is half a minute.
const SCENARIO_MAX: Duration = Duration::from_secs(900);

/// What one step in the browser may wait for what it is to see.
const STEP_MAX: Duration = Duration::from_secs(60);

/// Hostile texts that one run puts into calls.
const BATCH: usize = 8;

/// Plays a scenario on a daemon and returns the figures that it tells.
async fn play(scenario: &str, daemon: &Daemon, more: Value) -> Value {
    let installed = install("console/browser.sh").await;
    let [node, packages, browser, rest @ ..] = installed.as_slice() else {
        panic!("{installed:?}");
    };
    let pictures = pictures();
    let mut settings = json!({
        "base": daemon.http, "packages": packages, "browser": browser, "pictures": pictures,
        "libraries": rest.first().cloned().unwrap_or_default(),
        "data_home": root().join(".tools/browser/root/usr/share"),
        "patience_ms": u64::try_from(STEP_MAX.as_millis()).unwrap(),
    });
    let fields = settings.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    let driver = root().join("tests/console/drive.mjs");
    let mut child = Command::new(node)
        .arg(driver)
        .args([scenario, &settings.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut told = String::new();
    let mut faults = String::new();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let ended = timeout(SCENARIO_MAX, async {
        let (out, err) =
            tokio::join!(out.read_to_string(&mut told), err.read_to_string(&mut faults));
        out.unwrap();
        err.unwrap();
        child.wait().await.unwrap()
    });
    let ended = ended.await.unwrap_or_else(|_| panic!("{scenario} hangs"));
    assert!(ended.success(), "{scenario}: {faults}\n{told}\nthe daemon:\n{}", daemon.log());
    serde_json::from_str(&told).unwrap()
}

/// Returns the folder of the pictures.
fn pictures() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let folder = target.join("console");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a team with its script, and returns its file.
fn write(folder: &Path, name: &str, team: &str, script: &[Value]) -> PathBuf {
    let lines: Vec<String> = script.iter().map(Value::to_string).collect();
    std::fs::write(folder.join(format!("{name}.jsonl")), lines.join("\n")).unwrap();
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, team).unwrap();
    file
}

/// Starts a server that takes requests and never answers them.
async fn post_office() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = [0; 4096];
            // Read and then closed, so that nobody knows what was done.
            drop(stream.read(&mut bytes).await);
        }
    });
    format!("http://{address}")
}

async fn serve(folder: &Path, files: &[PathBuf], more: &[&str]) -> Daemon {
    let data = folder.join("data");
    let mut args = vec!["--data".into(), data];
    args.extend(more.iter().map(PathBuf::from));
    args.extend(files.iter().cloned());
    Daemon::start(&args).await
}

#[tokio::test(flavor = "multi_thread")]
async fn people_find_their_way_through_all_pages() {
    let folder = tempfile::tempdir().unwrap();
    let crew = teams::crew(&post_office().await);
    let crew = write(folder.path(), "crew", &crew, &teams::crew_script());
    let quickstart = root().join("config/teams/quickstart.toml");
    let daemon = serve(folder.path(), &[crew, quickstart], &[]).await;
    let figures = play("pages", &daemon, json!({})).await;
    record(&Row {
        id: "console, pages",
        what: "all pages of the console in a browser, light, dark and at 360 px; runs started, \
               followed, approved, denied, answered, resolved and cancelled there",
        held: &format!(
            "{} pages in {} ways: 0 faults, 0 violations of WCAG 2 A and AA that a program finds, \
             0 of {} requests to another origin",
            figures["pages"], figures["views"], figures["requests"]
        ),
        passes: "0 faults",
        command: "cargo test -p tests --test console pages",
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_stay_texts() {
    let strings = teams::hostile();
    assert!(strings.len() >= 200, "{}", strings.len());
    let folder = tempfile::tempdir().unwrap();
    let script = teams::hostile_script(&strings, BATCH);
    let file = write(folder.path(), "hostile", &teams::hostile_team(&strings), &script);
    let daemon = serve(folder.path(), &[file], &[]).await;
    let settings = json!({"strings": strings, "batch": BATCH});
    let figures = play("hostile", &daemon, settings).await;
    record(&Row {
        id: "console, hostile texts",
        what: "texts that mean no good as descriptions, prompts, answers, arguments, results, \
               questions and facts, and as addresses of pages",
        held: &format!(
            "{} texts: 0 scripts ran, 0 elements or links made, 0 of {} requests to another origin",
            figures["strings"], figures["requests"]
        ),
        passes: "0 scripts, 0 requests",
        command: "cargo test -p tests --test console hostile",
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_daemon_says_seldom_is_taken_as_it_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    let quickstart = root().join("config/teams/quickstart.toml");
    let daemon = serve(folder.path(), &[quickstart], &[]).await;
    play("seldom", &daemon, json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_signs_in_with_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let token = "a-token-that-is-long-enough-to-be-one";
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let crew = teams::crew(&post_office().await);
    let crew = write(folder.path(), "crew", &crew, &teams::crew_script());
    let more = ["--token-file", file.to_str().unwrap()];
    let daemon = serve(folder.path(), std::slice::from_ref(&crew), &more).await;
    let listen = daemon.http.trim_start_matches("http://");
    let data = folder.path().join("data");
    let again =
        json!([binary(), "serve", "--data", data, more[0], more[1], crew, "--listen", listen,]);
    let settings = json!({"token": token, "daemon": {"pid": daemon.pid(), "command": again}});
    play("signing_in", &daemon, settings).await;
    assert!(!daemon.log().contains(token), "the token is in the log");
}
