//! A disk that is full, and one that cannot be written: nothing that was accepted is lost.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tests::daemon::Daemon;
use tests::job;
use tests::ledger::Ledger;
use tests::results::{self, Row};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::setup::http_client;

/// The size of the small disk, in MiB.
const DISK_MIB: u32 = 32;

/// How long a request may take to be refused.
const REFUSED_WITHIN: Duration = Duration::from_millis(100);

/// How long after there is room again runs may still be refused.
const SERVING_WITHIN: Duration = Duration::from_secs(2);

/// A small disk that the processes of one mount namespace see.
struct SmallDisk {
    holder: Child,
    dir: PathBuf,
}

impl SmallDisk {
    /// Mounts one on a directory. This needs user namespaces, or the rights of root.
    async fn mount(dir: &Path) -> Self {
        let script = "mount -t tmpfs -o size=$1m none \"$0\" && echo mounted && exec sleep 600";
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(dir)
            .arg(DISK_MIB.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        let mounted = lines.next_line().await.unwrap();
        assert!(mounted.is_some(), "no file system can be mounted: user namespaces are forbidden");
        Self { holder, dir: dir.to_owned() }
    }

    /// Returns the command that starts another one with this disk in sight.
    fn wrapper(&self) -> Vec<String> {
        let holder = self.holder.id().unwrap().to_string();
        ["nsenter", "--target", &holder, "--user", "--mount", "--preserve-credentials"]
            .map(str::to_owned)
            .to_vec()
    }

    /// Returns a file of the disk as it is seen from outside.
    fn path(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id().unwrap()));
        root.join(self.dir.strip_prefix("/").unwrap()).join(name)
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.path("filler")).unwrap();
        for size in [64 << 10, 4096, 512] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    fn clear(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }
}

struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    fn new(daemon: &Daemon) -> Self {
        let url = format!("{}/v1/teams/{}", daemon.http, job::TEAM);
        Self { http: http_client(), url }
    }

    /// Asks for a run and waits for what comes of it.
    async fn ask(&self, run: &str, input: &str) -> Value {
        let body = json!({"input": input, "run": run, "session": format!("s-{run}")});
        let url = format!("{}/agents/foreman/runs", self.url);
        let answer = self.http.post(url).body(body.to_string()).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("{}/{path}", self.url)).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_and_is_left_without_a_restart() {
    let ledger = Ledger::start().await;
    let dir = tempfile::tempdir().unwrap();
    let (files, small) = (dir.path().join("files"), dir.path().join("small"));
    std::fs::create_dir_all(&files).unwrap();
    std::fs::create_dir_all(&small).unwrap();
    let team = job::write(&files, &ledger.url("/charge"), 400);
    let disk = SmallDisk::mount(&small).await;
    let args = ["--data".into(), small.join("data"), "--disk-reserve".into(), "4".into(), team];
    let mut daemon = Daemon::start_under(&disk.wrapper(), &args).await;
    let client = std::sync::Arc::new(Client::new(&daemon));

    let mut slowest = (Duration::ZERO, Duration::ZERO);
    for round in 0..2 {
        let before = client.ask(&format!("before-{round}"), "hello").await;
        assert_eq!(before["status"], "completed", "{before}");
        // In work while the disk fills: it goes on from the reserve.
        let worker = client.clone();
        let working = tokio::spawn(async move {
            worker.ask(&format!("working-{round}"), &format!("job {round}")).await
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        disk.fill();
        let mut accepted = 0;
        let refused = loop {
            let began = Instant::now();
            let answer = client.ask(&format!("full-{round}-{accepted}"), "hello").await;
            match answer["error"]["code"].as_str() {
                Some("E5008") => break (answer.clone(), began.elapsed()),
                Some(code) => panic!("{code}: {answer}"),
                None => accepted += 1,
            }
        };
        assert!(refused.0["error"]["retry_after_ms"].is_u64(), "{}", refused.0);
        println!("round {round}: {accepted} runs fitted, refused in {:?}", refused.1);
        assert!(refused.1 <= REFUSED_WITHIN, "{:?}", refused.1);

        let done = working.await.unwrap();
        assert_eq!((&done["status"], &done["output"]), (&json!("completed"), &json!(job::ANSWER)));
        let known = client.get(&format!("runs/before-{round}")).await;
        assert_eq!(known["run"], format!("before-{round}"), "look-ups work: {known}");
        let again = client.ask(&format!("before-{round}"), "hello").await;
        assert_eq!(again, before, "a run that is known is answered");

        disk.clear();
        let freed = Instant::now();
        while client.ask(&format!("after-{round}"), "hello").await["status"] != "completed" {
            assert!(freed.elapsed() < SERVING_WITHIN, "{}", daemon.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("round {round}: served again after {:?}", freed.elapsed());
        slowest = (slowest.0.max(refused.1), slowest.1.max(freed.elapsed()));
    }

    let listed = client.get("runs?limit=1000").await;
    let before = listed["runs"].as_array().unwrap().len();
    daemon.kill().await;
    let daemon = Daemon::start_under(&disk.wrapper(), &args).await;
    let client = Client::new(&daemon);
    let listed = client.get("runs?limit=1000").await;
    assert_eq!(listed["runs"].as_array().unwrap().len(), before, "a run is lost: {listed}");
    for run in ["before-0", "working-0", "after-0", "before-1", "working-1", "after-1"] {
        let view = client.get(&format!("runs/{run}")).await;
        assert_eq!(view["status"], "completed", "{run}: {view}");
    }
    assert!(ledger.hits().values().all(|count| *count == 1), "{:?}", ledger.hits());
    results::record(&Row {
        id: "T6",
        what: "the disk is full, twice, and has room again",
        held: &format!(
            "0 acknowledged runs lost, refused within {} ms, look-ups go on, serving again within \
             {} ms without a restart",
            slowest.0.as_millis(),
            slowest.1.as_millis()
        ),
        passes: "0 lost, refused within 100 ms, serving within 2 s",
        command: "cargo e2e disk -- --nocapture",
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_cannot_be_written_ends_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let team = job::write(dir.path(), "http://127.0.0.1:9/charge", 0);
    let args = ["--data".into(), data, team];
    // The signal that goes with the limit is ignored, so that writing fails as on a bad disk.
    let wrapper = ["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""].map(str::to_owned);
    let mut daemon = Daemon::start_under(&wrapper, &args).await;
    let client = Client::new(&daemon);
    let before = client.ask("before", "hello").await;
    assert_eq!(before["status"], "completed", "{before}");

    let limited = Command::new("prlimit")
        .args(["--pid", &daemon.pid().to_string(), "--fsize=64"])
        .status()
        .await
        .expect("prlimit, of util-linux, is there");
    assert!(limited.success());
    let body = json!({"input": "hello", "run": "lost"}).to_string();
    let url = format!("{}/agents/foreman/runs", client.url);
    if let Ok(answer) = client.http.post(url).body(body).send().await {
        let text = answer.text().await.unwrap_or_default();
        assert!(!text.contains("completed"), "acknowledged after the fault: {text}");
    }
    assert_eq!(daemon.ended().await, Some(70), "{}", daemon.log());
    assert!(daemon.log().contains("cannot be written"), "{}", daemon.log());

    let daemon = Daemon::start(&args).await;
    let client = Client::new(&daemon);
    assert_eq!(client.ask("before", "hello").await, before);
    assert_eq!(client.get("runs/lost").await["error"]["code"], "E1004");
    results::record(&Row {
        id: "T7",
        what: "the disk cannot be written",
        held: "the daemon ends with code 70, acknowledges nothing after the fault, and starts anew",
        passes: "ends with a code, 0 acknowledgements after the fault",
        command: "cargo e2e cannot_be_written -- --nocapture",
    });
}
