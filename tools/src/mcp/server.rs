//! Keeps the connection to a server: makes it, looks what is listed, and makes it anew when lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::service::{Peer, RoleClient};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use wire::{ErrorCode, Name, WireError};

use super::ServerSpec;
use super::calls::Calls;
use super::catalog::{Catalog, Change, Listed};
use super::dial::{Connection, dial};
use super::look::{look, look_again};

/// The first wait before a lost server is tried again; a program that crashed is back at once.
const BACKOFF_MIN: Duration = Duration::from_millis(250);

/// The longest such wait: a person who mends a server does not wait much longer for it.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// A connection that held for so long was sound, and the next wait is a short one again.
const SOUND_AFTER: Duration = Duration::from_secs(30);

/// How long a call waits for a server to come back that was away before, until it is told so. Longer
/// than common servers take to start, and short beside the time of a call.
const AWAY_MAX: Duration = Duration::from_secs(5);

/// How long is waited before a server is asked again for its list, so that one that says over and
/// over that it changed is not asked as often.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// The servers of a team, by name.
#[derive(Clone, Default)]
pub struct Servers(Arc<Kept>);

/// The servers that are kept until the last one who knows them is gone.
#[derive(Default)]
struct Kept(BTreeMap<Name, Arc<Server>>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.values().for_each(|server| server.stop.cancel());
    }
}

impl Servers {
    /// Starts to connect to all servers, in the background, and goes on doing so until closed.
    ///
    /// Each comes with what is pinned of it.
    pub fn start(specs: Vec<(Name, ServerSpec, Catalog)>, http: &reqwest::Client) -> Self {
        let start = |(name, spec, pinned): (Name, ServerSpec, Catalog)| {
            let server = Arc::new(Server {
                name: name.clone(),
                link: watch::Sender::new(Link::Opening { last: None }),
                suspect: watch::Sender::new(0),
                pinned: Mutex::new(pinned),
                stop: CancellationToken::new(),
                keeper: Mutex::new(None),
            });
            let keeper = tokio::spawn(keep(server.clone(), spec, http.clone()));
            *server.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
            (name, server)
        };
        Self(Arc::new(Kept(specs.into_iter().map(start).collect())))
    }

    /// Returns a server.
    pub(super) fn get(&self, name: &Name) -> Option<Arc<Server>> {
        self.0.0.get(name).cloned()
    }

    /// Takes over what is pinned of a server from here on.
    pub fn pin(&self, name: &Name, pinned: &Catalog) {
        if let Some(server) = self.0.0.get(name) {
            *server.pinned() = pinned.clone();
        }
    }

    /// Ends all connections and waits for it, within the time that a server has to end.
    pub async fn close(&self) {
        let closed = self.0.0.values().map(|server| async move {
            server.stop.cancel();
            let keeper = server.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(keeper) = keeper
                && let Err(error) = keeper.await
            {
                warn!(server = %server.name, %error, "the keeper of an MCP server failed");
            }
        });
        join_all(closed).await;
    }
}

