//! An HTTP server that answers each request with given bytes, pauses and silences.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// What the server does with a connection after it has read the request; then it closes it.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends some bytes.
    Send(Vec<u8>),
    /// Sends some bytes one by one, with a pause after each.
    Drip(Vec<u8>, Duration),
    /// Says nothing for a time.
    Pause(Duration),
    /// Says nothing until the client closes the connection.
    Hang,
}

/// What the server saw.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A request: its head, and its body.
    Request(String, Value),
    /// The client closed a connection on which the server was silent.
    Closed,
}

/// A running server; it ends with the test's runtime.
pub(crate) struct Server {
    pub(crate) base_url: String,
    seen: mpsc::UnboundedReceiver<Seen>,
}

impl Server {
    /// Starts a server that plays one list of steps for each request, and the last for all more.
    ///
    /// Requests are counted and not connections, since a client may open one to have it.
    pub(crate) async fn start(plays: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (tx, seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let plays = Arc::new(Mutex::new(VecDeque::from(plays)));
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&plays), tx.clone()));
            }
        });
        Self { base_url, seen }
    }

    /// Waits for what is seen next.
    pub(crate) async fn next(&mut self) -> Seen {
        self.seen.recv().await.unwrap()
    }

    /// Returns the requests that came so far.
    pub(crate) fn requests(&mut self) -> Vec<(String, Value)> {
        let mut requests = Vec::new();
        while let Ok(seen) = self.seen.try_recv() {
            if let Seen::Request(head, body) = seen {
                requests.push((head, body));
            }
        }
        requests
    }
}

fn next_play(plays: &Mutex<VecDeque<Vec<Step>>>) -> Vec<Step> {
    let mut plays = plays.lock().unwrap();
    let play = if plays.len() > 1 { plays.pop_front() } else { plays.front().cloned() };
    play.unwrap_or_default()
}

async fn serve(
    mut stream: TcpStream,
    plays: Arc<Mutex<VecDeque<Vec<Step>>>>,
    seen: mpsc::UnboundedSender<Seen>,
) {
    stream.set_nodelay(true).unwrap();
    let Some((head, body)) = read_request(&mut stream).await else { return };
    drop(seen.send(Seen::Request(head, body)));
    for step in next_play(&plays) {
        // The client may have gone, which is no fault of the test.
        let sent = match step {
            Step::Send(bytes) => stream.write_all(&bytes).await,
            Step::Drip(bytes, pause) => drip(&mut stream, &bytes, pause).await,
            Step::Pause(pause) => {
                sleep(pause).await;
                Ok(())
            }
            Step::Hang => {
                let mut rest = [0; 64];
                while matches!(stream.read(&mut rest).await, Ok(len) if len > 0) {}
                drop(seen.send(Seen::Closed));
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
    drop(stream.shutdown().await);
}

async fn drip(stream: &mut TcpStream, bytes: &[u8], pause: Duration) -> std::io::Result<()> {
    for byte in bytes {
        stream.write_all(&[*byte]).await?;
        stream.flush().await?;
        sleep(pause).await;
    }
    Ok(())
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.unwrap().parse().unwrap();
            let body = &bytes[end + 4..];
            if body.len() >= length {
                return Some((head, serde_json::from_slice(body).unwrap()));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Makes an answer of a status, further headers and a body.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} Status\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Makes an answer in one piece.
pub(crate) fn whole(body: &str) -> Vec<u8> {
    answer(200, "content-type: application/json\r\n", body)
}

/// Makes a reply of one text in one piece.
pub(crate) fn said(text: &str) -> Vec<u8> {
    whole(&format!(
        r#"{{"model":"gpt-1","choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":5,"completion_tokens":2}}}}"#
    ))
}

/// Makes the head of a stream that lasts until the connection is closed.
pub(crate) fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n".to_vec()
}

/// Makes a stream of events in chunked encoding; `whole` says whether its end is marked.
pub(crate) fn chunked(events: &[&str], whole: bool) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\
        content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        .to_vec();
    for event in events {
        let event = format!("data: {event}\n\n");
        bytes.extend(format!("{:x}\r\n{event}\r\n", event.len()).bytes());
    }
    if whole {
        bytes.extend(b"0\r\n\r\n");
    }
    bytes
}
