//! Starts the team of a published system, and asks it as a client does.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bus::{Bus, Message, Subscription};
use journal::Holder;
use node::{Node, NodeOptions, TeamHandle};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::daemon::root;
use tokio::time::{Instant, sleep};
use wire::{
    Headers, ModelRequest, Name, RunId, RunReply, RunStatus, SpanRecord, Subjects, Timestamp,
};

/// The longest wait for an answer, on a busy machine.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long the tasks of a node that ended may hold its store, on a busy machine.
const FREE_MAX: Duration = Duration::from_secs(10);

/// How often it is tried whether they still do.
const FREE_POLL: Duration = Duration::from_millis(20);

/// How long a run may go on that the end of its node interrupts.
const INTERRUPTED_AFTER: Duration = Duration::from_millis(50);

/// A node that runs one team, in a folder of its own.
pub(crate) struct House {
    folder: TempDir,
    name: String,
    bus: Bus,
    pub(crate) node: Node,
}

/// Returns the text of a shipped team.
pub(crate) fn shipped(name: &str) -> String {
    std::fs::read_to_string(seeds().join(format!("{name}.toml"))).unwrap()
}

pub(crate) fn seeds() -> PathBuf {
    root().join("config/teams/seeds")
}

/// Changes a text that has to be there.
pub(crate) fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in the team file");
    text.replace(from, to)
}

/// Puts models on servers, by the tables that stand in the team file as comments.
///
/// A server of a test needs no key and answers in one piece.
pub(crate) fn on_servers(team: &str, models: &[(&str, &str)]) -> String {
    let mut blocks: Vec<String> = team.split("\n\n").map(str::to_owned).collect();
    for (model, url) in models {
        let head = format!("[models.{model}]");
        let commented = format!("# {head}\n");
        blocks.retain(|block| !block.starts_with(&head));
        let block = blocks.iter_mut().find(|block| block.contains(&commented)).unwrap();
        let (_, after) = block.split_once(&commented).unwrap();
        let commented = format!("{commented}{after}");
        let lines = commented.lines().map(|line| line.trim_start_matches("# "));
        let kept = lines.filter(|line| {
            !["base_url", "api_key_env", "stream"].iter().any(|key| line.starts_with(key))
        });
        let table = kept.collect::<Vec<_>>().join("\n");
        *block = format!("{table}\nbase_url = {url:?}\nstream = false");
    }
    blocks.join("\n\n")
}

impl House {
    /// Starts a shipped team as it is.
    pub(crate) async fn shipped(name: &str) -> Self {
        Self::of(name, &shipped(name)).await
    }

    /// Starts a team of some text, beside the files of the shipped one.
    pub(crate) async fn of(name: &str, text: &str) -> Self {
        Self::on(Bus::local(), name, text).await
    }

    /// The same on a bus.
    pub(crate) async fn on(bus: Bus, name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        furnish(folder.path(), name, text);
        let node = start(folder.path(), name, &bus).await;
        Self { folder, name: name.to_owned(), bus, node }
    }

    /// Ends the node and starts another one on what it left.
    pub(crate) async fn restarted(self) -> Self {
        let Self { folder, name, bus, node } = self;
        node.drain(INTERRUPTED_AFTER).await;
        drop(node);
        let node = start(folder.path(), &name, &bus).await;
        Self { folder, name, bus, node }
    }

    /// The same without what may be deleted at any time.
    pub(crate) async fn without_store(self) -> Self {
        let Self { folder, name, bus, node } = self;
        node.drain(Duration::from_secs(5)).await;
        drop(node);
        std::fs::remove_dir_all(folder.path().join("data").join(&name).join("store")).unwrap();
        let node = start(folder.path(), &name, &bus).await;
        Self { folder, name, bus, node }
    }

    pub(crate) fn team(&self) -> &TeamHandle {
        self.node.team(&self.name).unwrap()
    }

    /// Returns the subject of an agent.
    pub(crate) fn agent(&self, name: &str) -> String {
        let team = self.team();
        team.subjects().agent_run(&team.team().name, &Name::new(name).unwrap())
    }

    /// Returns the subject of a run's verb, such as `status`.
    pub(crate) fn run(&self, run: &RunId, verb: wire::subject::RunVerb) -> String {
        let team = self.team();
        team.subjects().run(&team.team().name, run, verb)
    }

    /// Asks on a subject and waits for the answer.
    pub(crate) async fn request(&self, subject: &str, headers: Headers, body: &Value) -> Value {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let answer = self.bus.request(subject, headers, body.into(), ANSWER_MAX).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    }

