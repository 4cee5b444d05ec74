//! A real PostgreSQL for tests: its own process, port and directory, gone when it is dropped.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::install::install;
use crate::processes::{children, parent};

/// The user of the server, and of the database.
pub const USER: &str = "owner";
/// The user's password.
pub const PASSWORD: &str = "it's $ecret \\ \"word\"";

/// How long a server may take to be ready, on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);

/// The pause between two looks whether it is.
const READY_POLL: Duration = Duration::from_millis(10);

/// Who runs the server if the tests are run by root, whom it refuses: `nobody`.
const NOBODY: u32 = 65_534;

/// A server that runs, with one database `postgres`.
pub struct Postgres {
    bin: PathBuf,
    libraries: Option<String>,
    folder: TempDir,
    child: Option<Child>,
    settings: Vec<String>,
    /// Its port on the loopback interface.
    pub port: u16,
}

impl Postgres {
    /// Makes a server and starts it; `settings` are such as `ssl=on`.
    pub async fn start(settings: &[&str]) -> Self {
        let installed = install("postgres.sh").await;
        let [bin, libraries @ ..] = installed.as_slice() else { panic!("no PostgreSQL") };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let port = listener.local_addr().expect("it has a number").port();
        let mut server = Self {
            bin: bin.into(),
            libraries: libraries.first().cloned(),
            folder: tempfile::tempdir().expect("a folder can be made"),
            child: None,
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
            port,
        };
        let open = Permissions::from_mode(0o755);
        std::fs::set_permissions(server.folder.path(), open).expect("it is ours");
        let data = server.data();
        std::fs::create_dir(&data).expect("it can be made");
        Self::hand_over(&data);
        let words = server.write("password", PASSWORD);
        let made = server
            .command("initdb")
            .args(["--username", USER, "--auth", "scram-sha-256", "--encoding", "UTF8"])
            .args(["--locale", "C", "--no-sync", "--pwfile"])
            .arg(words)
            .arg("--pgdata")
            .arg(&data)
            .output()
            .await
            .expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        drop(listener);
        server.run().await;
        server
    }

    /// Writes a file that the server and the tests can read, and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).expect("a file can be written");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("it is ours");
        Self::hand_over(&file);
        file
    }

    /// Adds a setting, which holds from the next start.
    pub fn set(&mut self, setting: String) {
        self.settings.push(setting);
    }

    /// Kills the server, and waits until its processes for single connections are gone too. Each
    /// ends when it notices, and answers until then.
    pub async fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let children = child.id().map(children).unwrap_or_default();
        child.kill().await.expect("the server can be killed");
        let end = Instant::now() + READY_MAX;
        while children.iter().any(|child| parent(*child).is_some()) {
            assert!(Instant::now() < end, "{}", self.log());
            sleep(READY_POLL).await;
        }
    }

    /// Starts it again on what it left.
    pub async fn run(&mut self) {
        self.kill().await;
        let end = Instant::now() + READY_MAX;
        // After a kill it refuses to start until the last of its processes is gone.
        while !self.try_run(end).await {
            assert!(Instant::now() < end, "{}", self.log());
            sleep(READY_POLL).await;
        }
    }

    async fn try_run(&mut self, end: Instant) -> bool {
        // What the one before left there tells the new one whether processes of it are alive.
        let pid_file = self.data().join("postmaster.pid");
        let log = std::fs::File::create(self.folder.path().join("log")).expect("it can be made");
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.data());
        command.args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let child = command.stdout(Stdio::null()).stderr(log).kill_on_drop(true).spawn();
        let mut child = child.expect("postgres runs");
        while Instant::now() < end {
            if matches!(child.try_wait(), Ok(Some(_))) {
                return false;
            }
            let state = std::fs::read_to_string(&pid_file).unwrap_or_default();
            let mut lines = state.lines().map(str::trim);
            let is_its_own = lines.next().and_then(|id| id.parse().ok()) == child.id();
            if is_its_own && lines.nth(6) == Some("ready") {
                self.child = Some(child);
                return true;
            }
            sleep(READY_POLL).await;
        }
        false
    }

    /// Returns what the server wrote.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Returns the file with the user's password.
    pub fn password_file(&self) -> PathBuf {
        self.folder.path().join("password")
    }

    /// Returns the folder with the server's socket, which has the same port.
    pub fn socket_folder(&self) -> PathBuf {
        self.data()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(self.bin.join(program.as_ref()));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("LC_ALL", "C");
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn hand_over(path: &Path) {
        if is_root() {
            chown(path, Some(NOBODY), Some(NOBODY)).expect("root may do so");
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its children end when it does; waiting for it keeps its folder from being filled again.
        if let Some(child) = &mut self.child {
            drop(child.start_kill());
            while matches!(child.try_wait(), Ok(None)) {
                std::thread::yield_now();
            }
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
