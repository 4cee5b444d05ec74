//! An HTTP server that answers as a test says.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A running server; it ends with the test's runtime.
pub struct Server {
    /// Its address, without a path.
    pub url: String,
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its path, with the query.
    pub path: String,
    /// All up to the body, as it came.
    pub head: String,
    /// The body as JSON, or as a text if it is none; null where there is none.
    pub body: Value,
}

impl Request {
    /// Returns the prompt of a completion.
    pub fn prompt(&self) -> &str {
        let prompt = self.body.get("prompt").and_then(Value::as_str);
        prompt.unwrap_or_else(|| panic!("no prompt: {}", self.body))
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Further headers, each a line.
    pub headers: Vec<String>,
    /// The body, said to be JSON.
    pub body: String,
}

impl Answer {
    /// Makes an answer of a status and a body.
    pub fn new(status: u16, body: &Value) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string() }
    }
}

impl Server {
    /// Starts a server on a free port of the loopback interface.
    pub async fn start(answer: impl Fn(Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("the listener is open");
                let answer = answer.clone();
                tokio::spawn(async move { serve(stream, &*answer).await });
            }
        });
        Self { url: format!("http://{address}") }
    }
}

async fn serve(mut stream: TcpStream, answer: &(dyn Fn(Request) -> Answer + Send + Sync)) {
    let Some(request) = read_request(&mut stream).await else { return };
    let Answer { status, headers, body } = answer(request);
    let length = format!("content-length: {}", body.len());
    let mut lines = vec![format!("HTTP/1.1 {status} Status"), "connection: close".to_owned()];
    lines.extend(["content-type: application/json".to_owned(), length]);
    lines.extend(headers);
    let head = lines.join("\r\n") + "\r\n\r\n";
    // The client may have gone, which is no fault of the test.
    drop(stream.write_all((head + &body).as_bytes()).await);
    drop(stream.shutdown().await);
}

async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(bytes.get(..end)?).into_owned();
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(Some(0), |length| length.parse().ok())?;
            let body = bytes.get(end + 4..)?;
            if body.len() >= length {
                let mut words = head.split(' ').map(str::to_owned);
                let (method, path) = (words.next()?, words.next()?);
                let text = || Value::String(String::from_utf8_lossy(body).into_owned());
                let body = match body {
                    [] => Value::Null,
                    body => serde_json::from_slice(body).unwrap_or_else(|_| text()),
                };
                return Some(Request { method, path, head, body });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
