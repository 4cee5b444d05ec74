//! A server outside of the daemon that counts effects by the key of their calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The ledger; effects are counted as soon as a request is read, before it is answered.
#[derive(Clone)]
pub struct Ledger {
    port: u16,
    hits: Arc<Mutex<HashMap<String, Hit>>>,
}

/// What was asked for under one key.
#[derive(Clone, Debug, Default)]
pub struct Hit {
    /// The path that was asked first.
    pub path: String,
    /// How often it was asked.
    pub count: u32,
    /// Another path was asked under the same key.
    pub is_mixed: bool,
}

impl Ledger {
    /// Starts to listen.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let ledger = Self { port, hits: Arc::default() };
        let hits = ledger.hits.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let hits = hits.clone();
                tokio::spawn(async move { drop(serve(stream, hits).await) });
            }
        });
        ledger
    }

    /// Returns the address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns how often each key was seen.
    pub fn hits(&self) -> HashMap<String, u32> {
        self.seen().into_iter().map(|(key, hit)| (key, hit.count)).collect()
    }

    /// Returns what was asked for under each key.
    pub fn seen(&self) -> HashMap<String, Hit> {
        self.hits.lock().expect("not poisoned").clone()
    }
}

async fn serve(stream: TcpStream, hits: Arc<Mutex<HashMap<String, Hit>>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut key = None;
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let target = line.split(' ').nth(1).unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "idempotency-key" => key = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let key = key.unwrap_or_default();
        note(&mut hits.lock().expect("not poisoned"), &key, path);
        let body = format!("LEDGER {key}");
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await?;
    }
}

fn note(hits: &mut HashMap<String, Hit>, key: &str, path: String) {
    let hit = hits.entry(key.to_owned()).or_default();
    if hit.count == 0 {
        hit.path = path;
    } else {
        hit.is_mixed |= hit.path != path;
    }
    hit.count += 1;
}
