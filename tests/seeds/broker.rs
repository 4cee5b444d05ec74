//! Brokers of events: one that a test answers for, the one that is shipped, and one by another's SDK.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tests::install::install;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tools::cloudevent::event::{CloudEvent, Mode};

use crate::house::{ANSWER_MAX, seeds};

/// A broker that hands every event to the test and gives the test's response.
pub(crate) struct Broker {
    pub(crate) url: String,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
}

/// An event that came.
pub(crate) struct Arrival {
    pub(crate) event: CloudEvent,
    respond: oneshot::Sender<String>,
}

impl Broker {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, arrivals) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, sender.clone()));
            }
        });
        Self { url, arrivals }
    }

    /// Returns the next event.
    pub(crate) async fn next(&mut self) -> Arrival {
        timeout(ANSWER_MAX, self.arrivals.recv()).await.unwrap().unwrap()
    }

    /// Expects that no event came since the last one.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.arrivals.try_recv().is_err()
    }
}

impl Arrival {
    /// Gives a response without an event, such as `202 Accepted`.
    pub(crate) fn answer(self, status: &str) {
        drop(
            self.respond.send(format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )),
        );
    }

    /// Gives an event as the response.
    pub(crate) fn reply(self, event: &CloudEvent) {
        let written = event.write(Mode::Binary);
        let mut lines = vec!["HTTP/1.1 200 OK".to_owned(), "connection: close".to_owned()];
        lines.extend(written.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        lines.push(format!("content-length: {}", written.body.len()));
        let head = lines.join("\r\n") + "\r\n\r\n";
        drop(self.respond.send(head + &String::from_utf8(written.body).unwrap()));
    }

    /// Makes an event that answers this one.
    pub(crate) fn response(&self, media_type: &str, data: &str) -> CloudEvent {
        response_to(&self.event.id, media_type, data)
    }
}

/// Makes an event that answers another one.
pub(crate) fn response_to(id: &str, media_type: &str, data: &str) -> CloudEvent {
    CloudEvent {
        id: format!("reply-{id}"),
        source: "/function".to_owned(),
        kind: "function.response".to_owned(),
        data_content_type: Some(media_type.to_owned()),
        attributes: [("responseid".to_owned(), id.to_owned())].into(),
        data: data.as_bytes().to_vec(),
    }
}

async fn serve(stream: TcpStream, arrivals: mpsc::UnboundedSender<Arrival>) {
    let mut reader = BufReader::new(stream);
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body).await.unwrap();
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let event = CloudEvent::read(headers, &body).unwrap().unwrap();
    let (respond, response) = oneshot::channel();
    drop(arrivals.send(Arrival { event, respond }));
    if let Ok(response) = response.await {
        drop(reader.write_all(response.as_bytes()).await);
        drop(reader.shutdown().await);
    }
}

/// A program that says in its first line where it is; it ends with this.
pub(crate) struct Script {
    pub(crate) said: Value,
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Script {
    async fn start(python: &str, script: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(python)
            .arg(script)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next_line().await.unwrap().unwrap();
        let said = serde_json::from_str(&first).unwrap_or(Value::String(first));
        Self { said, lines, _child: child }
    }

    /// Starts the broker that is shipped beside the team.
    pub(crate) async fn shipped(args: &[&str]) -> Self {
        Self::shipped_at("0", args).await
    }

    /// The same on a port.
    pub(crate) async fn shipped_at(port: &str, args: &[&str]) -> Self {
        let args = [&[port], args].concat();
        Self::start("python3", &seeds().join("knative/broker.py"), &args).await
    }

    /// Starts the receiver that reads events by the SDK.
    pub(crate) async fn receiver(args: &[&str]) -> Self {
        let python = install("cloudevents.sh").await.concat();
        Self::start(&python, &tests::daemon::root().join("tests/seeds/receiver.py"), args).await
    }

    pub(crate) fn url(&self) -> &str {
        self.said.as_str().unwrap()
    }

    /// Returns what it says next.
    pub(crate) async fn next(&mut self) -> Value {
        let line = timeout(Duration::from_secs(60), self.lines.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }
}
