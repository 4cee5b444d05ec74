//! An MCP server over HTTP that does what a test tells it.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use wire::Name;

use super::super::super::{Catalog, Listed, ServerSpec, Servers, Transport};
use super::super::tool;
use crate::client::http_client;
use crate::http::tests::read_request;

/// The header of all that is JSON.
pub(super) const JSON: &str = "content-type: application/json\r\n";

/// How long the server may take to list its tools.
pub(super) const START_MAX: Duration = Duration::from_secs(20);

/// A server over HTTP that closes every connection after its answer.
pub(super) struct Own {
    address: SocketAddr,
    task: JoinHandle<()>,
    pub(super) state: Arc<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// The only session that is taken; without one it needs none.
    pub(super) session: Mutex<Option<&'static str>>,
    /// How it refuses others: a status, and the id that it puts into what it says.
    pub(super) refusal: Mutex<Option<(&'static str, Value)>>,
    /// What it says of all its tools, and how it lists them.
    pub(super) description: Mutex<String>,
    pub(super) lists: Mutex<Lists>,
    /// Told with every handshake.
    pub(super) opened: Notify,
    /// Told with every request for the list that comes.
    pub(super) looked: Notify,
    /// Told with every call of a tool that comes.
    pub(super) called: Notify,
    /// Lets the tool `slow` answer.
    pub(super) go_on: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Lists {
    #[default]
    Well,
    Refuses,
    Silent,
}

impl Own {
    pub(super) async fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(super) async fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let served = state.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, served.clone()));
            }
        });
        Self { address, task, state }
    }

    /// Ends it; calls under way still get their answers.
    pub(super) async fn end(self) -> SocketAddr {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
        self.address
    }

    pub(super) fn connect(&self) -> Servers {
        let name = Name::new("own").unwrap();
        let url = format!("http://{}/mcp", self.address);
        let spec = ServerSpec {
            transport: Transport::Http { url, headers: Vec::new() },
            start_timeout: START_MAX,
            elicitation: false,
        };
        let pinned = Catalog { tools: listed() };
        Servers::start(vec![(name, spec, pinned)], &http_client().unwrap())
    }
}

pub(super) fn listed() -> Vec<Listed> {
    ["slow", "odd", "say", "refuse", "hang_up", "ask"]
        .map(|name| tool(name, json!({"type": "object"})))
        .to_vec()
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let asked = read_request(&mut stream).await;
    let session = asked.headers.get("mcp-session-id").cloned();
    let asked: Value = serde_json::from_str(&asked.body).unwrap_or_default();
    let known = *state.session.lock().unwrap();
    if session.is_some() && session.as_deref() != known {
        let refusal = state.refusal.lock().unwrap().clone();
        let Some((status, id)) = refusal else {
            return answer(&mut stream, "404 Not Found", "", "").await;
        };
        return answer(&mut stream, status, JSON, &error(&id, "No valid session ID")).await;
    }
    let method = asked["method"].as_str();
    let result = match method {
        Some("initialize") => {
            state.opened.notify_one();
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "own", "version": "1"},
            })
        }
        Some("tools/list") => {
            state.looked.notify_one();
            let (description, lists) =
                (state.description.lock().unwrap().clone(), *state.lists.lock().unwrap());
            match lists {
                Lists::Well => {}
                Lists::Refuses => return answer(&mut stream, "429 No", "", "").await,
                Lists::Silent => pending().await,
            }
            let tool = |listed: Listed| {
                let schema = json!({"type": "object"});
                json!({"name": listed.name, "description": description, "inputSchema": schema})
            };
            let tools: Vec<Value> = listed().into_iter().map(tool).collect();
            // It may be kept for a day.
            json!({"tools": tools, "ttlMs": 86_400_000, "cacheScope": "public"})
        }
        Some("tools/call") => {
            state.called.notify_one();
            let (name, arguments) = (&asked["params"]["name"], &asked["params"]["arguments"]);
            match name.as_str().unwrap() {
                "slow" => return stream_answer(&mut stream, &asked["id"], &state.go_on).await,
                "refuse" => {
                    let part = |name: &str| arguments[name].as_str().unwrap().to_owned();
                    let (status, headers) = (part("status"), part("headers"));
                    let body = match &arguments["id"] {
                        Value::Null => "so it is".to_owned(),
                        id => error(id, "so it is"),
                    };
                    return answer(&mut stream, &status, &headers, &body).await;
                }
                "hang_up" => return,
                "odd" => json!({"tools": []}),
                "ask" if asked["params"]["requestState"].is_null() => {
                    *state.session.lock().unwrap() = Some("second");
                    json!({"resultType": "input_required", "requestState": "asked"})
                }
                _ => json!({"content": [{"type": "text", "text": "said"}]}),
            }
        }
        _ => Value::Null,
    };
    let body = match (asked.get("id"), result) {
        (Some(id), Value::Null) => error(id, "Method not found"),
        (Some(id), result) => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
        (None, _) if asked.is_object() => return answer(&mut stream, "202 Accepted", "", "").await,
        (None, _) => return answer(&mut stream, "405 Method Not Allowed", "", "").await,
    };
    let named = known.filter(|_| method == Some("initialize"));
    let named = named.map(|known| format!("mcp-session-id: {known}\r\n")).unwrap_or_default();
    answer(&mut stream, "200 OK", &format!("{JSON}{named}"), &body).await;
}

/// Writes a refusal of the protocol.
fn error(id: &Value, message: &str) -> String {
    let error = json!({"code": -32601, "message": message});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

async fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\n");
    let answer = format!("{head}content-length: {length}\r\n\r\n{body}");
    // Who hangs up early has had enough.
    drop(stream.write_all(answer.as_bytes()).await);
}

/// Answers by a stream that is open before there is something to say.
async fn stream_answer(stream: &mut TcpStream, id: &Value, go_on: &Notify) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    drop(stream.write_all(head.as_bytes()).await);
    go_on.notified().await;
    let result = json!({"content": [{"type": "text", "text": "done"}]});
    let result = json!({"jsonrpc": "2.0", "id": id, "result": result});
    drop(stream.write_all(format!("data: {result}\n\n").as_bytes()).await);
}
