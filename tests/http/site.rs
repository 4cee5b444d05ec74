//! Servers of the tests: one that answers by the path that it is asked for, and one that only counts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request as the server read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// An answer, head and body.
pub(crate) type Answer = Vec<u8>;

/// A server that notes every request; each connection is closed after its answer.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Site {
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (noted, answer) = (seen.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (noted, answer) = (noted.clone(), answer.clone());
                tokio::spawn(async move {
                    let request = read(&mut stream).await;
                    let bytes = answer(&request);
                    noted.lock().unwrap().push(request);
                    // Who hangs up early has had enough.
                    drop(stream.write_all(&bytes).await);
                    drop(stream.shutdown().await);
                });
            }
        });
        Self { address, seen }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes the requests since the last time.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

/// Counts the connections to one port on all addresses of this machine.
pub(crate) struct Trap {
    pub(crate) port: u16,
    pub(crate) count: Arc<AtomicUsize>,
}

impl Trap {
    pub(crate) async fn start() -> Self {
        // Where there is IPv6, one socket takes both kinds.
        let listener = match TcpListener::bind("[::]:0").await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind("0.0.0.0:0").await.unwrap(),
        };
        let port = listener.local_addr().unwrap().port();
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                drop(stream.write_all(&ok("caught")).await);
            }
        });
        let trap = Self { port, count };
        // It counts, or all that follows would prove nothing.
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).await.unwrap();
        assert_eq!(trap.count.swap(0, Ordering::SeqCst), 1);
        trap
    }

    pub(crate) fn caught(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

pub(crate) fn ok(body: &str) -> Answer {
    answer("200 OK", "content-type: text/plain\r\n", body)
}

pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n");
    format!("{head}connection: close\r\n\r\n{body}").into_bytes()
}

async fn read(stream: &mut TcpStream) -> Seen {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    drop(reader.read_line(&mut line).await);
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut seen = Seen {
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        ..Seen::default()
    };
    loop {
        let mut header = String::new();
        drop(reader.read_line(&mut header).await);
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        let value = match seen.headers.get(name) {
            Some(first) => format!("{first}, {value}"),
            None => value.to_owned(),
        };
        seen.headers.insert(name.to_owned(), value);
    }
    let length = seen.headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    drop(reader.read_exact(&mut body).await);
    seen.body = String::from_utf8_lossy(&body).into_owned();
    seen
}