/// One server, as its tools know it.
pub(super) struct Server {
    name: Name,
    link: watch::Sender<Link>,
    /// The serial at which a call last found the connection broken.
    suspect: watch::Sender<u64>,
    /// What people know of it; each tool compares itself with what it was pinned as.
    pinned: Mutex<Catalog>,
    stop: CancellationToken,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// How the connection stands.
#[derive(Clone)]
enum Link {
    /// It is being made; and why it was not there before, if that is known.
    Opening { last: Option<String> },
    /// It is there.
    Up(Arc<Up>),
    /// It cannot be made, and is tried again at some time.
    Away { why: String, until: Instant },
}

/// A connection that is there.
pub(super) struct Up {
    /// Grows with every connection and every look at the list.
    pub(super) serial: u64,
    pub(super) peer: Peer<RoleClient>,
    /// The calls that are under way on it.
    pub(super) calls: Arc<Calls>,
    /// What the server lists at present.
    pub(super) listed: Catalog,
}

impl Up {
    /// Says why a tool is not to be called, if it is not what was pinned of it.
    pub(super) fn off(&self, pinned: &Listed) -> Option<Off> {
        match self.listed.get(&pinned.name) {
            None => Some(Off::Gone),
            Some(there) => pinned.parts_changed(there).map(Off::Changed),
        }
    }
}

/// Why a pinned tool is not to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Off {
    /// It is another one, and in what.
    Changed(Vec<&'static str>),
    /// The server has it no longer.
    Gone,
}

impl Off {
    pub(super) fn to_error(&self, server: &Name, tool: &str) -> WireError {
        match self {
            Self::Changed(parts) => WireError::new(
                ErrorCode::ToolChanged,
                format!(
                    "tool {tool:?} of MCP server {server} is switched off: its {} changed since it \
                     was pinned, and nobody has approved that",
                    parts.join(" and ")
                ),
            ),
            Self::Gone => WireError::new(
                ErrorCode::ToolUnavailable,
                format!("MCP server {server} has no tool {tool:?} any more"),
            ),
        }
    }
}

impl Server {
    fn pinned(&self) -> MutexGuard<'_, Catalog> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection once there is one later than `after`, or says that there is none.
    pub(super) async fn up(&self, after: u64, end: Instant) -> Result<Arc<Up>, WireError> {
        let mut link = self.link.subscribe();
        // One that starts with the team is on its way, and nothing is known against it.
        let is_tried = |link: &Link| !matches!(link, Link::Opening { last: None });
        tokio::select! {
            _ = timeout_at(end, link.wait_for(is_tried)) => {}
            () = self.stop.cancelled() => {}
        }
        let patience = end.min(Instant::now() + AWAY_MAX);
        let is_clear = |link: &Link| match link {
            Link::Up(up) => up.serial > after,
            Link::Opening { .. } => false,
            Link::Away { until, .. } => *until > patience,
        };
        let found = timeout_at(patience, link.wait_for(is_clear)).await;
        let found = found.ok().and_then(Result::ok).map(|link| link.clone());
        let found = found.unwrap_or_else(|| self.link.borrow().clone());
        let (why, wait) = match found {
            Link::Up(up) if up.serial > after => return Ok(up),
            Link::Up(_) => ("its connection broke".to_owned(), BACKOFF_MIN),
            Link::Opening { last } => {
                (last.unwrap_or_else(|| "it has not started yet".to_owned()), BACKOFF_MIN)
            }
            Link::Away { why, until } => (why, until.saturating_duration_since(Instant::now())),
        };
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let text = format!(
            "MCP server {} is away: {why}; it is tried again in {:.1} s, and the call was not made",
            self.name,
            wait.as_secs_f64()
        );
        Err(WireError::new(ErrorCode::ToolUnavailable, text).retry_after(millis.max(1)))
    }

