//! Runs one team: its models, its tools, its sessions and its door, and restarts what fails.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use agents_core::restart::{Faults, RestartPolicy, Verdict};
use bus::{Endpoint, Service, ServiceInfo};
use config::team::TeamTool;
use model::{Guards, ModelClients};
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent,
};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tools::client::HttpClient;
use tools::results::RESULT_BYTES_MAX;
use tools::{ToolDeps, build};
use tracing::{error, info, warn};
use wire::Name;

use crate::context::TeamContext;
use crate::error::Error;
use crate::event_replies;
use crate::feed::{Feed, QUEUE_GROUP};
use crate::inbox::Inbox;
use crate::look;
use crate::memory::TeamMemory;
use crate::messenger::BusMessenger;
use crate::metrics::{Load, MODEL, TOOL};
use crate::model_actor::{ModelActor, ModelArgs};
use crate::models::TeamModels;
use crate::opening::Unfinished;
use crate::present::Refreshed;
use crate::servers;
use crate::sessions::{SessionSupervisor, SessionsMsg};
use crate::tool_actor::{Definition, ToolActor, ToolArgs, ToolMsg};
use crate::worklist;

pub(crate) struct TeamSupervisor;

pub(crate) enum TeamMsg {
    /// Takes up sessions that were in work when the node last ended, and opens the door.
    Open(Unfinished, RpcReplyPort<Result<(), Error>>),
    /// Starts a part that failed again.
    Restart(Part),
    /// Takes over what changed of the tools, and tells it.
    Change(Arc<config::Team>, RpcReplyPort<Refreshed>),
    /// Lets tools go that no run needs any more.
    Release,
    /// Closes the door: no new runs are taken.
    Close,
}

/// A supervised part of a team, besides its sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Model(Name),
    Tool(Name),
}

impl Part {
    /// Returns the word for its kind.
    const fn word(&self) -> &'static str {
        match self {
            Self::Model(_) => MODEL,
            Self::Tool(_) => TOOL,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(name) | Self::Tool(name) => write!(f, "{} {name}", self.word()),
        }
    }
}

pub(crate) struct TeamArgs {
    pub(crate) context: Arc<TeamContext>,
    pub(crate) http: HttpClient,
    /// What is known of the servers of models, by all teams of the node.
    pub(crate) guards: Arc<Guards>,
    /// Where the supervisor of the sessions is told.
    pub(crate) sessions: oneshot::Sender<ActorRef<SessionsMsg>>,
    /// When the node started, in RFC 3339.
    pub(crate) started: String,
}

pub(crate) struct TeamState {
    context: Arc<TeamContext>,
    /// Outlive the actors that use them, so that what was learned of a server is kept.
    clients: ModelClients,
    deps: ToolDeps,
    sessions: ActorRef<SessionsMsg>,
    began: Instant,
    parts: HashMap<ActorId, Part>,
    /// The tools that are there, in their present form.
    tools: HashMap<Name, ActorRef<ToolMsg>>,
    faults: HashMap<Part, Faults>,
    /// Comes back for the next tool that no run needs.
    wake: Option<AbortHandle>,
    inbox: Option<Inbox>,
    _stops: Vec<Feed>,
    _event_replies: Vec<Feed>,
}

