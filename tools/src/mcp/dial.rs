//! Makes a connection to a server: starts a program, or opens a session over HTTP.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ProgressNotificationParam, ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _,
    NotificationContext, Peer, RequestContext, RoleClient, RunningService,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::ExposeSecret as _;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::debug;
use wire::Name;

use super::ask::elicit;
use super::calls::Calls;
use super::fault::{causes, is_connect};
use super::pipes::Pipes;
use super::posts::Posts;
use super::program::{self, Program};
use super::{ServerSpec, Setting, Transport};
use crate::secret::clean;

/// How long a connection may take to be over once it is to be; a server that takes in nothing more
/// may hold it for longer.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// Requests to one server over HTTP at once; each tool has a bound of its own before that.
const REQUESTS_MAX: usize = 256;

/// Letters of the last words of a program that are kept, to be told if it cannot be started.
const LAST_WORDS_MAX: usize = 1024;

/// How long the last words of a program that ended are waited for; what it leaves behind may keep
/// its standard error open for longer.
const LAST_WORDS_WAIT: Duration = Duration::from_millis(200);

/// How often a server over HTTP is asked for its list: another one may stand at its address between
/// two requests, and many say nothing of changes. Where the server answers, one that changed is used
/// for no longer than that, and a request a minute costs it next to nothing.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How long to wait before a stream of changes that ended is opened again.
const LISTEN_PAUSE: Duration = Duration::from_secs(5);

/// An open connection. Dropping it ends the server's program and all that it started.
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    /// The calls that are under way on it.
    pub(super) calls: Arc<Calls>,
    /// Told when the server says that its list of tools changed.
    changed: Arc<Notify>,
    /// Ends the connection when dropped.
    unwanted: Option<DropGuard>,
    /// Cancelled when the connection is over.
    over: CancellationToken,
    /// Keeps the server's processes, if it is a program.
    keeper: Option<JoinHandle<()>>,
    /// Follows changes of servers that only tell those who listen.
    listener: Option<JoinHandle<()>>,
}

impl Connection {
    /// Ends the connection, and waits until nothing of the server's program is left.
    pub(super) async fn close(mut self) {
        drop(self.unwanted.take());
        self.over.cancelled().await;
        if let Some(keeper) = self.keeper.take()
            && let Err(error) = keeper.await
        {
            debug!(%error, "the keeper of an MCP server's processes failed");
        }
    }

    /// Tells whether the server is a program, and not reached over HTTP.
    pub(super) fn is_program(&self) -> bool {
        self.keeper.is_some()
    }

    /// Waits until the server's list may be another one than it was.
    pub(super) async fn may_have_changed(&self) {
        let unsaid = async {
            if self.is_program() {
                pending::<()>().await;
            }
            sleep(LOOK_EVERY).await;
        };
        tokio::select! {
            () = self.changed.notified() => {}
            () = unsaid => {}
        }
    }

    /// Waits until the connection is over.
    pub(super) async fn ended(&self) {
        self.over.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

/// Connects to a server. The error says why not, without secrets.
///
/// The server's program is among `programs` until nothing of it is left, also if this future is
/// dropped.
pub(super) async fn dial(
    name: &Name,
    spec: &ServerSpec,
    http: &reqwest::Client,
    programs: &TaskTracker,
) -> Result<Connection, String> {
    let over = CancellationToken::new();
    let holds = over.clone().drop_guard();
    let changed = Arc::new(Notify::new());
    let calls = Arc::new(Calls::default());
    let handler = Handler {
        server: name.clone(),
        changed: changed.clone(),
        calls: calls.clone(),
        elicitation: spec.elicitation,
    };
    let (running, keeper) = match &spec.transport {
        Transport::Process { command, directory, env } => {
            let values = resolved(env)?;
            let started = program::start(command, directory, &values, over.clone(), programs)?;
            let Program { input, output, errors, keeper } = started;
            let words = LastWords::default();
            let followed = tokio::spawn(follow(name.clone(), errors, words.clone()));
            let pipes = Pipes::new(AsyncRwTransport::new(output, input), calls.clone());
            match handler.serve_with_lifecycle(pipes, auto()).await {
                Ok(running) => (running, Some(keeper)),
                Err(error) => {
                    drop(timeout(LAST_WORDS_WAIT, followed).await);
                    let said = words.text();
                    let said = if said.is_empty() { said } else { format!("; it said: {said}") };
                    return Err(clean(causes(&error) + &said));
                }
            }
        }
        Transport::Http { url, headers } => {
            let values = resolved(headers)?;
            let headers = header_map(values)?;
            let served = serve_http(&handler, url, &headers, http).await;
            (served.map_err(|error| clean(causes(&*error)))?, None)
        }
    };
    let peer = running.peer().clone();
    // Whoever asks for the list wants to know what is there at present.
    peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
    let listener = must_listen(&peer).then(|| tokio::spawn(listen(peer.clone(), changed.clone())));
    let unwanted = CancellationToken::new();
    programs.spawn(attend(running, unwanted.clone(), holds));
    let unwanted = Some(unwanted.drop_guard());
    Ok(Connection { peer, calls, changed, unwanted, over, keeper, listener })
}

/// Waits until a connection is over, and sees to it once it is unwanted.
async fn attend(
    running: RunningService<RoleClient, Handler>,
    unwanted: CancellationToken,
    holds: DropGuard,
) {
    let end = running.cancellation_token();
    let mut waiting = std::pin::pin!(running.waiting());
    let reason = tokio::select! {
        reason = &mut waiting => Some(reason),
        () = unwanted.cancelled() => {
            end.cancel();
            timeout(CLOSE_MAX, waiting).await.ok()
        }
    };
    debug!(?reason, "the connection to an MCP server is over");
    drop(holds);
}

/// The current protocol first, and the handshake of older ones if the server does not know it.
pub(super) fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: None,
    }
}

