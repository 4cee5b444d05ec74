//! Runs a team whose model makes the calls that a test wants.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bus::Bus;
use config::Team;
use journal::Holder;
use node::{Node, NodeOptions, Sourced};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::daemon::root;
use tests::install::install;
use tokio::task::JoinHandle;
use wire::run::Source;
use wire::{Headers, Name, RunReply, RunStatus, Subjects, Timestamp};

/// The longest wait for an answer, on a busy machine.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long a node may take to end.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// A node that runs one team, in a folder of its own.
pub(crate) struct House {
    pub(crate) folder: TempDir,
    pub(crate) bus: Bus,
    pub(crate) node: Option<Node>,
    watch: Option<JoinHandle<()>>,
}

/// The servers that were installed.
pub(crate) struct Installed {
    pub(crate) node: String,
    pub(crate) packages: PathBuf,
    pub(crate) python: String,
}

pub(crate) async fn installed() -> Installed {
    let lines = install("mcp/servers.sh").await;
    let [node, packages, python] = lines.as_slice() else { panic!("{lines:?}") };
    Installed { node: node.clone(), packages: packages.into(), python: python.clone() }
}

impl Installed {
    /// Returns the command of a published server, as it stands in a team file.
    pub(crate) fn published(&self, name: &str, arguments: &[&str]) -> String {
        let main = self.packages.join(format!("server-{name}/dist/index.js"));
        let words = [self.node.as_str(), main.to_str().unwrap()];
        json!([words.as_slice(), arguments].concat()).to_string()
    }

    /// Returns the words that start the server of the SDK.
    pub(crate) fn sdk(&self, argument: &str) -> Vec<String> {
        let script = root().join("tests/mcp/sdk.py");
        vec![self.python.clone(), script.display().to_string(), argument.to_owned()]
    }

    /// Returns the command of our own server, which keeps its state in the folder of the team.
    pub(crate) fn own(&self) -> String {
        let script = root().join("tests/mcp/server.py");
        json!([self.python, script, "."]).to_string()
    }
}

impl House {
    /// Makes a team: one agent with some tools, and a model that makes the call of a number when
    /// it is told that number.
    pub(crate) fn new(tools: &[&str], servers: &str, calls: &[(&str, Value)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut script = String::new();
        for (index, (name, arguments)) in calls.iter().enumerate() {
            let when = format!("(^|\n)call {index}$");
            let line = json!({"when": when, "calls": [{"name": name, "arguments": arguments}]});
            script.push_str(&line.to_string());
            script.push('\n');
        }
        script.push_str("{\"content\": \"no such call\"}\n{\"content\": \"done\"}\n");
        std::fs::write(folder.path().join("model.jsonl"), script).unwrap();
        let team = format!(
            "[models.model]\nprovider = \"scripted\"\nscript = \"model.jsonl\"\n\
             [permissions]\nallow = [\"*\"]\n\
             [agents.caller]\ninstructions = \"Call.\"\nmodel = \"model\"\ntools = {}\n{servers}\n",
            json!(tools)
        );
        std::fs::write(folder.path().join("crew.toml"), team).unwrap();
        Self { folder, bus: Bus::local(), node: None, watch: None }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("crew.toml")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn load(&self) -> Team {
        let team = config::load(&self.file());
        team.unwrap_or_else(|report| panic!("{}", report.render(false)))
    }

    /// Loads the team with what its servers list.
    pub(crate) async fn complete(&self) -> Team {
        self.with_sources().await.1
    }

    async fn with_sources(&self) -> (Sourced, Team) {
        let loaded = Sourced::load(&self.file(), &self.data(), None).await;
        loaded.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn start(&mut self) {
        let (sources, team) = self.with_sources().await;
        let holder = Holder::this_process("test", Timestamp::from_micros(0));
        let subjects = Subjects::default();
        let options = NodeOptions { data: self.data(), holder, subjects, reserve_bytes: 0 };
        let node = Node::start(vec![team], self.bus.clone(), options).await.unwrap();
        let handle = node.team("crew").unwrap().clone();
        self.watch = Some(tokio::spawn(sources.watch(handle)));
        self.node = Some(node);
    }

    pub(crate) async fn started(tools: &[&str], servers: &str, calls: &[(&str, Value)]) -> Self {
        let mut house = Self::new(tools, servers, calls);
        house.start().await;
        house
    }

    /// Has the agent make the call of a number, and returns what came of it.
    pub(crate) async fn call(&self, index: usize) -> Source {
        let reply = self.run(index).await;
        let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
        source.clone()
    }

    pub(crate) async fn run(&self, index: usize) -> RunReply {
        let (team, agent) = (Name::new("crew").unwrap(), Name::new("caller").unwrap());
        let subject = Subjects::default().agent_run(&team, &agent);
        let body = json!({"input": format!("call {index}")}).to_string();
        let answer = self.bus.request(&subject, Headers::new(), body.into(), ANSWER_MAX).await;
        let reply: RunReply = serde_json::from_slice(&answer.unwrap().payload).unwrap();
        assert_eq!(reply.status, RunStatus::Completed, "{reply:?}");
        reply
    }

    pub(crate) async fn end(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
            assert!(watch.await.unwrap_err().is_cancelled());
        }
        if let Some(node) = self.node.take() {
            node.drain(DRAIN_MAX).await;
        }
    }
}

/// Waits for something that has to come true, on a busy machine.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let come = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(ANSWER_MAX, come).await.unwrap_or_else(|_| panic!("never: {what}"));
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