impl Actor for TeamSupervisor {
    type Msg = TeamMsg;
    type State = TeamState;
    type Arguments = TeamArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<TeamMsg>,
        args: TeamArgs,
    ) -> Result<TeamState, ActorProcessingErr> {
        let TeamArgs { context, http, guards, sessions: told, started } = args;
        // All are known before anything from outside is read. Whoever needs one that is missing
        // says so itself.
        for secret in &context.team.secrets {
            drop(secret.resolve());
        }
        let memory = Arc::new(TeamMemory::new(context.clone()));
        let models = Arc::new(TeamModels::new(context.clone()));
        let clients = ModelClients::new(&context.team, &guards, http.written())
            .map_err(|error| Error::Prepare { what: "the models".to_owned(), error })?;
        let databases = context.databases.clone();
        let launcher = context.launcher.clone();
        let servers = servers::start(&context.team, http.written())?;
        // This actor is started once, so nobody else has set it.
        drop(context.servers.set(servers.clone()));
        let replies = context.event_replies.clone();
        let messenger = Arc::new(BusMessenger::new(&context.bus, &context.subjects));
        let results = context.results.clone();
        let deps = ToolDeps {
            memory,
            http,
            models,
            servers,
            messenger,
            replies,
            databases,
            launcher,
            results,
        };
        let (sessions, _) = SessionSupervisor::spawn_linked(
            None,
            SessionSupervisor,
            context.clone(),
            myself.get_cell(),
        )
        .await?;
        let service = Service::start(&context.bus, service_info(&context, started)).await?;
        // This actor is started once, so nobody else has set it.
        drop(context.service.set(service));
        let stops =
            worklist::listen(&context.bus, &context.subjects, &context.team.name, &context.work);
        let stops = stops.await?;
        let event_replies = event_replies::listen(&context).await?;
        let mut state = TeamState {
            context,
            clients,
            deps,
            sessions: sessions.clone(),
            began: Instant::now(),
            parts: HashMap::new(),
            tools: HashMap::new(),
            faults: HashMap::new(),
            wake: None,
            inbox: None,
            _stops: stops,
            _event_replies: event_replies,
        };
        let team = state.context.team.clone();
        let models = team.models.keys().cloned().map(Part::Model);
        for part in models.chain(team.tools.keys().cloned().map(Part::Tool)) {
            state.start(&myself, part).await?;
        }
        drop(told.send(sessions));
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<TeamMsg>,
        msg: TeamMsg,
        state: &mut TeamState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            TeamMsg::Open(unfinished, told) => {
                let opened = state.open(unfinished).await;
                // Whoever asked may have given up waiting.
                drop(told.send(opened));
            }
            TeamMsg::Restart(part) => state.restart(&myself, part).await,
            TeamMsg::Change(team, told) => {
                let refreshed = state.change(&myself, &team).await;
                // Whoever asked may have given up waiting.
                drop(told.send(refreshed));
            }
            TeamMsg::Release => state.release(&myself),
            TeamMsg::Close => state.inbox = None,
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<TeamMsg>,
        event: SupervisionEvent,
        state: &mut TeamState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(actor, fault) => state.on_fault(&myself, &actor, fault),
            SupervisionEvent::ActorTerminated(actor, ..) => {
                state.forget(&actor.get_id());
                Ok(())
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => Ok(()),
        }
    }
}

impl TeamState {
    async fn open(&mut self, unfinished: Unfinished) -> Result<(), Error> {
        // Before there is anybody who could take their places.
        self.context.places.take_up(unfinished.runs);
        for session in unfinished.sessions {
            info!(%session, "session taken up again");
            drop(self.sessions.cast(SessionsMsg::Activate { session }));
        }
        // The door opens last, when all who stand behind it are there.
        self.inbox = Some(Inbox::open(&self.context, &self.sessions).await?);
        Ok(())
    }

    async fn start(&mut self, myself: &ActorRef<TeamMsg>, part: Part) -> Result<(), Error> {
        let context = self.context.clone();
        let id = match &part {
            Part::Model(name) => {
                let Some(client) = self.clients.client(name).cloned() else { return Ok(()) };
                let asked = client.clone();
                context.loads.set(MODEL, name, move || {
                    let (taken, limit) = asked.load();
                    Load { taken, limit }
                });
                let args = ModelArgs { context: context.clone(), model: name.clone(), client };
                let cell = myself.get_cell();
                ModelActor::spawn_linked(None, ModelActor, args, cell).await?.0.get_id()
            }
            // One that failed may have been changed, and so started, before its time came.
            Part::Tool(name) if self.tools.contains_key(name) => return Ok(()),
            Part::Tool(name) => {
                let Some(tool) = context.present.tool(name) else { return Ok(()) };
                let args = ToolArgs {
                    context: context.clone(),
                    name: name.clone(),
                    definition: self.definition(&tool),
                    concurrency: tool.concurrency,
                };
                let cell = myself.get_cell();
                let actor = ToolActor::spawn_linked(None, ToolActor, args, cell).await?.0;
                let id = actor.get_id();
                self.tools.insert(name.clone(), actor);
                id
            }
        };
        self.parts.insert(id, part);
        Ok(())
    }

    async fn restart(&mut self, myself: &ActorRef<TeamMsg>, part: Part) {
        if let Err(failed) = self.start(myself, part.clone()).await {
            warn!(%part, error = %failed, "part not restarted");
            self.plan_restart(myself, part, &failed.to_string());
        }
    }

    fn definition(&self, tool: &TeamTool) -> Definition {
        // What stands in the team's text is there for as long as the team is, builtins among it.
        let is_read_on = self.context.team.tools.values().any(|tool| tool.offer.reads_results);
        let kind = tool.kind.clone();
        let kind = if is_read_on { kind.reading(RESULT_BYTES_MAX) } else { kind };
        Definition {
            tool: build(&kind, &self.deps),
            offer: tool.offer.clone(),
            shown_bytes_max: tool.kind.response_bytes_max().filter(|_| is_read_on),
        }
    }