    /// Says that the connection of a serial is broken, so that it is made anew.
    pub(super) fn suspect(&self, serial: u64) {
        self.suspect.send_if_modified(|last| {
            let is_later = serial > *last;
            *last = serial.max(*last);
            is_later
        });
    }
}

/// Why a connection is over.
enum Over {
    Stopped,
    Lost(String),
}

async fn keep(server: Arc<Server>, spec: ServerSpec, http: reqwest::Client) {
    let name = server.name.clone();
    let (mut wait, mut serial) = (BACKOFF_MIN, 0);
    let mut last = None;
    loop {
        server.link.send_replace(Link::Opening { last: last.take() });
        let opened = open(&name, &spec, &http, &server.stop).await;
        let why = match opened {
            Ok((connection, listed)) => {
                info!(server = %name, tools = listed.tools.len(), "MCP server is there");
                let began = Instant::now();
                let over =
                    attend(&server, &connection, spec.start_timeout, listed, &mut serial).await;
                if began.elapsed() > SOUND_AFTER {
                    wait = BACKOFF_MIN;
                }
                let why = match over {
                    Over::Stopped => {
                        connection.close().await;
                        return;
                    }
                    Over::Lost(why) => why,
                };
                server.link.send_replace(Link::Opening { last: Some(why.clone()) });
                connection.close().await;
                why
            }
            Err(_) if server.stop.is_cancelled() => return,
            Err(why) => why,
        };
        warn!(server = %name, why, ?wait, "MCP server is away and will be tried again");
        last = Some(why.clone());
        server.link.send_replace(Link::Away { why, until: Instant::now() + wait });
        tokio::select! {
            () = server.stop.cancelled() => return,
            () = sleep(wait) => {}
        }
        wait = (wait * 2).min(BACKOFF_MAX);
    }
}

/// Serves calls by a connection until it is over; looks again whenever the list may be another one,
/// or a call found nobody there.
async fn attend(
    server: &Server,
    connection: &Connection,
    list_time: Duration,
    mut listed: Catalog,
    serial: &mut u64,
) -> Over {
    let mut suspect = server.suspect.subscribe();
    tell(&server.name, &server.pinned(), &listed);
    loop {
        *serial += 1;
        let current = *serial;
        let peer = connection.peer.clone();
        let calls = connection.calls.clone();
        let up = Up { serial: current, peer, calls, listed: listed.clone() };
        server.link.send_replace(Link::Up(Arc::new(up)));
        // A server may say more often that its list changed than it does.
        loop {
            let is_suspect = tokio::select! {
                () = server.stop.cancelled() => return Over::Stopped,
                () = connection.ended() => return Over::Lost("it ended".to_owned()),
                _ = suspect.wait_for(|serial| *serial >= current) => true,
                () = connection.may_have_changed() => false,
            };
            sleep(LOOK_PAUSE).await;
            let again = tokio::select! {
                () = server.stop.cancelled() => return Over::Stopped,
                () = connection.ended() => return Over::Lost("it ended".to_owned()),
                again = look_again(&server.name, connection, list_time) => again,
            };
            match again {
                Ok(again) if again == listed => {
                    // Other calls wait for the connection to be found sound.
                    if is_suspect {
                        break;
                    }
                }
                Ok(again) => {
                    listed = again;
                    tell(&server.name, &server.pinned(), &listed);
                    break;
                }
                Err(why) => return Over::Lost(why),
            }
        }
    }
}

/// Says in what a list differs from what is pinned.
fn tell(server: &Name, pinned: &Catalog, listed: &Catalog) {
    for change in pinned.changes(listed) {
        match change {
            Change::New(tool) => {
                info!(%server, tool, "MCP server has a new tool, which is offered once approved");
            }
            Change::Gone(tool) => warn!(%server, tool, "MCP server has a tool no longer"),
            Change::Changed { tool, parts } => {
                warn!(%server, tool, ?parts, "MCP tool changed and is switched off until approved");
            }
        }
    }
}

/// Asks a server once for its tools; its connection is closed after that.
pub async fn list(
    name: &Name,
    spec: &ServerSpec,
    http: &reqwest::Client,
) -> Result<Catalog, WireError> {
    match open(name, spec, http, &CancellationToken::new()).await {
        Ok((connection, listed)) => {
            connection.close().await;
            Ok(listed)
        }
        Err(why) => {
            let text = format!("MCP server {name} does not list its tools: {why}");
            Err(WireError::new(ErrorCode::ToolUnavailable, text))
        }
    }
}

/// Makes a connection and looks what is listed, unless it is told to stop. Where that fails, nothing
/// of the server's program is left.
async fn open(
    name: &Name,
    spec: &ServerSpec,
    http: &reqwest::Client,
    stop: &CancellationToken,
) -> Result<(Connection, Catalog), String> {
    let programs = TaskTracker::new();
    let opening = timeout(spec.start_timeout, async {
        let connection = dial(name, spec, http, &programs).await?;
        let listed = look(name, &connection.peer).await.map_err(|unlisted| unlisted.why)?;
        Ok((connection, listed))
    });
    let opened = tokio::select! {
        () = stop.cancelled() => Err("it was stopped".to_owned()),
        opened = opening => opened.unwrap_or_else(|_| {
            Err(format!("it was not ready within {:.1} s", spec.start_timeout.as_secs_f64()))
        }),
    };
    if opened.is_err() {
        programs.close();
        programs.wait().await;
    }
    opened
}
