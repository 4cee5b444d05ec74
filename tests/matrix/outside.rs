//! The world outside of the daemon: a server that takes effect, keeps count, and never dies.
//!
//! It has one world for every life of a daemon. When a life ends in a crash, the next one gets a
//! copy of its world as it was at that moment; what is still under way there goes on by itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::camera::Camera;

/// How long an effect or an answer takes that is late.
const DELAY: Duration = Duration::from_millis(12);

/// Requests under one key that get no answer, where answers are dropped: the third attempt is fine.
const DROPPED: u32 = 2;

/// How the server treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// It takes effect a while later, and answers then.
    Before,
    /// It takes effect at once, and answers a while later.
    After,
    /// It takes effect, and cuts the connection.
    Drop,
    /// It takes effect, and says that it failed.
    Fault,
}

impl Mode {
    pub(crate) const ALL: [Self; 4] = [Self::Before, Self::After, Self::Drop, Self::Fault];
}

/// What came of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hit {
    pub(crate) tool: String,
    pub(crate) requests: u32,
    pub(crate) effects: u32,
    /// Probes that asked for it.
    probes: u32,
}

/// What the server remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) hits: BTreeMap<String, Hit>,
    /// Effects that are still to come, by key.
    pending: BTreeMap<String, u32>,
}

pub(crate) struct World {
    number: usize,
    mode: Mode,
    state: Mutex<State>,
    camera: OnceLock<Weak<Camera>>,
}

/// The server of all worlds.
pub(crate) struct Server {
    port: u16,
    runtime: Handle,
    begun: AtomicUsize,
    worlds: Arc<Mutex<HashMap<usize, Arc<World>>>>,
}

impl World {
    pub(crate) fn state(&self) -> State {
        self.state.lock().unwrap().clone()
    }

    pub(crate) fn show(&self, camera: &Arc<Camera>) {
        drop(self.camera.set(Arc::downgrade(camera)));
    }

    fn shoot(&self, name: &str) {
        if let Some(camera) = self.camera.get().and_then(Weak::upgrade) {
            camera.shoot(name);
        }
    }

    /// Takes effect under a key, as the tool does that honours it or does not.
    fn take_effect(&self, key: &str) {
        let mut state = self.state.lock().unwrap();
        let Some(left) = state.pending.get_mut(key) else { return };
        *left -= 1;
        if *left == 0 {
            state.pending.remove(key);
        }
        let hit = state.hits.entry(key.to_owned()).or_default();
        match hit.tool.as_str() {
            "price" => {}
            "stock" => hit.effects = 1,
            _ => hit.effects += 1,
        }
    }

    /// Says whether something was done under a key; if not, nothing that is under way will do it.
    pub(crate) fn settle(&self, key: &str) -> bool {
        let mut state = self.state.lock().unwrap();
        let done = state.hits.get(key).is_some_and(|hit| hit.effects > 0);
        if !done {
            state.pending.remove(key);
        }
        done
    }

    /// Does what a request asks for; returns the answer, none if the connection is to be cut.
    async fn perform(&self, tool: &str, key: &str) -> Option<(u16, String)> {
        let requests = {
            let mut state = self.state.lock().unwrap();
            *state.pending.entry(key.to_owned()).or_default() += 1;
            let hit = state.hits.entry(key.to_owned()).or_default();
            tool.clone_into(&mut hit.tool);
            hit.requests += 1;
            hit.requests
        };
        self.shoot("request taken");
        if self.mode == Mode::Before {
            sleep(DELAY).await;
        }
        self.take_effect(key);
        self.shoot("effect taken");
        if self.mode == Mode::After {
            sleep(DELAY).await;
        }
        let text = format!("LEDGER {key}");
        match self.mode {
            Mode::Before | Mode::After => Some((200, text)),
            Mode::Drop => (requests > DROPPED).then_some((200, text)),
            Mode::Fault => Some((500, text)),
        }
    }

    fn probe(&self, key: &str) -> Option<(u16, String)> {
        let done = self.settle(key);
        let mut state = self.state.lock().unwrap();
        let hit = state.hits.entry(key.to_owned()).or_default();
        hit.probes += 1;
        let answer = json!({"done": done, "result": format!("LEDGER {key}")}).to_string();
        (self.mode != Mode::Drop || hit.probes > 1).then_some((200, answer))
    }
}

impl Server {
    /// Starts to listen, on a runtime of its own that lives as long as the process.
    pub(crate) fn start() -> Self {
        let (told, port) = std::sync::mpsc::channel();
        let worlds = Arc::<Mutex<HashMap<usize, Arc<World>>>>::default();
        let served = worlds.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let port = listener.local_addr().unwrap().port();
                told.send((port, Handle::current())).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let served = served.clone();
                    tokio::spawn(async move { drop(serve(stream, &served).await) });
                }
            });
        });
        let (port, runtime) = port.recv().unwrap();
        Self { port, runtime, begun: AtomicUsize::new(0), worlds }
    }

    /// Makes a world that begins with what another one had come to.
    pub(crate) fn world(&self, mode: Mode, state: State) -> Arc<World> {
        // No number is used twice: what a dead node sent may still arrive.
        let number = self.begun.fetch_add(1, Ordering::SeqCst);
        let pending = state.pending.clone();
        let camera = OnceLock::new();
        let world = Arc::new(World { number, mode, state: Mutex::new(state), camera });
        self.worlds.lock().unwrap().insert(number, world.clone());
        for (key, count) in pending {
            let world = world.clone();
            self.runtime.spawn(async move {
                sleep(DELAY).await;
                (0..count).for_each(|_| world.take_effect(&key));
            });
        }
        world
    }

    pub(crate) fn end(&self, world: &World) {
        self.worlds.lock().unwrap().remove(&world.number);
    }

    /// Returns the address of a world.
    pub(crate) fn url(&self, world: &World) -> String {
        format!("http://127.0.0.1:{}/{}", self.port, world.number)
    }
}

/// What is read of one request.
#[derive(Default)]
struct Request {
    target: String,
    key: String,
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut key) = (0, String::new());
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "idempotency-key" => value.trim().clone_into(&mut key),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { target, key }))
}

async fn serve(
    stream: TcpStream,
    worlds: &Mutex<HashMap<usize, Arc<World>>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(Request { target, key }) = read(&mut stream).await? {
        let mut parts = target.trim_start_matches('/').splitn(2, '/');
        let number = parts.next().and_then(|number| number.parse().ok()).unwrap_or(usize::MAX);
        let path = parts.next().unwrap_or_default();
        let tool = path.split('?').next().unwrap_or_default();
        // Whoever asks of a world that has ended gets no answer.
        let Some(world) = worlds.lock().unwrap().get(&number).cloned() else { return Ok(()) };
        let answer = if let Some(key) = tool.strip_prefix("seen/") {
            world.probe(key)
        } else {
            // It takes effect whether or not somebody still waits for the answer.
            let tool = tool.to_owned();
            let done = tokio::spawn(async move { world.perform(&tool, &key).await });
            done.await.unwrap_or_default()
        };
        let Some((status, body)) = answer else { return Ok(()) };
        let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n");
        let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}
