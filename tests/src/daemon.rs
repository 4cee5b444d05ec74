//! The daemon as its users run it: a process that is started, killed and started again.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a daemon may take to be ready, on a busy machine and with sessions to rebuild.
const READY_MAX: Duration = Duration::from_secs(180);

/// How long the rest of a log that nobody writes any more may take to be read.
const LOG_MAX: Duration = Duration::from_secs(2);

/// A `callboard serve` that runs.
pub struct Daemon {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    /// Reads the log, until the end of it was waited for.
    reader: Option<JoinHandle<()>>,
    /// Its HTTP address.
    pub http: String,
}

/// Builds the binary if need be and returns its path.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let built = std::process::Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--package", "daemon"])
            .current_dir(root())
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the daemon does not build");
        let test = std::env::current_exe().expect("a test has a path");
        let profile =
            test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
        profile.join("callboard")
    })
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lie in the repository").to_owned()
}

impl Daemon {
    /// Starts a daemon and waits until it is ready.
    pub async fn start(args: &[impl AsRef<OsStr>]) -> Self {
        Self::start_under(&[], args).await
    }

    /// Starts a daemon by a program that becomes it, such as `nsenter` with its arguments.
    pub async fn start_under(wrapper: &[String], args: &[impl AsRef<OsStr>]) -> Self {
        let mut words = wrapper.iter().map(OsStr::new).chain([binary().as_os_str()]);
        let mut child = Command::new(words.next().expect("there is the binary"))
            .args(words)
            .arg("serve")
            .args(args)
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the daemon starts");
        let stderr = child.stderr.take().expect("stderr is piped");
        let mut lines = BufReader::new(stderr).lines();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let noted = log.clone();
        let note = move |line| noted.lock().expect("not poisoned").push(line);
        let http = timeout(READY_MAX, async {
            while let Ok(Some(line)) = lines.next_line().await {
                let address = line
                    .split_whitespace()
                    .find(|word| word.starts_with("http://"))
                    .map(|word| word.trim_end_matches([',', '/']).to_owned());
                let ready = line.starts_with("ready");
                note(line);
                if ready {
                    return address;
                }
            }
            None
        })
        .await;
        let Ok(Some(http)) = http else {
            panic!("the daemon is not ready:\n{}", log.lock().expect("not poisoned").join("\n"))
        };
        // What it logs later is read, so that it never waits for room in the pipe.
        let reader = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                note(line);
            }
        });
        Self { child, log, reader: Some(reader), http }
    }

    /// Returns the id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the daemon runs")
    }

    /// Returns the lines that it wrote to stderr so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("not poisoned").join("\n")
    }

    /// Waits until it ends by itself and returns its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let ended = timeout(Duration::from_secs(30), self.child.wait()).await;
        let code = ended.expect("the daemon ends").expect("it can be waited for").code();
        self.read_log().await;
        code
    }

    /// Ends it as a crash would.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("the daemon can be killed");
        self.read_log().await;
    }

    /// Reads what it wrote last.
    async fn read_log(&mut self) {
        if let Some(reader) = self.reader.take() {
            // A program that it started may hold the pipe open.
            drop(timeout(LOG_MAX, reader).await);
        }
    }

    /// Tells whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end and returns its exit code.
    pub async fn terminate(&mut self) -> Option<i32> {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().await.expect("kill runs");
        assert!(sent.success());
        self.ended().await
    }
}
