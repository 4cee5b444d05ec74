//! What a tool is to the runtime: it is called with valid arguments and answers once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use wire::hop::HopReport;
use wire::plan::Labels;
use wire::run::Budget;
use wire::{
    CallKey, EffectClass, ErrorCode, Name, RunId, SessionId, Timestamp, ToolReply, TraceContext,
};

use crate::builtin::Builtin;
use crate::client::HttpClient;
use crate::cloudevent::replies::Replies;
use crate::cloudevent::{EventSpec, EventTool};
use crate::command::{CommandSpec, CommandTool, Launcher};
use crate::http::{HttpSpec, HttpTool};
use crate::interim::Interim;
use crate::mcp::{McpSpec, McpTool, Servers};
use crate::memory::Memory;
use crate::messenger::Messenger;
use crate::model::{ModelSpec, ModelTool, Models};
use crate::nats::{NatsSpec, NatsTool};
use crate::query::{Databases, QuerySpec, QueryTool};
use crate::results::Results;

/// The time before the end of a call in which a tool that waits for others gives up and says what
/// it knows. At most a tenth of the call's time.
const ANSWER_MARGIN: Duration = Duration::from_millis(100);

/// Something that an agent may call.
pub trait Tool: Send + Sync {
    /// Runs one call. `arguments` obey the tool's schema; errors are outcomes, not panics.
    ///
    /// A tool that cannot know whether the call took effect says [`ToolReply::Lost`]; what follows
    /// from that is not the tool's to decide.
    ///
    /// When the call's time is over or nobody wants its outcome any more, [`ToolContext::stop`] is
    /// cancelled and the future is dropped, after [`Self::stop_grace`].
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply>;

    /// Waits for the outcome of a call that an earlier process made, and does not make it again.
    ///
    /// Asked for only of tools whose offer says that they can; others know nothing of such a call.
    fn rejoin<'a>(
        &'a self,
        context: &'a ToolContext,
        _arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        let text = format!("{} does not know what came of a call before its restart", context.tool);
        Box::pin(async move { ToolReply::lost(ErrorCode::ToolUnavailable, text) })
    }

    /// Returns how long a call that was told to stop has to put things in order before its future
    /// is dropped, such as to end a process of its own. Its reply is not waited for.
    fn stop_grace(&self) -> Duration {
        Duration::ZERO
    }
}

/// Who calls, and within which bounds.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The key of the call, the same on every attempt.
    pub call: CallKey,
    /// The team.
    pub team: Name,
    /// The tool's name in the team.
    pub tool: Name,
    /// The agent that calls.
    pub agent: Name,
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
    /// The span of this attempt at the call, below which the other side reports.
    pub trace: TraceContext,
    /// What the attempt meets outside.
    pub hop: HopLog,
    /// The time at the start of the call.
    pub now: Timestamp,
    /// The time that is left.
    pub remaining: Duration,
    /// What the call may use, if the tool asks a model.
    pub budget: Budget,
    /// Whether the run that calls has read untrusted words, so that its arguments may hold some.
    pub tainted: bool,
    /// What the call has to say before it is over.
    pub interim: Interim,
    /// Cancelled when the call is to stop.
    pub stop: CancellationToken,
}

/// What a call meets outside, noted while it is under way, so that it is known of calls that are
/// given up too.
#[derive(Clone, Debug, Default)]
pub struct HopLog(Arc<Mutex<HopReport>>);

impl HopLog {
    /// Notes something.
    pub fn note(&self, change: impl FnOnce(&mut HopReport)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns what was noted so far.
    pub fn report(&self) -> HopReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ToolContext {
    /// Returns the time in which a tool answers by itself, because it knows what its caller does
    /// not, such as whether anything was sent.
    pub(crate) fn answer_time(&self) -> Duration {
        self.remaining.saturating_sub(self.answer_margin())
    }

    /// Waits until that time is over, of which none passes while a person is asked.
    pub(crate) async fn answer_time_over(&self) {
        self.interim.nearly_over(self.answer_margin()).await;
    }

    fn answer_margin(&self) -> Duration {
        ANSWER_MARGIN.min(self.remaining / 10)
    }
}

/// A tool as a team file describes it, checked but not connected to anything.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolKind {
    /// One that comes with the runtime.
    Builtin(Builtin),
    /// An event, and the one that answers it.
    CloudEvent(EventSpec),
    /// A program of the machine.
    Command(CommandSpec),
    /// A request to an HTTP server.
    Http(HttpSpec),
    /// A tool of an MCP server.
    Mcp(McpSpec),
    /// A question to a model of the team.
    Model(ModelSpec),
    /// A request on a subject of NATS.
    Nats(NatsSpec),
    /// Statements on a database of the team.
    Query(QuerySpec),
}

/// What tools need from the node they run on.
#[derive(Clone)]
pub struct ToolDeps {
    /// The memory of the team.
    pub memory: Arc<dyn Memory>,
    /// The client of all HTTP tools.
    pub http: HttpClient,
    /// The models of the team.
    pub models: Arc<dyn Models>,
    /// The MCP servers of the team.
    pub servers: Servers,
    /// The calls of the team that wait for events.
    pub replies: Replies,
    /// The bus.
    pub messenger: Arc<dyn Messenger>,
    /// The databases of the team.
    pub databases: Databases,
    /// What starts the programs of tools.
    pub launcher: Arc<Launcher>,
    /// The results that were cut.
    pub results: Results,
}

impl ToolKind {
    /// Returns what may be repeated where the team file says nothing.
    pub fn effect(&self) -> EffectClass {
        match self {
            Self::Builtin(builtin) => builtin.effect(),
            Self::CloudEvent(spec) => spec.effect,
            Self::Command(spec) => spec.effect(),
            Self::Http(spec) => spec.effect(),
            Self::Mcp(spec) => spec.effect,
            Self::Model(spec) => spec.effect(),
            Self::Nats(spec) => spec.effect(),
            Self::Query(spec) => spec.effect,
        }
    }