async fn serve_http(
    handler: &Handler,
    url: &str,
    headers: &HashMap<HeaderName, HeaderValue>,
    http: &reqwest::Client,
) -> Result<RunningService<RoleClient, Handler>, Box<ClientInitializeError>> {
    let transport = || {
        let config = StreamableHttpClientTransportConfig::with_uri(url)
            .custom_headers(headers.clone())
            .max_concurrent_requests(REQUESTS_MAX)
            // A session that is opened anew unseen may be that of another server, and the library
            // tells the calls of the old one as refused.
            .reinit_on_expired_session(false);
        StreamableHttpClientTransport::with_client(Posts::new(http.clone()), config)
    };
    match handler.clone().serve_with_lifecycle(transport(), auto()).await {
        Ok(running) => Ok(running),
        Err(error) if is_connect(&error) => Err(Box::new(error)),
        // Older servers refuse what is no handshake in more ways than the protocol tells.
        Err(_) => {
            let mode = ClientLifecycleMode::Initialize;
            handler.clone().serve_with_lifecycle(transport(), mode).await.map_err(Box::new)
        }
    }
}

/// Reads the secrets of settings.
fn resolved(settings: &[(String, Setting)]) -> Result<Vec<(String, String)>, String> {
    let mut values = Vec::new();
    for (name, setting) in settings {
        let value = match setting {
            Setting::Text(text) => text.clone(),
            Setting::Secret { prefix, secret } => {
                let secret = secret.resolve().map_err(|error| error.to_string())?;
                format!("{prefix}{}", secret.expose_secret())
            }
        };
        values.push((name.clone(), value));
    }
    Ok(values)
}

fn header_map(headers: Vec<(String, String)>) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): (String, String)| {
        let known = HeaderName::try_from(name.as_str());
        let known = known.map_err(|_| format!("{name:?} is no name of a header"))?;
        // The value may be a secret, so it is not repeated.
        let value = HeaderValue::try_from(value);
        let mut value = value.map_err(|_| format!("the value of header {name} cannot be sent"))?;
        value.set_sensitive(true);
        Ok((known, value))
    };
    headers.into_iter().map(header).collect()
}

/// Writes what a program says on its standard error into the log, and keeps its last words.
async fn follow(server: Name, mut stderr: ChildStderr, words: LastWords) {
    let mut buffer = vec![0; LAST_WORDS_MAX];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let text = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default());
        words.add(&text);
        let text = clean(text.trim_end().to_owned());
        debug!(%server, text, "an MCP server says");
    }
}

/// The end of what a program said.
#[derive(Clone, Default)]
struct LastWords(Arc<Mutex<VecDeque<char>>>);

impl LastWords {
    fn add(&self, text: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(text.chars());
        let over = kept.len().saturating_sub(LAST_WORDS_MAX);
        kept.drain(..over);
    }

    fn text(&self) -> String {
        let kept: String = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().collect();
        kept.trim().to_owned()
    }
}

/// Tells whether a server speaks of changes only to those who listen.
fn must_listen(peer: &Peer<RoleClient>) -> bool {
    peer.peer_info().is_some_and(|info| {
        let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
        tells == Some(true) && !info.protocol_version.has_initialize()
    })
}

async fn listen(peer: Peer<RoleClient>, changed: Arc<Notify>) {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    while let Ok(mut subscription) = peer.listen(filter.clone()).await {
        while let Ok(Some(_)) = subscription.next().await {
            changed.notify_one();
        }
        sleep(LISTEN_PAUSE).await;
        // What changed while nobody listened was not told.
        changed.notify_one();
    }
}

/// What a server is told of us, and what it may tell us.
///
/// It offers to ask people where the team lets the server, and nothing else: no sampling, no roots.
/// A question of an older server that asks without leave is declined.
#[derive(Clone)]
struct Handler {
    server: Name,
    changed: Arc<Notify>,
    calls: Arc<Calls>,
    elicitation: bool,
}

impl ClientHandler for Handler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.calls.progress(progress);
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if !self.elicitation {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        tokio::select! {
            result = elicit(&self.server, &self.calls, request) => Ok(result),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("callboard", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        if self.elicitation {
            let form = FormElicitationCapability::default();
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        }
        ClientConfig::new(capabilities, own)
    }
}