    /// Asks an agent for a run and waits for its reply.
    pub(crate) async fn ask(&self, agent: &str, request: Value) -> RunReply {
        let answer = self.request(&self.agent(agent), Headers::new(), &request).await;
        serde_json::from_value(answer.clone()).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Says something to the team, and expects that it completes.
    pub(crate) async fn say(&self, input: &str) -> RunReply {
        let reply = self.put(input).await;
        assert_eq!(reply.status, RunStatus::Completed, "{input}: {reply:?}");
        reply
    }

    /// Says something to the team, whatever comes of it.
    pub(crate) async fn put(&self, input: &str) -> RunReply {
        self.ask(self.team().team().entry.as_str(), json!({"input": input})).await
    }

    /// Says something in the session of an earlier run.
    pub(crate) async fn in_session(&self, earlier: &RunReply, input: &str) -> RunReply {
        let request = json!({"input": input, "session": earlier.session});
        self.ask(self.team().team().entry.as_str(), request).await
    }

    /// Returns the spans of a run.
    pub(crate) async fn spans(&self, reply: &RunReply) -> Vec<SpanRecord> {
        self.team().settle().await;
        self.team().store().trace(&reply.trace_id).unwrap()
    }

    /// Hears what a model is asked from here on.
    pub(crate) async fn hear(&self, model: &str) -> Subscription {
        let team = self.team();
        let subject = team.subjects().model(&team.team().name, &Name::new(model).unwrap());
        self.bus.subscribe(&subject, None).await.unwrap()
    }

    /// Hears all events of the team's sessions from here on.
    pub(crate) async fn events(&self) -> Subscription {
        let team = self.team();
        let subject = team.subjects().all_session_events(&team.team().name);
        self.bus.subscribe(&subject, None).await.unwrap()
    }

    /// Ends the node.
    pub(crate) async fn end(self) {
        self.node.drain(Duration::from_secs(5)).await;
    }
}

/// Writes a team beside the files of the shipped ones, and returns its file.
pub(crate) fn furnish(folder: &Path, name: &str, text: &str) -> PathBuf {
    for entry in std::fs::read_dir(seeds()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            symlink(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, text).unwrap();
    file
}

/// Starts a node; on what another one left as soon as the last of its tasks lets go of it.
async fn start(folder: &Path, name: &str, bus: &Bus) -> Node {
    let file = folder.join(format!("{name}.toml"));
    let end = Instant::now() + FREE_MAX;
    loop {
        let team = config::load(&file).unwrap_or_else(|report| panic!("{}", report.render(false)));
        let holder = Holder::this_process("test", Timestamp::from_micros(0));
        let data = folder.join("data");
        let options = NodeOptions { data, holder, subjects: Subjects::default(), reserve_bytes: 0 };
        match Node::start(vec![team], bus.clone(), options).await {
            Ok(node) => return node,
            Err(error) if Instant::now() > end => panic!("{error}"),
            Err(_) => sleep(FREE_POLL).await,
        }
    }
}

/// Returns the next message of a subscription.
pub(crate) async fn next(messages: &mut Subscription) -> Message {
    tokio::time::timeout(ANSWER_MAX, messages.next()).await.unwrap().unwrap()
}

/// Returns the texts of the next request to a model, role by role.
pub(crate) async fn heard(requests: &mut Subscription) -> Vec<String> {
    let request: ModelRequest = serde_json::from_slice(&next(requests).await.payload).unwrap();
    request.messages.iter().map(|message| message.content().to_owned()).collect()
}

/// Expects the calls of a run in order, each with its arguments, its status and its text.
pub(crate) fn check(reply: &RunReply, expected: &[(&str, Value, &str, &str)]) {
    let calls = reply.sources.iter().map(|source| {
        (
            source.tool.as_str(),
            Value::clone(&source.arguments),
            source.status.as_str(),
            &*source.output,
        )
    });
    assert_eq!(calls.collect::<Vec<_>>(), expected);
}

/// Returns the messages of a chat, each as who and what.
pub(crate) fn said(chat: &Value) -> Vec<(&str, &str)> {
    let messages = chat["messages"].as_array().unwrap().iter();
    messages.map(|m| (m["role"].as_str().unwrap(), m["content"].as_str().unwrap())).collect()
}

/// Returns the calls of a run: each tool, its arguments and what came of it.
pub(crate) fn calls(reply: &RunReply) -> Vec<(&str, Value, &str)> {
    let calls = reply.sources.iter();
    calls.map(|call| (call.tool.as_str(), Value::clone(&call.arguments), &*call.output)).collect()
}
