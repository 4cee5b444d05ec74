//! A node in this process, and a server that speaks as Ollama does and keeps what it was sent.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bus::Bus;
use journal::Holder;
use node::{Node, NodeOptions};
use serde_json::{Value, json};
use tests::daemon::root;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use wire::{Headers, Name, RunReply, SessionId, SpanRecord, Subjects, Timestamp};

/// The longest wait for an answer, on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// What a server was asked: the path with its query, and the body.
pub(crate) type Asked = (String, Value);

/// A server that answers chats by one reply after the other, and everything else by its path.
pub(crate) struct Server {
    pub(crate) url: String,
    stage: Arc<Mutex<Stage>>,
}

/// The replies that are played, and what was asked since the first of them was.
#[derive(Default)]
struct Stage {
    replies: Vec<String>,
    asked: Vec<Asked>,
}

impl Server {
    pub(crate) async fn start(
        replies: &[impl ToString],
        services: Vec<(&'static str, Value)>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stage: Arc<Mutex<Stage>> = Arc::default();
        let (services, on_stage) = (Arc::new(services), stage.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (services, stage) = (services.clone(), on_stage.clone());
                tokio::spawn(async move { drop(serve(stream, &services, &stage).await) });
            }
        });
        let server = Self { url, stage };
        server.play(replies);
        server
    }

    /// Plays other replies, and forgets what was asked.
    pub(crate) fn play(&self, replies: &[impl ToString]) {
        let replies = replies.iter().map(ToString::to_string).collect();
        *self.stage.lock().unwrap() = Stage { replies, asked: Vec::new() };
    }

    /// Returns the chats that it was asked for, in order.
    pub(crate) fn chats(&self) -> Vec<Value> {
        self.asked("/api/chat").into_iter().map(|(_, body)| body).collect()
    }

    /// Returns the requests whose path begins with this.
    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        let stage = self.stage.lock().unwrap();
        stage.asked.iter().filter(|(known, _)| known.starts_with(path)).cloned().collect()
    }
}

async fn serve(
    stream: TcpStream,
    services: &[(&'static str, Value)],
    stage: &Mutex<Stage>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        if stream.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let path = first.split(' ').nth(1).unwrap().to_owned();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let reply = {
            let mut stage = stage.lock().unwrap();
            stage.asked.push((path.clone(), body));
            let chats = stage.asked.iter().filter(|(path, _)| path == "/api/chat").count();
            stage.replies.get(chats.saturating_sub(1)).cloned()
        };
        let answer = match services.iter().find(|(service, _)| path.starts_with(service)) {
            Some((_, answer)) => answer.clone(),
            None => json!({
                "message": {"role": "assistant", "content": reply}, "done": true,
                "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1,
            }),
        };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        stream.write_all((head + &answer).as_bytes()).await?;
    }
}

/// The folder of the teams.
pub(crate) fn seeds() -> PathBuf {
    root().join("config/teams/seeds")
}

/// A team at work.
pub(crate) struct House {
    node: Node,
    team: Name,
    _data: tempfile::TempDir,
}

impl House {
    /// Starts a team as it is shipped.
    pub(crate) async fn shipped(file: &str) -> Self {
        Self::load(&seeds().join(file), tempfile::tempdir().unwrap()).await
    }

    /// Starts a team from a text that names the files of the shipped ones.
    pub(crate) async fn changed(name: &str, text: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        for folder in ["json-prompt", "movies"] {
            std::os::unix::fs::symlink(seeds().join(folder), data.path().join(folder)).unwrap();
        }
        let file = data.path().join(name);
        std::fs::write(&file, text).unwrap();
        Self::load(&file, data).await
    }

    async fn load(file: &Path, data: tempfile::TempDir) -> Self {
        let team = config::load(file).unwrap_or_else(|report| panic!("{}", report.render(false)));
        let name = team.name.clone();
        let holder = Holder {
            pid: std::process::id(),
            program: "test".to_owned(),
            listen: None,
            nats: None,
            since: Timestamp::from_micros(0),
        };
        let folder = data.path().join("data");
        let options =
            NodeOptions { data: folder, holder, subjects: Subjects::default(), reserve_bytes: 0 };
        let node = Node::start(vec![team], Bus::local(), options).await.unwrap();
        Self { node, team: name, _data: data }
    }

    /// Asks an agent, or the one that stands at the entry.
    pub(crate) async fn ask(
        &self,
        agent: Option<&str>,
        input: &str,
        session: Option<&SessionId>,
    ) -> RunReply {
        let team = self.node.team(self.team.as_str()).unwrap();
        let agent = agent.map_or(team.team().entry.clone(), |agent| Name::new(agent).unwrap());
        let subject = team.subjects().agent_run(&self.team, &agent);
        let body = json!({"input": input, "session": session}).to_string();
        let headers = Headers::new();
        let answer =
            self.node.bus().request(&subject, headers, body.into(), ANSWER_MAX).await.unwrap();
        let text = String::from_utf8_lossy(&answer.payload).into_owned();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Returns the spans of a run.
    pub(crate) async fn spans(&self, reply: &RunReply) -> Vec<SpanRecord> {
        let team = self.node.team(self.team.as_str()).unwrap();
        team.settle().await;
        team.store().trace(&reply.trace_id).unwrap()
    }

    pub(crate) async fn end(self) {
        self.node.drain(Duration::from_secs(5)).await;
    }
}

/// Returns the messages of a chat, each as who and what.
pub(crate) fn said(chat: &Value) -> Vec<(&str, &str)> {
    let messages = chat["messages"].as_array().unwrap().iter();
    messages.map(|m| (m["role"].as_str().unwrap(), m["content"].as_str().unwrap())).collect()
}

/// Returns the calls of a run: each tool, its arguments and what came of it.
pub(crate) fn calls(reply: &RunReply) -> Vec<(&str, Value, &str)> {
    let calls = reply.sources.iter();
    calls.map(|call| (call.tool.as_str(), call.arguments.clone(), &*call.output)).collect()
}