    /// Returns how many bytes of a result are read; nothing for kinds that cut theirs where it
    /// makes sense to them, such as between two rows.
    pub fn response_bytes_max(&self) -> Option<usize> {
        match self {
            Self::CloudEvent(spec) => Some(spec.response_bytes_max),
            Self::Command(spec) => Some(spec.response_bytes_max),
            Self::Http(spec) => Some(spec.response_bytes_max),
            Self::Mcp(spec) => Some(spec.response_bytes_max),
            Self::Nats(spec) => Some(spec.response_bytes_max),
            Self::Builtin(_) | Self::Model(_) | Self::Query(_) => None,
        }
    }

    /// Returns the tool as it is where somebody else cuts its results: more of them is read.
    #[must_use]
    pub fn reading(mut self, bytes_max: usize) -> Self {
        let read = match &mut self {
            Self::CloudEvent(spec) => &mut spec.response_bytes_max,
            Self::Command(spec) => &mut spec.response_bytes_max,
            Self::Http(spec) => &mut spec.response_bytes_max,
            Self::Mcp(spec) => &mut spec.response_bytes_max,
            Self::Nats(spec) => &mut spec.response_bytes_max,
            Self::Builtin(_) | Self::Model(_) | Self::Query(_) => return self,
        };
        *read = bytes_max.max(*read);
        self
    }

    /// Returns what comes in by a tool and what goes out, where the team file says nothing.
    pub fn labels(&self, effect: EffectClass) -> Labels {
        let changes = effect != EffectClass::Read;
        match self {
            // What they tell came from the team itself, or is marked by them.
            Self::Builtin(_) | Self::Model(_) => Labels::NONE,
            // A program that reaches servers reads what they say and tells them what it was given.
            Self::Command(spec) if spec.reaches_network() => {
                Labels { untrusted: true, external: true, ..Labels::NONE }
            }
            Self::Command(_) => Labels { external: changes, ..Labels::NONE },
            // An address that a model has a part in tells its host whatever stands in it.
            Self::Http(spec) if spec.host_varies() => {
                Labels { untrusted: true, external: true, ..Labels::NONE }
            }
            Self::CloudEvent(_) | Self::Http(_) | Self::Mcp(_) | Self::Nats(_) => {
                Labels { untrusted: true, external: changes, ..Labels::NONE }
            }
            Self::Query(_) => Labels { private: true, external: changes, ..Labels::NONE },
        }
    }
}

/// Makes a tool ready to be called.
pub fn build(kind: &ToolKind, deps: &ToolDeps) -> Arc<dyn Tool> {
    match kind {
        ToolKind::Builtin(builtin) => builtin.build(deps),
        ToolKind::CloudEvent(spec) => {
            let (http, messenger) = (deps.http.written().clone(), deps.messenger.clone());
            Arc::new(EventTool::new(spec.clone(), http, messenger, deps.replies.clone()))
        }
        ToolKind::Command(spec) => Arc::new(CommandTool::new(spec.clone(), &deps.launcher)),
        ToolKind::Http(spec) => Arc::new(HttpTool::new(spec.clone(), deps.http.clone())),
        ToolKind::Mcp(spec) => Arc::new(McpTool::new(spec.clone(), &deps.servers)),
        ToolKind::Model(spec) => Arc::new(ModelTool::new(spec.clone(), deps.models.clone())),
        ToolKind::Nats(spec) => Arc::new(NatsTool::new(spec, deps.messenger.clone())),
        ToolKind::Query(spec) => Arc::new(QueryTool::new(spec.clone(), &deps.databases)),
    }
}