    /// Takes over what changed of the tools. One that cannot be started is tried again, as after a
    /// fault.
    async fn change(&mut self, myself: &ActorRef<TeamMsg>, team: &Arc<config::Team>) -> Refreshed {
        let context = self.context.clone();
        for (name, server) in &team.servers {
            if let Some(catalog) = &server.catalog {
                self.deps.servers.pin(name, catalog);
            }
        }
        let refreshed = context.present.replace(team, Instant::now());
        for name in refreshed.added.iter().chain(&refreshed.changed) {
            let Some(tool) = team.tools.get(name) else { continue };
            if let Some(actor) = self.tools.get(name) {
                let (done, changed) = oneshot::channel();
                drop(actor.cast(ToolMsg::Change(Box::new(self.definition(tool)), done)));
                // One that is gone is started anew, in its new form.
                changed.await.unwrap_or_default();
            } else {
                self.faults.remove(&Part::Tool(name.clone()));
                self.restart(myself, Part::Tool(name.clone())).await;
            }
        }
        if let Some(service) = context.service.get()
            && let Err(error) = service.update(endpoints(&context, team))
        {
            warn!(%error, "those who list services are told of the tools as they were before");
        }
        self.release(myself);
        refreshed
    }

    /// Ends the tools that no run needs any more, and comes back for the next ones.
    fn release(&mut self, myself: &ActorRef<TeamMsg>) {
        let now = Instant::now();
        let next = self.context.present.release(now);
        // One that comes back before its actor has ended is a new one.
        for (name, actor) in self.tools.extract_if(|name, _| !self.context.present.serves(name)) {
            info!(tool = %name, "tool is gone");
            self.context.loads.remove(TOOL, &name);
            actor.stop(None);
        }
        // One more for each change of the tools would make ever more timers.
        if let Some(before) = self.wake.take() {
            before.abort();
        }
        self.wake = next.map(|next| {
            let wait = next.saturating_duration_since(now);
            myself.send_after(wait, || TeamMsg::Release).abort_handle()
        });
    }

    fn forget(&mut self, actor: &ActorId) -> Option<Part> {
        let part = self.parts.remove(actor)?;
        if let Part::Tool(name) = &part
            && self.tools.get(name).is_some_and(|known| known.get_id() == *actor)
        {
            self.tools.remove(name);
        }
        Some(part)
    }

    fn on_fault(
        &mut self,
        myself: &ActorRef<TeamMsg>,
        actor: &ActorCell,
        fault: ActorProcessingErr,
    ) -> Result<(), ActorProcessingErr> {
        match self.forget(&actor.get_id()) {
            Some(part) => {
                self.plan_restart(myself, part, &fault.to_string());
                Ok(())
            }
            // Without its sessions a team is nothing: the node has to start anew.
            None => Err(fault),
        }
    }

    fn plan_restart(&mut self, myself: &ActorRef<TeamMsg>, part: Part, fault: &str) {
        let faults = self.faults.entry(part.clone()).or_default();
        match faults.on_fault(self.began.elapsed(), &RestartPolicy::SERVICE) {
            Verdict::Restart(wait) => {
                self.context.metrics.restarted(part.word());
                warn!(%part, fault, ?wait, "part failed, will be restarted");
                self.context.counters.note_restart();
                myself.send_after(wait, move || TeamMsg::Restart(part));
            }
            Verdict::GiveUp => {
                error!(%part, fault, "part failed too often and stays off; restart the daemon");
            }
        }
    }
}

/// Names the endpoint of an agent in the team's service.
pub(crate) fn agent_endpoint(agent: &Name) -> String {
    format!("agent-{agent}")
}

/// Names the endpoint of a tool in the team's service.
pub(crate) fn tool_endpoint(tool: &Name) -> String {
    format!("tool-{tool}")
}

/// Describes a team to those who list services.
fn service_info(context: &TeamContext, started: String) -> ServiceInfo {
    let team = &context.team;
    ServiceInfo {
        name: wire::subject::service_of(&team.name),
        id: context.shared.node.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        description: team.description.clone(),
        started,
        metadata: BTreeMap::from([
            ("team".to_owned(), team.name.to_string()),
            ("entry".to_owned(), team.entry.to_string()),
            (look::SUBJECTS.to_owned(), context.subjects.prefix().to_owned()),
        ]),
        endpoints: endpoints(context, team),
    }
}

