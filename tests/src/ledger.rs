//! A server outside of the daemon that counts effects by the key of their calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The ledger; effects are counted as soon as a request is read, before it is answered.
#[derive(Clone)]
pub struct Ledger {
    port: u16,
    hits: Arc<Mutex<HashMap<String, u32>>>,
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
        self.hits.lock().expect("not poisoned").clone()
    }
}

async fn serve(stream: TcpStream, hits: Arc<Mutex<HashMap<String, u32>>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut key = None;
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
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
        *hits.lock().expect("not poisoned").entry(key.clone()).or_default() += 1;
        let body = format!("LEDGER {key}");
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await?;
    }
}