/// Describes every agent and tool of a team with its schema.
fn endpoints(context: &TeamContext, team: &config::Team) -> Vec<Endpoint> {
    let metadata = |kind: &str, description: &str, schema: String| {
        BTreeMap::from([
            ("kind".to_owned(), kind.to_owned()),
            ("description".to_owned(), description.to_owned()),
            ("schema".to_owned(), schema),
        ])
    };
    let run_schema = run_schema().to_string();
    let agents = team.agents.values().map(|plan| Endpoint {
        name: agent_endpoint(&plan.agent),
        subject: context.subjects.agent_run(&team.name, &plan.agent),
        queue_group: QUEUE_GROUP.to_owned(),
        metadata: metadata("agent", &plan.description, run_schema.clone()),
    });
    let tools = team.tools.iter().map(|(name, tool)| Endpoint {
        name: tool_endpoint(name),
        subject: context.subjects.tool(&team.name, name),
        queue_group: QUEUE_GROUP.to_owned(),
        metadata: metadata(
            "tool",
            &tool.offer.spec.description,
            tool.offer.spec.parameters.to_string(),
        ),
    });
    agents.chain(tools).collect()
}

/// Returns the schema of a request for a run.
fn run_schema() -> serde_json::Value {
    serde_json::json!({
        "type": "object",
        "properties": {
            "input": {"type": "string", "description": "the message for the agent"},
            "session": {"type": "string", "description": "the conversation to go on with"},
            "run": {"type": "string", "description": "the client's idempotency key"},
            "timeout_ms": {"type": "integer", "minimum": 0},
            "budget": {
                "type": "object",
                "properties": {
                    "tokens": {"type": "integer", "minimum": 0},
                    "steps": {"type": "integer", "minimum": 0},
                    "calls": {"type": "integer", "minimum": 0},
                    "cost_nano_usd": {"type": "integer", "minimum": 0}
                },
                "additionalProperties": false
            }
        },
        "required": ["input"],
        "additionalProperties": false
    })
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;
    use std::time::Duration;

    use config::Team;
    use wire::run::{Budget, RunRequest};
    use wire::{Headers, RunId, SessionId};

    use super::*;
    use crate::testing::start;

    /// The longest wait for what has to happen at once, on a busy machine.
    const SOON: Duration = Duration::from_secs(20);

    /// A tool of the quickstart team.
    const SEARCH: &str = "search_internet";

    #[tokio::test]
    async fn a_tool_that_comes_back_while_its_actor_ends_is_served() {
        let data = tempfile::tempdir().unwrap();
        let node = start(data.path(), &["crew"], |_| {}).await;
        let handle = node.team("crew").unwrap();
        let (whole, search) = (handle.team(), Name::new(SEARCH).unwrap());
        let mut less = Team::clone(&whole);
        less.tools.remove(&search);
        assert_eq!(handle.refresh(less).await.unwrap().gone, from_ref(&search));
        // As when all runs that could call it are over.
        handle.context.present.release(Instant::now() + Duration::from_secs(86_400));
        // On the one thread that there is, its actor gets no turn between these.
        handle.actor.cast(TeamMsg::Release).unwrap();
        let change = |told| TeamMsg::Change(whole.clone(), told);
        let changed = ractor::call!(handle.actor, change).unwrap();
        assert_eq!(changed.added, from_ref(&search));
        let subject = handle.subjects().tool(&whole.name, &search);
        for _ in 0..3 {
            let asked = node.bus().request(&subject, Headers::new(), "{}".into(), SOON).await;
            assert!(asked.is_ok(), "{asked:?}");
        }
        node.drain(SOON).await;
    }

    #[tokio::test]
    async fn a_tool_that_is_there_is_not_started_once_more() {
        let data = tempfile::tempdir().unwrap();
        let node = start(data.path(), &["crew"], |_| {}).await;
        let handle = node.team("crew").unwrap();
        let parts = || handle.actor.get_children().len();
        let before = parts();
        let part = Part::Tool(Name::new(SEARCH).unwrap());
        handle.actor.cast(TeamMsg::Restart(part)).unwrap();
        // Answered when the team has dealt with the one before.
        let change = |told| TeamMsg::Change(handle.team(), told);
        assert!(ractor::call!(handle.actor, change).unwrap().is_empty());
        assert_eq!(parts(), before);
        node.drain(SOON).await;
    }

    #[test]
    fn the_schema_of_a_request_allows_what_a_request_may_say() {
        let budget =
            Budget { tokens: Some(1), steps: Some(1), cost_nano_usd: Some(1), calls: Some(1) };
        let request = RunRequest {
            input: "x".to_owned(),
            session: Some(SessionId::new("s").unwrap()),
            run: Some(RunId::new("r").unwrap()),
            timeout_ms: Some(1),
            budget: Some(budget),
            parent: None,
        };
        let request = serde_json::to_value(request).unwrap();
        assert!(jsonschema::is_valid(&run_schema(), &request), "{request}");
    }
}
